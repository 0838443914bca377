package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// failing is a policy in which SIDES has failed. FAILURE and ERROR are the rules for that.
const failing = `
version: 1
name: failing
policies:
  - name: per-tenant
    when: WHEN
    key: KEY
    on_store_failure: FAILURE
    on_error: ERROR
    SIDES
`

// two is an authoritative that allows two requests.
const two = "authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }"

// Failure is a part of a policy that has failed, and which of a tenant's first three requests are admitted all the same.
type Failure struct {
	Name     string
	Admitted [3]bool

	sides          string
	failure, error string // "" is the default
	key            string // "" is the key of the test
}

// Failures are what may fail behind a way into a service. The candidates change no answer, and for all else a rule holds.
var Failures = []Failure{
	{Name: "a candidate that returns errors", sides: two + "\n    candidate: { limiter: errors }", Admitted: [3]bool{true, true, false}},
	{Name: "a candidate that panics", sides: two + "\n    candidate: { limiter: panics }", Admitted: [3]bool{true, true, false}},
	{Name: "a candidate that never returns", sides: two + "\n    candidate: { limiter: hangs }", Admitted: [3]bool{true, true, false}},
	{
		Name: "a candidate in a dead Redis", Admitted: [3]bool{true, true, false},
		sides: two + "\n    candidate: { algorithm: gcra, limit: 1, window: 2h, store: dead }",
	},
	{Name: "a candidate whose limit fails", Admitted: [3]bool{true, true, false},
		sides: two + "\n    candidate: { algorithm: gcra, limit: 'int(request.claims[\"absent\"])', window: 2h }"},

	{Name: "a dead Redis, deny", sides: dead, failure: "deny"},
	{Name: "a dead Redis, allow", sides: dead, failure: "allow", Admitted: [3]bool{true, true, true}},
	{Name: "a dead Redis, local", sides: dead, Admitted: [3]bool{true, true, false}},
	{Name: "an authoritative that panics, deny", sides: "authoritative: { limiter: panics }", failure: "deny"},
	{Name: "a key that fails, deny", sides: two, key: absent, error: "deny"},
	{Name: "a key that fails, allow", sides: two, key: absent, error: "allow", Admitted: [3]bool{true, true, true}},
}

const (
	dead   = "authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h, store: dead }"
	absent = `request.claims["absent"]`
)

// Start returns a harness of a policy with the failure, for requests that an expression matches.
func (f *Failure) Start(t *testing.T, when, key string) *shadow.Harness {
	t.Helper()
	or := func(text, usual string) string {
		if text == "" {
			return usual
		}
		return text
	}
	text := strings.NewReplacer("WHEN", fmt.Sprintf("%q", when), "KEY", "'"+or(f.key, key)+"'", "SIDES", f.sides,
		"FAILURE", or(f.failure, "local"), "ERROR", or(f.error, "allow")).Replace(failing)
	set, err := policies.Load("failing.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	// Connections to this port are refused at once, by every machine.
	redis.SetLogger(quiet{})
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}, 0))
	now, released := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), make(chan struct{})
	h, err := shadow.New(shadow.Config{
		Policies: set, Clock: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
		Stores: map[string]redis.UniversalClient{"dead": client}, Limiters: limitersThatFail(released),
	})
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		close(released)
		if err := errors.Join(h.Close(context.Background()), client.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// quiet drops what go-redis says of a server that is not there, which the test knows.
type quiet struct{}

// Printf implements the logger of go-redis.
func (quiet) Printf(context.Context, string, ...any) {}

// limitersThatFail are limiters of a program. One returns at the end of the test, and not at that of its context.
func limitersThatFail(released <-chan struct{}) map[string]shadow.Limiter {
	fail := func(how func() error) shadow.Limiter {
		return shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			return algorithms.Decision{}, how()
		})
	}
	return map[string]shadow.Limiter{
		"errors": fail(func() error { return errors.New("no answer") }),
		"panics": fail(func() error { panic("a bug of the limiter") }),
		"hangs": fail(func() error {
			<-released
			return errors.New("too late")
		}),
	}
}

// What fails behind a way is answered by the policy's rules, and a candidate that fails changes no answer.
func testFailures(t *testing.T, f Framework) {
	for i := range Failures {
		failure := &Failures[i]
		s := serviceOf(t, failure.Start(t, `request.route == "`+f.Item+`"`, `request.headers["x-tenant"]`))
		c := f.Start(t, s)

		var got [3]bool
		for i := range got {
			a := send(t, c, "item", tenant("a"))
			got[i] = a.Status == 200
			if !got[i] && a.Status != 429 {
				t.Errorf("%s: request %d: %d", failure.Name, i, a.Status)
			}
		}
		if got != failure.Admitted {
			t.Errorf("%s: admitted %v, want %v", failure.Name, got, failure.Admitted)
		}
	}
}
