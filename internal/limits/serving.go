package limits

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Serving measures the handler of one request of net/http for limits that adapt.
type Serving struct {
	limits  *Limits
	request *http.Request
	began   time.Time
	body    *watchedBody // nil without one
}

// End tells that the handler has ended, and whether it has failed.
func (s *Serving) End(failed bool) {
	began := s.began
	if s.body != nil {
		failed = failed && !s.body.broken.Load()
		began = began.Add(s.body.waits(time.Now()))
	}
	s.limits.Served(s.request.Context(), began, failed)
}

// watchedBody is the body of a request, which may be read by another goroutine than the handler's, but by one at a time.
type watchedBody struct {
	io.ReadCloser
	waited  atomic.Int64 // nanoseconds in reads that have ended
	reading atomic.Int64 // when the read under way has begun, in nanoseconds since 1970; 0: none
	broken  atomic.Bool  // the client has sent what cannot be read, or has stopped sending
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	began := time.Now()
	b.reading.Store(began.UnixNano())
	n, err := b.ReadCloser.Read(p)
	b.reading.Store(0)
	b.waited.Add(int64(time.Since(began)))

	// To read what the handler has closed itself is no mistake of the client.
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.broken.Store(true)
	}
	return n, err
}

// waits returns how long the client was waited for.
func (b *watchedBody) waits(now time.Time) time.Duration {
	waited := b.waited.Load()
	if began := b.reading.Load(); began > 0 {
		waited += now.UnixNano() - began
	}
	return time.Duration(max(waited, 0))
}
