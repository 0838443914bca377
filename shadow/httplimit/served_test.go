package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// measured is a decider that allows everything and remembers what it was told.
type measured struct {
	set    *policies.Set
	took   time.Duration
	failed bool
	calls  int
}

func (*measured) Decide(context.Context, *policies.Request) shadow.Decision {
	var d shadow.Decision
	d.Allowed = true
	return d
}

func (m *measured) Policies() *policies.Set { return m.set }

func (m *measured) Served(d time.Duration, failed bool) {
	m.took, m.failed, m.calls = d, failed, m.calls+1
}

// measuredFile has a policy of one side with these fields.
const measuredFile = `
version: 1
name: test
policies:
  - { name: p, key: request.ip, authoritative: { algorithm: gcra, limit: 9, window: 1m `

// Handlers are measured where a limit is adaptive, and not elsewhere. One that panics has failed.
func TestHandlersAreMeasured(t *testing.T) {
	for adaptive, calls := range map[string]int{"": 0, ", adaptive: { signal: latency_p99 }": 2} {
		set, err := policies.Load("test.yaml", []byte(measuredFile+adaptive+" } }\n"))
		if err != nil {
			t.Fatal(err)
		}

		synctest.Test(t, func(t *testing.T) {
			m := &measured{set: set}
			panics := false
			h := httplimit.New(m, httplimit.Config{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				time.Sleep(time.Second)
				if panics {
					panic("of the handler")
				}
			}))
			ask := func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}

			ask()
			if m.failed || calls > 0 && m.took != time.Second {
				t.Errorf("a handler took %s, failed: %t", m.took, m.failed)
			}
			panics = true
			ask()
			if m.calls != calls || calls > 0 && !m.failed {
				t.Errorf("%d calls, want %d; failed: %t", m.calls, calls, m.failed)
			}
		})
	}
}

// What fails because its client has disconnected is no failure of the service: a client must not lower the limits of all.
func TestClientsBringAboutNoFailures(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(byErrors))
	if err != nil {
		t.Fatal(err)
	}
	m := &measured{set: set}
	ctx, disconnect := context.WithCancel(t.Context())
	h := httplimit.New(m, httplimit.Config{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			disconnect()
		}
		w.WriteHeader(http.StatusBadGateway)
	}))

	for i, path := range []string{"/", "/gone"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", path, nil))
		if m.calls != i+1 || m.failed != (path == "/") {
			t.Errorf("%s: %d calls, failed: %t", path, m.calls, m.failed)
		}
	}
}

// slowBody is a body whose client takes a second for each byte, and ends with an error.
type slowBody struct {
	left int
	end  error
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.end
	}
	time.Sleep(time.Second)
	b.left--
	return copy(p, "x"), nil
}

// No client lowers the limit of all clients by the body that it sends: the time for which it is waited for does not count, and neither
// does the failure of a handler that cannot read it.
func TestBodiesBringNothingAbout(t *testing.T) {
	for _, signal := range []string{"latency_p99", "error_rate"} {
		set, err := policies.Load("test.yaml", []byte(measuredFile+", adaptive: { signal: "+signal+" } } }\n"))
		if err != nil {
			t.Fatal(err)
		}
		for end, want := range map[error]bool{io.EOF: signal == "error_rate", io.ErrUnexpectedEOF: false, http.ErrBodyReadAfterClose: signal == "error_rate"} {
			synctest.Test(t, func(t *testing.T) {
				m := &measured{set: set}
				h := httplimit.New(m, httplimit.Config{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					time.Sleep(time.Second)
					w.WriteHeader(http.StatusBadGateway)
				}))
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", &slowBody{9, end}))
				if m.took != time.Second || m.failed != want {
					t.Errorf("%s, %v: it took %s, failed: %t", signal, end, m.took, m.failed)
				}
			})
		}
	}
}

// A body that another goroutine still waits for when the handler ends, as that of a proxy does, counts no more than one that was read.
func TestBodyUnderWayDoesNotCount(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(measuredFile+", adaptive: { signal: latency_p99 } } }\n"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := &measured{set: set}
		h := httplimit.New(m, httplimit.Config{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			go r.Body.Read(make([]byte, 1))
			time.Sleep(time.Second)
		}))
		body, client := io.Pipe()
		defer client.Close()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", body))
		if m.took != time.Second {
			t.Errorf("it took %s", m.took)
		}
	})
}

// BenchmarkAdaptive measures what a request pays where a limit is adaptive.
func BenchmarkAdaptive(b *testing.B) {
	bare := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, signal := range []string{"none", "latency_p99", "error_rate"} {
		text := benchFile
		if signal != "none" {
			text = strings.Replace(text, "window: 1m, burst", "window: 1m, adaptive: { signal: "+signal+" }, burst", 1)
		}
		h := httplimit.New(harness(b, text), httplimit.Config{})(bare)
		b.Run(signal, func(b *testing.B) {
			r := httptest.NewRequest("GET", "/items/1", nil)
			w := httptest.NewRecorder()
			b.ReportAllocs()

			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
