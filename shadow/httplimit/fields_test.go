package httplimit_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// rateFields returns all response fields that tell a client its limit, as text.
func rateFields(h http.Header) string {
	var list []string
	for _, name := range []string{
		"Retry-After",
		"RateLimit-Policy", "RateLimit",
		"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	} {
		if v := h.Values(name); len(v) > 0 {
			list = append(list, name+": "+strings.Join(v, " | "))
		}
	}
	return strings.Join(list, "\n")
}

func TestFieldStyles(t *testing.T) {
	lines := func(list ...string) string { return strings.Join(list, "\n") }
	tests := map[httplimit.Fields][2]string{ // the first request, and the third, which is denied
		httplimit.FieldsDraft08: {
			lines(`RateLimit-Policy: "per-client";q=2;w=60`, `RateLimit: "per-client";r=1;t=60`),
			lines("Retry-After: 60", `RateLimit-Policy: "per-client";q=2;w=60`, `RateLimit: "per-client";r=0;t=60`),
		},
		httplimit.FieldsDraft06: {
			lines("RateLimit-Policy: 2;w=60", "RateLimit-Limit: 2", "RateLimit-Remaining: 1", "RateLimit-Reset: 60"),
			lines(
				"Retry-After: 60",
				"RateLimit-Policy: 2;w=60",
				"RateLimit-Limit: 2",
				"RateLimit-Remaining: 0",
				"RateLimit-Reset: 60",
			),
		},
		httplimit.FieldsLegacy: {
			lines("X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 60"),
			lines("Retry-After: 60", "X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"),
		},
		httplimit.FieldsNone: {
			"",
			"Retry-After: 60",
		},
	}

	for style, want := range tests {
		h := httplimit.New(harness(t, file), httplimit.Config{Fields: style})(items())
		first := get(h, "/items/1", "192.0.2.1")
		get(h, "/items/1", "192.0.2.1")
		third := get(h, "/items/1", "192.0.2.1")

		for i, got := range []*http.Response{first, third} {
			if text := rateFields(got.Header); text != want[i] {
				t.Errorf("style %d, response %d:\n%s\nwant\n%s", style, i, text, want[i])
			}
		}
	}
}

// A reset in seconds since 1970 is no earlier than the instant that it rounds.
func TestResetInSecondsSince1970(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := time.Now().Unix()
		for _, row := range []struct{ past, wait, want time.Duration }{
			{0, 2 * time.Second, 2}, {0, 2*time.Second + 1, 3}, {960 * time.Millisecond, 2 * time.Second, 3}, {0, 40 * time.Millisecond, 1}, {0, time.Second, 2},
		} {
			time.Sleep(row.past)
			h := http.Header{}
			d := shadow.Decision{Policy: "p", Limit: 2, Window: time.Minute, Decision: algorithms.Decision{Capacity: 2, RetryAfter: row.wait}}
			httplimit.FieldsLegacyEpoch.Write(h, d)
			if got, want := h.Get("X-RateLimit-Reset"), strconv.FormatInt(whole+int64(row.want), 10); got != want {
				t.Errorf("%s from now: %s, want %s", row.wait, got, want)
			}
		}
	})
}

// The reset of an admitted request is the time until one more is there, not until the bucket is full.
func TestResetOfAnEmptyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.ReplaceAll(file, "fixed_window_anchored", "token_bucket")
		h := httplimit.New(harness(t, strings.ReplaceAll(text, "limit: 2", "limit: 60")), httplimit.Config{})(items())
		for range 59 {
			get(h, "/items/1", "192.0.2.1")
		}
		for _, what := range []string{"the last one", "the denial after it"} {
			if got := get(h, "/items/1", "192.0.2.1").Header.Get("RateLimit"); got != `"per-client";r=0;t=1` {
				t.Errorf("%s: %s", what, got)
			}
		}
	})
}

// A denial for ever says in no style when to come back, and neither does a limit of 0 that was only looked at.
func TestNoResetWhereNoWaitHelps(t *testing.T) {
	for style := httplimit.FieldsDraft08; style <= httplimit.FieldsNone; style++ {
		for _, d := range []algorithms.Decision{
			{RetryAfter: algorithms.Never}, {Capacity: 2, RetryAfter: algorithms.Never, ResetAfter: time.Minute}, {Allowed: true},
		} {
			h := http.Header{}
			style.Write(h, shadow.Decision{Policy: "p", Limit: d.Capacity, Window: time.Minute, Decision: d})
			if text := rateFields(h); strings.Contains(text, "Reset") || strings.Contains(text, ";t=") || strings.Contains(text, "Retry") {
				t.Errorf("style %d, %+v:\n%s", style, d, text)
			}
		}
	}
}

// Clients are told a time between the exact wait and a share more, and OnDenied and all fields say the same one. The
// decision itself is exact, and so is what clients are told without a jitter.
func TestRetryAfterIsSpread(t *testing.T) {
	for _, tt := range []struct{ jitter, longest float64 }{
		{0, 60}, {0.5, 90}, {1, 120}, {7, 120}, {-1, 60}, {math.NaN(), 60}, {math.Inf(1), 120}, {math.Inf(-1), 60},
	} {
		var told time.Duration
		limits := harness(t, strings.ReplaceAll(file, "window: 1m", "window: 100000m"))
		h := httplimit.New(limits, httplimit.Config{
			RetryJitter: tt.jitter,
			OnDenied:    func(_ http.ResponseWriter, _ *http.Request, d shadow.Decision) { told = d.RetryAfter },
		})(items())
		get(h, "/items/1", "192.0.2.1")
		get(h, "/items/1", "192.0.2.1")

		seen := map[string]bool{}
		for range 20 {
			got := get(h, "/items/1", "192.0.2.1").Header
			retry, reset := got.Get("Retry-After"), got.Get("RateLimit")
			seconds, err := strconv.ParseFloat(retry, 64)
			if err != nil || seconds < 100000*60-60 || seconds > 100000*tt.longest {
				t.Errorf("jitter %g: Retry-After %s", tt.jitter, retry)
			}
			if math.Ceil(told.Seconds()) != seconds || !strings.HasSuffix(reset, ";t="+retry) {
				t.Errorf("jitter %g: Retry-After %s, RateLimit %s, and OnDenied was told %s", tt.jitter, retry, reset, told)
			}
			seen[retry] = true
		}

		// Of 20 draws from millions of seconds, two are never the same by chance. Without a jitter the seconds pass.
		if many := len(seen) > 15; many != (tt.longest > 60) {
			t.Errorf("jitter %g: 20 clients are told to come back at %d times", tt.jitter, len(seen))
		}
		if d := limits.Decide(t.Context(), &policies.Request{Route: "/items/{id}", IP: "192.0.2.1"}); d.RetryAfter > 100000*time.Minute {
			t.Errorf("jitter %g: the decision itself says %s", tt.jitter, d.RetryAfter)
		}
	}
}

// The policy file's share holds where the program sets none: one that it sets holds in its place.
func TestRetryJitterOfThePolicyFile(t *testing.T) {
	text := strings.ReplaceAll(file, "window: 1m", "window: 100000m")
	for name, tt := range map[string]struct {
		text    string
		jitter  float64
		longest float64 // of the wait, in its own length
	}{
		"neither":     {text, 0, 1},
		"the file":    {text + "retry_jitter: 50%\n", 0, 1.5},
		"the program": {text + "retry_jitter: 50%\n", 0.1, 1.1},
	} {
		h := httplimit.New(harness(t, tt.text), httplimit.Config{RetryJitter: tt.jitter})(items())
		get(h, "/items/1", "192.0.2.1")
		get(h, "/items/1", "192.0.2.1")

		seen := map[string]bool{}
		for range 20 {
			retry := get(h, "/items/1", "192.0.2.1").Header.Get("Retry-After")
			seconds, err := strconv.ParseFloat(retry, 64)
			if err != nil || seconds > 100000*60*tt.longest {
				t.Errorf("%s: Retry-After %s", name, retry)
			}
			seen[retry] = true
		}
		if spread := len(seen) > 15; spread != (tt.longest > 1) {
			t.Errorf("%s: 20 clients are told to come back at %d times", name, len(seen))
		}
	}
}

// A handler that appends to a field, or changes its values, does not change those of other responses.
func TestFieldsAreTheResponsesOwn(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("RateLimit-Policy", "mine")
		w.Header()["Ratelimit"][0] = "mine"
	})

	h := httplimit.New(harness(t, file), httplimit.Config{})(mux)
	for range 2 {
		got := get(h, "/items/1", "192.0.2.1").Header
		if got.Get("RateLimit-Policy") != `"per-client";q=2;w=60` || len(got["Ratelimit-Policy"]) != 2 {
			t.Errorf("RateLimit-Policy: %v", got)
		}
		if got.Get("RateLimit") != "mine" {
			t.Errorf("RateLimit: %v", got)
		}
	}
}

// Limits from expressions do not fill the memory, and the fields have each of them.
func TestManyLimits(t *testing.T) {
	h := httplimit.New(harness(t, `
version: 1
name: test
policies:
  - name: sized
    key: request.user
    authoritative: { algorithm: fixed_window, limit: "request.size + 1", window: 1h }
`), httplimit.Config{Identify: func(r *http.Request, p *policies.Request) {
		p.Size, _ = strconv.ParseInt(r.URL.Path[1:], 10, 64)
	}})(http.NotFoundHandler())
	for n := range 3000 {
		want := fmt.Sprintf(`"sized";q=%d;w=3600`, n+1)
		got := get(h, fmt.Sprint("/", n), "192.0.2.1").Header.Get("RateLimit-Policy")
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

func TestProblem(t *testing.T) {
	h := httplimit.New(harness(t, file), httplimit.Config{OnDenied: httplimit.Problem})(items())
	get(h, "/items/1", "192.0.2.1")
	get(h, "/items/1", "192.0.2.1")
	got := get(h, "/items/1", "192.0.2.1")
	var body map[string]any
	if err := json.NewDecoder(got.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}

	if got.StatusCode != 429 || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
	if body["status"] != 429.0 || body["type"] != "https://iana.org/assignments/http-problem-types#quota-exceeded" {
		t.Errorf("body %v", body)
	}
	if fmt.Sprint(body["violated-policies"]) != "[per-client]" {
		t.Errorf("violated policies %v", body["violated-policies"])
	}
}

// The candidate's decision is in a response only if Config.Debug says so.
func TestDebugField(t *testing.T) {
	h := httplimit.New(harness(t, file), httplimit.Config{
		Debug: func(r *http.Request) bool { return r.URL.Query().Has("debug") },
	})(items())
	want := []string{
		`policy="per-client", enforced=authoritative, allowed=?1, candidate=?1;remaining=0`,
		`policy="per-client", enforced=authoritative, allowed=?1, candidate=?0;remaining=0`,
		`policy="per-client", enforced=authoritative, allowed=?0, candidate=?0;remaining=0`,
	}

	for i, text := range want {
		if got := get(h, "/items/1?debug", "192.0.2.1").Header.Get("Shadowlimit-Debug"); got != text {
			t.Errorf("request %d: %s, want %s", i, got, text)
		}
	}

	for path, text := range map[string]string{"/items/1": "", "/free?debug": "policy=none"} {
		if got := get(h, path, "192.0.2.1").Header.Get("Shadowlimit-Debug"); got != text {
			t.Errorf("%s: %q, want %q", path, got, text)
		}
	}
}

// Fields in a buffer are those of FieldsOf, whatever room the buffer has, and those of one response stay as they are when the next is
// written behind them.
func TestAppendFields(t *testing.T) {
	all := limits.New(harness(t, file), limits.Settings{})
	of := func(name string, d algorithms.Decision) shadow.Decision {
		return shadow.Decision{Policy: name, Limit: 2, Window: time.Minute, Decision: d}
	}
	decisions := []shadow.Decision{
		of("per-client", algorithms.Decision{Allowed: true, Capacity: 2, Remaining: 1, ResetAfter: time.Minute}),
		of("per-client", algorithms.Decision{Capacity: 2, RetryAfter: 59 * time.Second}),
		of(strings.Repeat("p", 100), algorithms.Decision{Allowed: true, Capacity: 2, Remaining: 1, ResetAfter: time.Minute}),
		of("", algorithms.Decision{Allowed: true}),
	}

	for room := range 400 {
		buf := make([]byte, 0, room)
		lists := make([]limits.FieldList, len(decisions))
		for i := range decisions {
			buf = all.AppendFields(&lists[i], buf, &decisions[i])
		}

		for i := range decisions {
			want := all.FieldsOf(&decisions[i])
			if got := lists[i].All(); !slices.Equal(got, want.All()) {
				t.Fatalf("room for %d: decision %d has %v, want %v", room, i, got, want.All())
			}
		}
	}
}
