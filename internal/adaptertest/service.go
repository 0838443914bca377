package adaptertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Framework is a way into a service.
type Framework struct {
	// Item, Stream, Hang and Panic are the templates of the routes as policies see them.
	Item, Stream, Hang, Panic string
	// Start serves a service and returns its client. It ends the server with t.Cleanup.
	Start func(t *testing.T, s *Service) Client
	// Deaf says why a handler does not learn that its client has disconnected; "" if it does. Waiting requests of such a
	// framework end with the service's own context.
	Deaf string
	// Without are tests of the suite that the way has no place for, each with the reason.
	Without map[string]string
}

// Service is what a framework serves: a route for each method, for a GET of /items/ID, /free, /stream, /hang and
// /panic, and for one of /fail, which answers 503. Only /free and /fail have no policy.
type Service struct {
	Harness  httplimit.Decider
	Settings limits.Settings
	// Context is the base of the requests' contexts. The suite ends it.
	Context context.Context
	// Identified asks for Identify as the adapter's hook.
	Identified bool
	// Debugged asks for the debug field in all responses.
	Debugged bool
	// InContext asks for decisions in the handlers' contexts.
	InContext bool

	served  atomic.Int64 // requests that have reached a handler
	reached chan struct{}
	release chan struct{}
	end     context.CancelFunc
}

// Served marks responses that a handler of a limited route has written.
const Served = "served "

// Identify sets the user and a claim from header fields, as a service would from what it has authenticated.
func Identify(header func(string) string, p *policies.Request) {
	p.User = header("X-User")
	p.Claims = map[string]any{"plan": header("X-Plan")}
}

// Item is the handler of /items/ID.
func (s *Service) Item(ctx context.Context, id string) string {
	s.served.Add(1)
	return Served + id + decided(ctx)
}

// decided is what a handler is told of the decision, "" if nothing.
func decided(ctx context.Context) string {
	d, ok := shadow.FromContext(ctx)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" by %s, %s allows %t", d.Policy, d.Enforced.Other(), d.Unenforced().Decision.Allowed)
}

// Stream is the handler of /stream. send writes a text and flushes it.
func (s *Service) Stream(ctx context.Context, send func(string)) {
	send("first" + decided(ctx))
	<-s.release
	send("second")
}

// Hang is the handler of /hang, which works until the request's context ends.
func (s *Service) Hang(ctx context.Context) {
	s.reached <- struct{}{}
	<-ctx.Done()
	s.reached <- struct{}{}
}

// Panic is the handler of /panic.
func (s *Service) Panic() { panic("a bug of the service") }

// ServeFailure answers with an error of the server's, for frameworks whose writers are those of net/http.
func (s *Service) ServeFailure(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "down", http.StatusServiceUnavailable)
}

// ServeStream is Stream for frameworks whose writers are those of net/http.
func (s *Service) ServeStream(w http.ResponseWriter, r *http.Request) {
	s.Stream(r.Context(), func(text string) {
		io.WriteString(w, text)
		http.NewResponseController(w).Flush()
	})
}

// file is the policy file of most services. A tenant has two requests. The candidate allows one, which no response shows.
const file = `
version: 1
name: conformance
policies:
  - name: per-tenant
    when: request.route in ROUTES
    key: request.headers[?"x-tenant"].orValue(request.ip)
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 2h }
`

// newService returns a service with the policies of a text. Its clock stands still, so that what clients are told does
// not depend on the time that a test takes.
func newService(t *testing.T, f Framework, text string) *Service {
	t.Helper()
	routes := `["` + strings.Join([]string{f.Item, f.Stream, f.Hang, f.Panic}, `", "`) + `"]`
	set, err := policies.Load("conformance.yaml", []byte(strings.ReplaceAll(text, "ROUTES", routes)))
	if err != nil {
		t.Fatal(err)
	}

	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h, err := shadow.New(shadow.Config{Policies: set, Clock: func() time.Time { return now }})
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	return serviceOf(t, h)
}

// serviceOf returns a service that limits by a harness or by a pair.
func serviceOf(t *testing.T, by httplimit.Decider) *Service {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	return &Service{Harness: by, Context: ctx, end: end, reached: make(chan struct{}, 2), release: make(chan struct{})}
}

// Query is one request.
type Query struct {
	// Route is "item", "free", "stream", "hang", "panic" or "fail".
	Route  string
	Header http.Header
}

// Answer is what a client sees. The codes of other protocols are those of HTTP with the same meaning.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Client sends requests to a started service.
type Client interface {
	// Send returns the whole answer.
	Send(ctx context.Context, q Query) (Answer, error)
	// Open returns a function that returns the next text of a stream.
	Open(ctx context.Context, q Query) (func() (string, error), error)
}

// tenant is the header of a tenant's requests, and of other pairs of a name and a value.
func tenant(name string, more ...string) http.Header {
	h := http.Header{"X-Tenant": {name}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Add(more[i], more[i+1])
	}
	return h
}
