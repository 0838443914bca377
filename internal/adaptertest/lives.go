package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A stream's first text reaches the client while the handler still works.
func testStream(t *testing.T, f Framework) {
	s := newService(t, f, file)
	next, err := f.Start(t, s).Open(t.Context(), Query{"stream", tenant("a")})
	if err != nil {
		t.Fatal(err)
	}

	if text, err := next(); text != "first" {
		t.Errorf("%q and %v, want the first text", text, err)
	}
	close(s.release)
	if text, err := next(); text != "second" {
		t.Errorf("%q and %v, want the second text", text, err)
	}
}

// A client that leaves is charged as any other, its handler learns it, and later requests are decided.
func testClientThatLeaves(t *testing.T, f Framework) {
	s := newService(t, f, file)
	c := f.Start(t, s)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Send(ctx, Query{"hang", tenant("gone")})
		done <- err
	}()

	<-s.reached // the handler works
	leave()
	if err := <-done; err == nil {
		t.Error("a client that has left was answered")
	}
	if f.Deaf != "" {
		s.end()
	}
	<-s.reached // the handler has ended

	if f.Deaf == "" {
		a := send(t, c, "item", tenant("gone"))
		if a.Status != 200 || !strings.Contains(fields(a), "r=0") {
			t.Errorf("%d %s, want the second request of the tenant", a.Status, fields(a))
		}
	}
}

// shaped has a turn each minute.
const shaped = `
version: 1
name: conformance
policies:
  - name: shaped
    when: request.route in ROUTES
    key: request.headers[?"x-tenant"].orValue("none")
    authoritative: { algorithm: leaky_bucket, limit: 60, window: 1h, burst: 10 }
`

// A request that waits for its turn ends with its client. Requests beyond MaxWaiting are refused.
func testTurns(t *testing.T, f Framework) {
	s := newService(t, f, shaped)
	s.Settings.MaxWaiting = 1
	c := f.Start(t, s)
	if a := send(t, c, "item", tenant("a")); a.Status != 200 {
		t.Fatalf("the first request: %d", a.Status)
	}

	// Of two more, either waits, and the other is refused.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	type result struct {
		Answer
		error
	}
	answers := make(chan result, 2)
	for range 2 {
		go func() {
			a, err := c.Send(ctx, Query{"item", tenant("a")})
			answers <- result{a, err}
		}()
	}

	refused := <-answers
	if refused.error != nil || refused.Status != 503 || refused.Header.Get("Retry-After") == "" {
		t.Errorf("%v %d %s, want 503 with Retry-After", refused.error, refused.Status, fields(refused.Answer))
	}

	// The other one leaves. Its handler must not run.
	leave()
	if f.Deaf != "" {
		s.end()
	}
	if left := <-answers; left.error == nil && left.Status == 200 {
		t.Error("a request that has left before its turn was served")
	}
	if n := s.served.Load(); n != 1 {
		t.Errorf("%d requests served, want the first alone", n)
	}
}

// A handler that panics is the framework's to answer. Its request was charged, and the next ones are decided.
func testPanic(t *testing.T, f Framework) {
	c := f.Start(t, newService(t, f, file))
	for _, want := range []int{500, 500, 429} {
		if a := send(t, c, "panic", tenant("a")); a.Status != want {
			t.Errorf("%d, want %d", a.Status, want)
		}
	}
	if a := send(t, c, "item", tenant("b")); a.Status != 200 || !strings.Contains(fields(a), "r=1") {
		t.Errorf("another tenant after the panics: %d %s", a.Status, fields(a))
	}
}

// Header fields of any length and number make a key of their own.
func testHostileHeaders(t *testing.T, f Framework) {
	c := f.Start(t, newService(t, f, file))

	for _, tt := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"a tenant", tenant("one"), "r=1"},
		{"the header twice is the tenant that a handler reads", http.Header{"X-Tenant": {"one", "two"}}, "r=0"},
		{"what its sender has joined is another one", tenant("one, two"), "r=1"},
		{"a long key", tenant(strings.Repeat("k", 6000)), "r=1"},
		{"the same long key", tenant(strings.Repeat("k", 6000)), "r=0"},
		{"characters of Redis and of CEL", tenant(`{a}:"b"|*\`), "r=1"},
		{"no header: the address", http.Header{}, "r=1"},
		{"an empty header is a tenant, too", tenant(""), "r=1"},
	} {
		if a := send(t, c, "item", tt.header); a.Status != 200 || !strings.Contains(fields(a), tt.want) {
			t.Errorf("%s: %d %s, want %s", tt.name, a.Status, fields(a), tt.want)
		}
	}
}

// Every spelling of a request is charged if the limited handler serves it: otherwise a client could choose one that is
// not limited.
func testHostileSpellings(t *testing.T, f Framework) {
	c, ok := f.Start(t, newService(t, f, file)).(HTTP)
	if !ok {
		return // a protocol of its own: its methods have one spelling
	}

	served, n := 0, 0
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "get", "PURGE"} {
		for _, target := range []string{
			"/items/1", "/items/1/", "//items/1", "/items//1", "/items/../items/1", "/items/a%2Fb", "/items/%00", "/%69tems/1", "/ITEMS/1",
			"/items/1?a=%zz", "/items/1;a", "http://other/items/1", "/items/%ff", "/items/", "*", "items/1", "/items/1#x",
		} {
			n++
			const header = "Host: x\r\nX-Tenant: t%d\r\nX-Tenant: \xff\xfe\r\nConnection: close\r\n\r\n"
			answer := c.raw(t, method+" "+target+" HTTP/1.1\r\n"+fmt.Sprintf(header, n))
			handled := strings.Contains(answer, Served) || method == "HEAD" && strings.Contains(answer, " 200 ")
			charged := strings.Contains(strings.ToLower(answer), "\r\nratelimit: ")
			if handled && !charged {
				t.Errorf("%s %s is served without being charged:\n%.300s", method, target, answer)
			}
			if handled {
				served++
			}
		}
	}
	if served < 5 {
		t.Errorf("%d of %d spellings served: the suite does not ask what it should", served, n)
	}
}

// Many tenants at once have their own two requests each, also where a framework uses its contexts and buffers again.
func testCrowd(t *testing.T, f Framework) {
	c := f.Start(t, newService(t, f, file))
	var all sync.WaitGroup

	for worker := range 8 {
		all.Go(func() {
			for i := range 25 {
				name := fmt.Sprintf("tenant-%d-%d", worker, i)
				for _, want := range []int{200, 200, 429} {
					a, err := c.Send(t.Context(), Query{"item", tenant(name)})
					if err != nil || a.Status != want {
						t.Errorf("%s: %d %v, want %d", name, a.Status, err, want)
					}
				}
			}
		})
	}
	all.Wait()
}
