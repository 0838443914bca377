package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// giving has a limit that follows whether handlers fail.
const giving = `
version: 1
name: conformance
policies:
  - name: per-tenant
    when: request.route in ROUTES
    key: request.headers[?"x-tenant"].orValue("none")
    authoritative: { algorithm: fixed_window_anchored, limit: 1, window: 1h, adaptive: { signal: error_rate } }
`

// outcome is what a harness is told of a handler.
type outcome struct {
	took   time.Duration
	failed bool
}

// watched is a harness that passes on what it is told of handlers.
type watched struct {
	*shadow.Harness
	told chan outcome
}

// Served is told of each handler once it has ended.
func (w watched) Served(d time.Duration, failed bool) { w.told <- outcome{d, failed} }

// next returns the next report. It comes behind the response, so a client may be answered before.
func (w watched) next(t *testing.T) outcome {
	t.Helper()
	select {
	case o := <-w.told:
		return o
	case <-time.After(20 * time.Second):
		t.Fatal("no handler was measured: call Limits.Served where Limits.Adapts")
		return outcome{}
	}
}

// watch returns a service whose handlers are watched.
func watch(t *testing.T, f Framework, text string) (*Service, watched) {
	t.Helper()
	s := newService(t, f, text)
	w := watched{s.Harness.(*shadow.Harness), make(chan outcome, 10)}
	s.Harness = w
	return s, w
}

// The handler of each admitted request is measured once, for limits that give way while the service suffers. One that panics has
// failed, and so has one that answers with an error of the server's.
func testServed(t *testing.T, f Framework) {
	s, w := watch(t, f, giving)
	c := f.Start(t, s)
	for _, tt := range []struct {
		route  string
		status int
		failed bool
	}{{"item", 200, false}, {"item", 429, false}, {"panic", 500, true}, {"free", 200, false}, {"fail", 503, true}} {
		header := tenant("of " + tt.route)
		if a := send(t, c, tt.route, header); a.Status != tt.status {
			t.Errorf("%s: %d, want %d", tt.route, a.Status, tt.status)
		}
		if tt.status == 429 {
			continue // no handler ran: the next one that is told is of the next row
		}
		if o := w.next(t); o.failed != tt.failed || o.took < 0 {
			t.Errorf("%s took %s, failed: %t, want %t", tt.route, o.took, o.failed, tt.failed)
		}
	}
	if n := len(w.told); n > 0 {
		t.Errorf("%d handlers more than requests", n)
	}

	// The time is the handler's: it is at work between these two instants, and perhaps longer.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go c.Send(ctx, Query{"hang", tenant("hangs")})
	<-s.reached
	began := time.Now()
	least := time.Since(began)
	leave()
	s.end()
	<-s.reached
	if o := w.next(t); o.took < least {
		t.Errorf("a handler took %s, and was at work for %s", o.took, least)
	}
}

// Limits that are always the whole need no measurement, so handlers run as without.
func testUnserved(t *testing.T, f Framework) {
	s, w := watch(t, f, file)
	c := f.Start(t, s)
	send(t, c, "item", tenant("a"))
	send(t, c, "panic", tenant("b"))
	if n := len(w.told); n > 0 {
		t.Errorf("%d handlers were measured without an adaptive limit", n)
	}
}
