package serve

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// check asks POST /v1/check, and returns status and body.
func check(s *Server, body string) (int, string) {
	w := ask(s, httptest.NewRequest(http.MethodPost, Check, strings.NewReader(body)), here)
	return w.Code, strings.TrimSpace(w.Body.String())
}

const order = `{"method":"POST","path":"/orders/7","host":"shop.example","user":"ann"}`

// headers are a part of the answers to orders.
const headers = `"Ratelimit-Policy":"\"per-tenant\";q=2;w=3600"`

// A check charges the request. The answer has the decision of the enforced side and its response fields, and nothing of the other.
func TestCheck(t *testing.T) {
	s := newServer(t, nil)
	for _, tt := range []struct{ body, want string }{
		{order, `{"allowed":true,"policy":"per-tenant","limit":2,"remaining":1,"retry_after_us":0,"reset_after_us":3600000000,` +
			`"delay_us":0,"fallback":false,"headers":{"Ratelimit":"\"per-tenant\";r=1;t=3600",` + headers + `}}`},
		{order, `{"allowed":true,"policy":"per-tenant","limit":2,"remaining":0,"retry_after_us":0,"reset_after_us":3600000000,` +
			`"delay_us":0,"fallback":false,"headers":{"Ratelimit":"\"per-tenant\";r=0;t=3600",` + headers + `}}`},
		{order, `{"allowed":false,"policy":"per-tenant","limit":2,"remaining":0,"retry_after_us":3600000000,"reset_after_us":3600000000,` +
			`"delay_us":0,"fallback":false,"headers":{"Ratelimit":"\"per-tenant\";r=0;t=3600",` + headers + `,"Retry-After":"3600"}}`},
		{`{"method":"GET"}`, `{"allowed":true,"policy":"","limit":0,"remaining":null,"retry_after_us":0,"reset_after_us":0,` +
			`"delay_us":0,"fallback":false,"headers":{}}`},
	} {
		if status, got := check(s, tt.body); status != 200 || got != tt.want {
			t.Errorf("%s: %d\n got %s\nwant %s", tt.body, status, got, tt.want)
		}
	}
}

// never denies all, and says that no wait helps.
const never = `
version: 1
name: closed
policies:
  - { name: closed, key: request.ip, authoritative: { algorithm: fixed_window, limit: 0, window: 1h } }
`

func TestCheckSaysThatNoWaitHelps(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Limiter = harnessOf(t, never, still) })
	status, got := check(s, `{}`)
	if status != 200 || !strings.Contains(got, `"allowed":false`) || !strings.Contains(got, `"retry_after_us":null`) {
		t.Errorf("%d %s", status, got)
	}
}

// A limiter that does not exist has nothing to tell.
func TestCheckOfAFirstLimit(t *testing.T) {
	text := strings.Replace(never, "authoritative:", "authoritative: none, candidate:", 1)
	s := newServer(t, func(c *Config) { c.Limiter = harnessOf(t, text, still) })
	const want = `{"allowed":true,"policy":"closed","limit":0,"remaining":null,"retry_after_us":0,"reset_after_us":0,"delay_us":0,` +
		`"fallback":false,"headers":{}}`
	if status, got := check(s, `{}`); status != 200 || got != want {
		t.Errorf("%d %s", status, got)
	}
}

// What the service says of a request goes before what the server finds out.
func TestCheckUsesTheServicesRoute(t *testing.T) {
	s := newServer(t, nil)
	for body, matches := range map[string]bool{
		`{"method":"POST","host":"shop.example","path":"/orders/7","route":"/elsewhere"}`: false,
		`{"method":"POST","host":"shop.example","path":"/x","route":"/orders/{id}"}`:      true,
		`{"method":"POST","host":"shop.example","path":"//x/../orders/7"}`:                true,
		`{"method":"POST","host":"shop.example","path":"/orders/7/lines"}`:                false,
	} {
		if _, got := check(s, body); strings.Contains(got, `"per-tenant"`) != matches {
			t.Errorf("%s: %s, want a match: %t", body, got, matches)
		}
	}
}

// A list is charged in its order.
func TestBatch(t *testing.T) {
	status, got := check(newServer(t, nil), " ["+order+`, {"method":"GET"}, `+order+","+order+"]")
	var allowed []string
	for _, found := range regexp.MustCompile(`"allowed":(true|false)`).FindAllStringSubmatch(got, -1) {
		allowed = append(allowed, found[1])
	}

	if order := strings.Join(allowed, " "); status != 200 || !strings.HasPrefix(got, "[") || order != "true true true false" {
		t.Errorf("%d %s, want the fourth of four denied", status, got)
	}
}

// What cannot be read is refused with a reason, and charges nothing.
func TestCheckRefuses(t *testing.T) {
	s := newServer(t, nil)
	many := strings.TrimSuffix(strings.Repeat("{},", mostBatch+1), ",")
	for _, tt := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"nothing", "", 400, "JSON"},
		{"no JSON", "order", 400, "invalid character"},
		{"an unknown field", `{"metod":"GET"}`, 400, `\"metod\": did you mean method?`},
		{"two objects", order + order, 400, "more than one object"},
		{"an empty list", "[]", 400, "0 requests"},
		{"a long list", "[" + many + "]", 400, "101 requests"},
		{"a list with a mistake", "[" + order + ",{\"x\":1}]", 400, "request 1: unknown field"},
		{"a list without its end", "[" + order, 400, "no JSON"},
		{"nested lists", strings.Repeat("[", 9000), 400, "no JSON"},
		{"a null", "[null]", 200, ""},
		{"a long request", `{"path":"` + strings.Repeat("x", mostRequest) + `"}`, 400, "32768"},
		{"a long body", "[" + strings.Repeat(" ", mostBody) + "]", 413, "262144"},
	} {
		if status, got := check(s, tt.body); status != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %d %.300s, want %d with %s", tt.name, status, got, tt.status, tt.want)
		}
	}

	if _, got := check(s, `{"`+strings.Repeat("x", mostRequest-10)+`":1}`); len(got) > 2*mostMessage {
		t.Errorf("an error of %d bytes", len(got))
	}
	if _, got := check(s, order); !strings.Contains(got, `"remaining":1`) {
		t.Errorf("refused checks were charged: %s", got)
	}
}

// A browser's page of another site cannot use up a budget, and a check is no GET.
func TestCheckIsForPrograms(t *testing.T) {
	s := newServer(t, nil)
	r := httptest.NewRequest(http.MethodPost, Check, strings.NewReader(order))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := ask(s, r, here); w.Code != 403 {
		t.Errorf("a cross-site check: %d", w.Code)
	}
	if w := ask(s, httptest.NewRequest(http.MethodGet, Check, nil), here); w.Code != 405 {
		t.Errorf("GET: %d", w.Code)
	}
}

// Operators see health, metrics and the state of the policies.
func TestPages(t *testing.T) {
	s := newServer(t, nil)
	for path, want := range map[string]string{
		Health: "ok", Ready: "ready", Metrics: `shadowlimit_decisions_total{`, Status: "per-tenant",
	} {
		if w := ask(s, httptest.NewRequest(http.MethodGet, path, nil), here); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.200s, want %s", path, w.Code, w.Body, want)
		}
	}
}
