package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// statusWriter remembers the status of a response and its size. It is used where a limit follows the service's errors or a request is
// settled, and nowhere else: a handler should get the server's writer. What handlers ask of that is passed on; see watchStatus.
type statusWriter struct {
	http.ResponseWriter
	status int   // 0 before the header, and where the handler has not set one
	size   int64 // bytes of the body
}

// WriteHeader implements http.ResponseWriter. Informational responses are not the answer, but for the last one of a connection.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.size += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ReadFrom implements io.ReaderFrom, by which the server sends files without a buffer.
func (w *statusWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.size += n
	return n, err
}

// WriteString implements io.StringWriter.
func (w *statusWriter) WriteString(text string) (int, error) {
	n, err := io.WriteString(w.ResponseWriter, text)
	w.size += int64(n)
	return n, err
}

// flushWriter is of a writer that implements http.Flusher.
type flushWriter struct{ statusWriter }

// Flush implements http.Flusher.
func (w *flushWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// FlushError is for http.ResponseController.
func (w *flushWriter) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// hijackWriter is of a writer that implements http.Hijacker, too, as HTTP/1 does.
type hijackWriter struct{ flushWriter }

// Hijack implements http.Hijacker.
func (w *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.ResponseWriter.(http.Hijacker).Hijack()
}

// pushWriter is of a writer that implements http.Flusher and http.Pusher, as HTTP/2 does.
type pushWriter struct{ flushWriter }

// Push implements http.Pusher.
func (w *pushWriter) Push(target string, options *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, options)
}

// The servers of net/http implement the deprecated http.CloseNotifier beside what is above. Some frameworks ask for it without a
// look whether it is there.
type (
	notifyFlushWriter  struct{ flushWriter }
	notifyHijackWriter struct{ hijackWriter }
	notifyPushWriter   struct{ pushWriter }
)

// CloseNotify implements http.CloseNotifier.
func (w *notifyFlushWriter) CloseNotify() <-chan bool { return w.closeNotify() }

// CloseNotify implements http.CloseNotifier.
func (w *notifyHijackWriter) CloseNotify() <-chan bool { return w.closeNotify() }

// CloseNotify implements http.CloseNotifier.
func (w *notifyPushWriter) CloseNotify() <-chan bool { return w.closeNotify() }

func (w *statusWriter) closeNotify() <-chan bool {
	return w.ResponseWriter.(closeNotifier).CloseNotify()
}

// closeNotifier is http.CloseNotifier.
type closeNotifier interface{ CloseNotify() <-chan bool }

// watchStatus returns a writer for a handler, and where its status is remembered. A handler that asks for http.Flusher, Hijacker,
// Pusher or CloseNotifier finds what the server has, and no more: it may choose another way if one is missing.
func watchStatus(w http.ResponseWriter) (http.ResponseWriter, *statusWriter) {
	_, flushes := w.(http.Flusher)
	_, hijacks := w.(http.Hijacker)
	_, pushes := w.(http.Pusher)
	_, notifies := w.(closeNotifier)
	plain := statusWriter{ResponseWriter: w}

	// A handler may keep its writer, so it is not used again, and costs one allocation.
	switch {
	case notifies && flushes && hijacks:
		watched := &notifyHijackWriter{hijackWriter{flushWriter{plain}}}
		return watched, &watched.statusWriter
	case notifies && flushes && pushes:
		watched := &notifyPushWriter{pushWriter{flushWriter{plain}}}
		return watched, &watched.statusWriter
	case notifies && flushes:
		watched := &notifyFlushWriter{flushWriter{plain}}
		return watched, &watched.statusWriter
	case flushes && hijacks:
		watched := &hijackWriter{flushWriter{plain}}
		return watched, &watched.statusWriter
	case flushes && pushes:
		watched := &pushWriter{flushWriter{plain}}
		return watched, &watched.statusWriter
	case flushes:
		watched := &flushWriter{plain}
		return watched, &watched.statusWriter
	}
	watched := &statusWriter{ResponseWriter: w}
	return watched, watched
}
