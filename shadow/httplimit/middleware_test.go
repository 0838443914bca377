package httplimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

const file = `
version: 1
name: test
policies:
  - name: per-client
    when: request.route == "/items/{id}"
    key: request.ip
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1m }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
`

func harness(t testing.TB, text string) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	h, err := shadow.New(shadow.Config{Policies: set})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	return h
}

func items() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.PathValue("id"))) })
	mux.HandleFunc("GET example.com/free", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func get(h http.Handler, path, client string) *http.Response {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = client + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestEnforcedSideAnswers(t *testing.T) {
	h := httplimit.New(harness(t, file), httplimit.Config{})(items())
	tests := []struct {
		path, client                 string
		wantStatus                   int
		wantRetry, wantPolicy, wantR string
	}{
		{"/items/1", "192.0.2.1", 200, "", `"per-client";q=2;w=60`, `"per-client";r=1;t=60`},
		// The candidate denies this one, which the response does not show.
		{"/items/2", "192.0.2.1", 200, "", `"per-client";q=2;w=60`, `"per-client";r=0;t=60`},
		{"/items/3", "192.0.2.1", 429, "60", `"per-client";q=2;w=60`, `"per-client";r=0;t=60`},
		{"/items/3", "192.0.2.2", 200, "", `"per-client";q=2;w=60`, `"per-client";r=1;t=60`},
		{"/free", "192.0.2.1", 200, "", "", ""},
		{"/nothing", "192.0.2.1", 404, "", "", ""},
	}

	for _, tt := range tests {
		got := get(h, tt.path, tt.client)
		if got.StatusCode != tt.wantStatus || got.Header.Get("Retry-After") != tt.wantRetry {
			t.Errorf("%s from %s: %d %v, want %+v", tt.path, tt.client, got.StatusCode, got.Header, tt)
		}
		if got.Header.Get("RateLimit-Policy") != tt.wantPolicy || got.Header.Get("RateLimit") != tt.wantR {
			t.Errorf("%s from %s: %v, want %+v", tt.path, tt.client, got.Header, tt)
		}

		for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
			if _, err := httpsfv.UnmarshalList(got.Header.Values(field)); err != nil {
				t.Errorf("%s: %s %q is no structured field: %v", tt.path, field, got.Header.Get(field), err)
			}
		}
	}
}

// Policies that use a route which the middleware does not know never match: without a warning that would be silent.
// A limiter that does not exist has no fields: in shadow a response looks as before.
func TestFirstLimitHasNoFields(t *testing.T) {
	text := strings.Replace(file, "{ algorithm: fixed_window_anchored, limit: 2, window: 1m }", "none", 1)
	for _, style := range []httplimit.Fields{httplimit.FieldsDraft08, httplimit.FieldsDraft06, httplimit.FieldsLegacy} {
		h := httplimit.New(harness(t, text), httplimit.Config{Fields: style})(items())
		for range 3 {
			r := get(h, "/items/1", "192.0.2.1")
			if r.StatusCode != 200 || len(r.Header) != 1 { // Content-Type
				t.Errorf("status %d, %v", r.StatusCode, r.Header)
			}
		}
	}
}

func TestUnknownRoutesAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	wrapped := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { items().ServeHTTP(w, r) })
	h := httplimit.New(harness(t, file), httplimit.Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})(wrapped)

	for range 3 {
		get(h, "/items/1", "192.0.2.1")
	}

	if n := strings.Count(out.String(), "set httplimit.Config.Route"); n != 1 {
		t.Errorf("logged %d times: %s", n, out.String())
	}
}

func TestOnDeniedAnswersForTheService(t *testing.T) {
	var denied shadow.Decision
	h := httplimit.New(harness(t, file), httplimit.Config{
		OnDenied: func(w http.ResponseWriter, _ *http.Request, d shadow.Decision) {
			denied = d
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		Identify: func(_ *http.Request, p *policies.Request) { p.IP = "shared" },
	})(items())
	get(h, "/items/1", "192.0.2.1")
	get(h, "/items/1", "192.0.2.2")
	got := get(h, "/items/1", "192.0.2.3")
	if got.StatusCode != 503 || got.Header.Get("Retry-After") != "60" || denied.Policy != "per-client" {
		t.Errorf("%d %v %+v, want the service's own 503 with Retry-After", got.StatusCode, got.Header, denied)
	}
}

func TestDelayOfALeakyBucketIsWaitedOut(t *testing.T) {
	h := httplimit.New(harness(t, `
version: 1
name: test
policies:
  - name: shaped
    key: request.ip
    authoritative: { algorithm: leaky_bucket, limit: 1, window: 1h, burst: 2 }
`), httplimit.Config{})(items())
	if got := get(h, "/items/1", "192.0.2.1"); got.StatusCode != 200 {
		t.Fatalf("the first request has status %d", got.StatusCode)
	}

	ctx, leave := context.WithCancel(context.Background())
	leave()
	r := httptest.NewRequest("GET", "/items/2", nil).WithContext(ctx)
	r.RemoteAddr = "192.0.2.1:1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Body.Len() != 0 {
		t.Errorf("a client that disconnected during its wait of an hour was served %q", w.Body)
	}
	if got := get(h, "/items/3", "192.0.2.1"); got.StatusCode != 429 {
		t.Errorf("the next request has status %d, want 429: the disconnected client keeps its turn", got.StatusCode)
	}
}

// Identify may read what no policy reads. Without it such a field costs nothing.
func TestIdentifySeesTheWholeRequest(t *testing.T) {
	const file = "version: 1\nname: test\npolicies:\n  - name: p\n    key: request.user\n" +
		"    authoritative: { algorithm: gcra, limit: 1, window: 1h }\n"
	asked := 0
	cfg := httplimit.Config{ClientIP: func(*http.Request) string { asked++; return "192.0.2.7" }}
	get(httplimit.New(harness(t, file), cfg)(items()), "/items/1", "192.0.2.1")
	if asked != 0 {
		t.Error("the address is resolved, and no policy reads it")
	}

	cfg.Identify = func(_ *http.Request, r *policies.Request) {
		if r.IP != "192.0.2.7" || r.Route != "/items/{id}" || r.Time.IsZero() {
			t.Errorf("Identify sees the address %q, the route %q, the time %s", r.IP, r.Route, r.Time)
		}
	}
	get(httplimit.New(harness(t, file), cfg)(items()), "/items/1", "192.0.2.1")
}

const benchFile = `
version: 1
name: bench
policies:
  - name: per-client
    when: request.method == "GET"
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 1000000000, window: 1m }
    candidate: { algorithm: token_bucket, limit: 1000000000, window: 1m, burst: 1000000 }
`

func BenchmarkMiddleware(b *testing.B) {
	bare := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	limited := httplimit.New(harness(b, benchFile), httplimit.Config{})(bare)
	for name, h := range map[string]http.Handler{"bare": bare, "limited": limited} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "/items/1", nil)
			w := httptest.NewRecorder()
			b.ReportAllocs()

			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// If each route has middleware of its own, the mux in front knows the template.
func TestRouteOfTheMuxInFront(t *testing.T) {
	limit := httplimit.New(harness(t, file), httplimit.Config{})
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	for i, want := range []int{200, 200, 429} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/items/1", nil))
		if w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
}
