package httplimit

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The parts that a server's writer may have.
type (
	plainParts struct{ http.ResponseWriter }
	flushParts struct {
		http.ResponseWriter
		http.Flusher
	}
	hijackParts struct {
		flushParts
		http.Hijacker
	}
	pushParts struct {
		flushParts
		http.Pusher
	}
	notifyFlushParts struct {
		flushParts
		closeNotifier
	}
	notifyHijackParts struct {
		hijackParts
		closeNotifier
	}
	notifyPushParts struct {
		pushParts
		closeNotifier
	}
)

// partsOf names the optional interfaces of a writer.
func partsOf(w http.ResponseWriter) (names string) {
	if _, is := w.(http.Flusher); is {
		names += "flusher "
	}
	if _, is := w.(http.Hijacker); is {
		names += "hijacker "
	}
	if _, is := w.(http.Pusher); is {
		names += "pusher "
	}
	if _, is := w.(closeNotifier); is {
		names += "close notifier "
	}
	return names
}

// A handler finds the optional interfaces that the server's writer has, and no others: it may choose its way by them.
func TestWatchedWriterHasTheSameParts(t *testing.T) {
	flushing := flushParts{ResponseWriter: httptest.NewRecorder()}
	hijacking, pushing := hijackParts{flushParts: flushing}, pushParts{flushParts: flushing}
	for _, w := range []http.ResponseWriter{
		httptest.NewRecorder(), plainParts{httptest.NewRecorder()}, flushing, hijacking, pushing,
		notifyFlushParts{flushParts: flushing}, notifyHijackParts{hijackParts: hijacking}, notifyPushParts{pushParts: pushing},
	} {
		watched, _ := watchStatus(w)
		if got, want := partsOf(watched), partsOf(w); got != want {
			t.Errorf("%T: %q, want %q", w, got, want)
		}
		if inner := watched.(interface{ Unwrap() http.ResponseWriter }).Unwrap(); inner != w {
			t.Errorf("%T: a ResponseController finds %T", w, inner)
		}
	}
}

// The servers of net/http have parts that frameworks take for granted.
func TestWatchedWriterHasThePartsOfServers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		parts := make(chan [2]string, 1)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			watched, _ := watchStatus(w)
			parts <- [2]string{partsOf(watched), partsOf(w)}
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		answer, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		server.Close()
		if got := <-parts; got[0] != got[1] {
			t.Errorf("%s: %q, want %q", answer.Proto, got[0], got[1])
		}
	}
}

// The status is the final one that the client sees, and 0 where the handler leaves it to the server.
func TestStatusIsTheFirstFinalOne(t *testing.T) {
	for _, row := range []struct {
		handler func(http.ResponseWriter)
		want    int
	}{
		{func(http.ResponseWriter) {}, 0},
		{func(w http.ResponseWriter) { io.WriteString(w, "text") }, 0},
		{func(w http.ResponseWriter) { w.WriteHeader(503) }, 503},
		{func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(500) }, 500},
		{func(w http.ResponseWriter) { w.WriteHeader(404); w.WriteHeader(500) }, 404},
		{func(w http.ResponseWriter) { http.NotFound(w, nil) }, 404},
	} {
		watched, answer := watchStatus(httptest.NewRecorder())
		row.handler(watched)
		if answer.status != row.want {
			t.Errorf("%d, want %d", answer.status, row.want)
		}
	}
}

// What is written, copied and flushed arrives as without the middleware.
func TestWatchedWriterPassesOn(t *testing.T) {
	w := httptest.NewRecorder()
	watched, _ := watchStatus(w)
	io.WriteString(watched, "a")
	io.Copy(watched, io.LimitReader(strings.NewReader("bc"), 2))
	if err := http.NewResponseController(watched).Flush(); err != nil || w.Body.String() != "abc" || !w.Flushed {
		t.Errorf("%q, flushed: %t, %v", w.Body, w.Flushed, err)
	}

	// The error of a writer that cannot flush any more is the handler's to see.
	broken := &brokenWriter{ResponseRecorder: w}
	watched, _ = watchStatus(broken)
	if err := http.NewResponseController(watched).Flush(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("flush: %v", err)
	}
}

// brokenWriter has lost its client.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (*brokenWriter) FlushError() error { return io.ErrClosedPipe }
