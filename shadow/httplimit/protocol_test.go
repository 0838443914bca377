package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net"
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

// byErrors has a limit that follows the service's errors, so that the middleware looks at responses.
const byErrors = measuredFile + ", adaptive: { signal: error_rate } } }\n"

// A handler behind the middleware can use every optional interface of its ResponseWriter, in every version of HTTP.
func TestResponseWriterIsPassedOn(t *testing.T) {
	for name, text := range map[string]string{"the server's": file, "one that is looked at": byErrors} {
		t.Run(name, func(t *testing.T) { testResponseWriter(t, text) })
	}
}

func testResponseWriter(t *testing.T, text string) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /flush", func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("no ReaderFrom")
		}

		fmt.Fprint(w, "first,")
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}

		fmt.Fprint(w, "second")
	})

	mux.HandleFunc("GET /hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "mine")
	})

	server := httptest.NewServer(httplimit.New(harness(t, text), httplimit.Config{})(mux))
	defer server.Close()
	got := raw(t, server, "GET /flush HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if !strings.Contains(got, "first,") || !strings.Contains(got, "second") {
		t.Errorf("flushed: %s", got)
	}
	if got := raw(t, server, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n"); got != "mine" {
		t.Errorf("hijacked: %q", got)
	}
}

// raw sends bytes over a new connection and returns the whole answer.
func raw(t *testing.T, server *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}

	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}

	return string(got)
}

// byHeader charges the tenant that a header names.
const byHeader = `
version: 1
name: test
policies:
  - name: per-tenant
    key: request.headers[?"x-tenant"].orValue("none") + "@" + request.host
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
`

func TestHostileRequests(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })
	server := httptest.NewUnstartedServer(httplimit.New(harness(t, byHeader), httplimit.Config{})(served))
	server.Config.MaxHeaderBytes = 1 << 16
	server.Start()
	defer server.Close()
	long := strings.Repeat("a", 30000)
	tooLong := strings.Repeat("a", 1<<17)
	tests := []struct{ name, request, want string }{
		{"HTTP/1.0 without a host", "GET / HTTP/1.0\r\nX-Tenant: one\r\n\r\n", "HTTP/1.0 200"},
		{"HTTP/1.0 again", "GET / HTTP/1.0\r\nX-Tenant: one\r\n\r\n", "r=0;"},
		{"HTTP/1.0 is limited", "GET / HTTP/1.0\r\nX-Tenant: one\r\n\r\n", "HTTP/1.0 429"},
		{"the header twice", "GET / HTTP/1.0\r\nX-Tenant: one\r\nX-Tenant: two\r\n\r\n", "HTTP/1.0 429"},
		{"bytes that are no text", "GET / HTTP/1.0\r\nX-Tenant: \xff\xfe{}:|#\x80\r\n\r\n", "r=1;"},
		{"a long key", "GET / HTTP/1.0\r\nX-Tenant: " + long + "\r\n\r\n", "r=1;"},
		{"the same long key", "GET / HTTP/1.0\r\nX-Tenant: " + long + "\r\n\r\n", "r=0;"},
		{"headers beyond the server's bound", "GET / HTTP/1.0\r\nX-Tenant: " + tooLong + "\r\n\r\n", "431"},
		{"a path that is not one", "GET //..//%00%ff?%zz HTTP/1.0\r\nX-Tenant: path\r\n\r\n", "r=1;"},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200"},
	}

	for _, tt := range tests {
		if got := raw(t, server, tt.request); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.300s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// seen decides by nothing, and keeps the key of the last request.
type seen struct {
	set *policies.Set
	key string
}

func (s *seen) Decide(ctx context.Context, r *policies.Request) shadow.Decision {
	check, _, err := s.set.Policies[0].Check(ctx, r)
	s.key = fmt.Sprint(check.Key, err)
	d := shadow.Decision{}
	d.Allowed = true
	return d
}

// Whatever a client sends, policies see what the handler sees: otherwise it could have one key here and another one there.
func TestPoliciesSeeWhatHandlersSee(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(`
version: 1
name: test
policies:
  - name: p
    key: [request.method, request.path, request.host, 'request.headers[?"x-tenant"].orValue("")', 'request.query[?"op"].orValue("")', request.size]
    authoritative: { algorithm: gcra, limit: 2, window: 1h }
`))
	if err != nil {
		t.Fatal(err)
	}

	by, got := &seen{set: set}, ""
	server := httptest.NewServer(httplimit.New(by, httplimit.Config{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = fmt.Sprintf("%s|%s|%s|%s|%s|%d<nil>", r.Method, r.URL.Path, strings.ToLower(r.Host), r.Header.Get("X-Tenant"), r.URL.Query().Get("op"),
			r.ContentLength)
	})))
	defer server.Close()

	for _, line := range []string{
		"GET /a", "get /a", "GET /a/../b", "GET //a", "GET /a/./b", "GET /a%2Fb", "GET /%2e%2e/a", "GET /%61", "GET /a#b", "GET /a;b", "GET /a%23b", "GET /a?op=1&op=2",
		"GET /a?op=%zz&op=2", "GET /a?op=1;op=2", "GET /a?%6fp=1#op=2", "GET /?" + strings.Repeat("&", 9_999) + "op=1", "GET http://Other/a?op=1", "GET http://other", "OPTIONS *",
	} {
		for _, rest := range []string{
			"Host: x", "Host: X\r\nX-Tenant: a", "Host: x\r\nX-Tenant: a\r\nx-tenant: b", "Host: x\r\nX-Tenant:\r\nX-Tenant: b", "Host: x\r\nx-TENANT:  a b ",
			"Host: x\r\nX_Tenant: a", "Host: x\r\nContent-Length: 0\r\nContent-Length: 0", "Host: x\r\nTransfer-Encoding: chunked",
		} {
			answer := raw(t, server, line+" HTTP/1.1\r\nConnection: close\r\n"+rest+"\r\n\r\n0\r\n\r\n")
			if !strings.Contains(answer, " 200 ") {
				t.Errorf("%.40q %q: %.100q", line, rest, answer)
			} else if by.key != got {
				t.Errorf("%.40q %q: policies see %.200q, the handler %.200q", line, rest, by.key, got)
			}
		}
	}
}

func TestHTTP2(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(http.Flusher); !ok || r.ProtoMajor != 2 {
			t.Errorf("%s, Flusher %t", r.Proto, ok)
		}
	})
	server := httptest.NewUnstartedServer(httplimit.New(harness(t, byHeader), httplimit.Config{})(handler))

	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	for i, want := range []int{200, 200, 429} {
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}

		response.Body.Close()
		if response.StatusCode != want || response.Header.Get("RateLimit") == "" {
			t.Errorf("request %d: %s %v, want %d", i, response.Status, response.Header, want)
		}
	}
}

// A client that disconnects is charged as any other, and later requests are decided.
func TestClientThatDisconnects(t *testing.T) {
	h := harness(t, byHeader)
	served := make(chan bool, 1)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		served <- true
	})
	server := httptest.NewServer(httplimit.New(h, httplimit.Config{})(handler))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Tenant: gone\r\n\r\n")
	conn.Close()
	<-served

	ctx, leave := context.WithCancel(context.Background())
	leave()
	request := &policies.Request{Host: "x", Headers: http.Header{"X-Tenant": {"gone"}}}
	if d := h.Decide(ctx, request); !d.Allowed || d.Remaining != 0 {
		t.Errorf("the second request of a tenant whose first client has disconnected: %+v", d)
	}
}

const shaped = `
version: 1
name: test
policies:
  - name: shaped
    key: request.ip
    authoritative: { algorithm: leaky_bucket, limit: 60, window: 1h, burst: 10 }
`

// An admitted request is served at its turn, unless its client disconnects first. Requests beyond MaxWaiting are
// refused.
func TestTurnsOfALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		served := make(chan time.Duration, 10)
		handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served <- time.Since(began) })
		h := httplimit.New(harness(t, shaped), httplimit.Config{MaxWaiting: 2})(handler)

		send := func(ctx context.Context) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}

		// The first is served at once, and two wait: the queue is full.
		send(t.Context())
		go send(t.Context())
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		go send(ctx)
		synctest.Wait()
		if w := send(t.Context()); w.Code != 503 || w.Header().Get("Retry-After") != "180" {
			t.Errorf("with two waiting: %d %v", w.Code, w.Header())
		}

		// One of them disconnects and makes room.
		leave()
		synctest.Wait()
		go send(t.Context())
		time.Sleep(time.Hour)
		close(served)

		var at []time.Duration

		for d := range served {
			at = append(at, d)
		}

		if got := fmt.Sprint(at); got != "[0s 1m0s 4m0s]" {
			t.Errorf("served at %s", got)
		}
	})
}
