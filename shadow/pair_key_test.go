package shadow_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// aPair returns a pair that is closed at the end of the test. Its clock stands still unless the configuration has one.
func aPair(t *testing.T, cfg shadow.PairConfig) *shadow.Pair {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if cfg.Clock == nil {
		cfg.Clock = func() time.Time { return now }
	}
	if cfg.Authoritative.Algorithm == nil {
		cfg.Authoritative = shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: perHour(2)}
	}
	if cfg.Candidate.Algorithm == nil {
		cfg.Candidate = shadow.Side{Algorithm: algorithms.GCRA{}, Limit: perHour(2)}
	}

	pair, err := shadow.NewPair(cfg)
	if err == nil {
		err = pair.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pair.Close(context.Background()) })
	return pair
}

// aHarness returns a harness of a name that is closed at the end of the test.
func aHarness(t *testing.T, name string) *shadow.Harness {
	t.Helper()
	h, err := shadow.New(shadow.Config{Policies: setOf(t, "name: test", "name: "+name), Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

func perHour(n int64) algorithms.Limit { return algorithms.Limit{Requests: n, Window: time.Hour} }

// allowedOfTen returns how many of ten requests of a key are allowed.
func allowedOfTen(pair *shadow.Pair, key string) (n int) {
	for range 10 {
		if pair.Allow(context.Background(), key, 1).Allowed {
			n++
		}
	}
	return n
}

// A key with a limit of its own has that one on the side that says so. A refused one leaves the authoritative as it was,
// and is the candidate's own failure.
func TestLimitsByKey(t *testing.T) {
	limits := func(key string) (algorithms.Limit, bool) {
		switch key {
		case "large":
			return perHour(7), true
		case "refused":
			return algorithms.Limit{Requests: -1}, true
		case "panics":
			panic("no such key")
		}
		return algorithms.Limit{}, false
	}

	for _, tt := range []struct {
		key                     string
		want                    int
		agreeAllow, candidateUp float64
	}{
		{"other", 2, 2, 10}, {"large", 7, 7, 10}, {"refused", 2, 0, 0}, {"panics", 2, 0, 0},
		{"large" + strings.Repeat("r", 400), 2, 2, 10},
	} {
		var log strings.Builder
		pair := aPair(t, shadow.PairConfig{
			Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: perHour(2), LimitOf: limits},
			Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: perHour(2), LimitOf: limits},
			Logger:        slog.New(slog.NewTextHandler(&log, nil)),
		})
		if n := allowedOfTen(pair, tt.key); n != tt.want {
			t.Errorf("%.10s: %d allowed, want %d", tt.key, n, tt.want)
		}

		failed := comparisons(t, pair, "candidate_error")
		if agree := comparisons(t, pair, "agree_allow"); agree != tt.agreeAllow || 10-failed != tt.candidateUp {
			t.Errorf("%.10s: %g times both allow, and the candidate fails %g times", tt.key, agree, failed)
		}
		if warned := strings.Contains(log.String(), "LimitOf"); warned != (tt.candidateUp == 0) {
			t.Errorf("%.10s: warned %t: %s", tt.key, warned, &log)
		}
	}
}

// A function of limits begins the evidence again where its revision changes, and pairs without one keep their fingerprints.
func TestFingerprintOfLimitsByKey(t *testing.T) {
	none := func(string) (algorithms.Limit, bool) { return algorithms.Limit{}, false }
	fingerprintOf := func(side shadow.Side) string {
		side.Algorithm, side.Limit = algorithms.GCRA{}, perHour(2)
		assessed, err := inside.Assess(t.Context(), aPair(t, shadow.PairConfig{Candidate: side}))
		if err != nil {
			t.Fatal(err)
		}
		return assessed[0].Spec.Fingerprint
	}

	plain, byKey, revised := fingerprintOf(shadow.Side{}), fingerprintOf(shadow.Side{LimitOf: none}), fingerprintOf(shadow.Side{LimitOf: none, Revision: "2"})
	if plain == byKey || byKey == revised || plain == revised {
		t.Errorf("fingerprints %s without, %s by key, %s of another revision", plain, byKey, revised)
	}
	if again := fingerprintOf(shadow.Side{Revision: "2"}); again != plain {
		t.Errorf("fingerprint %s of an algorithm with a revision, %s without", again, plain)
	}
}

// The clock of the configuration judges, and an hour of it ends a window.
func TestClockOfAPair(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pair := aPair(t, shadow.PairConfig{Clock: func() time.Time { return now }})
	first := allowedOfTen(pair, "k")
	now = now.Add(time.Hour)
	if second := allowedOfTen(pair, "k"); first != 2 || second != 2 {
		t.Errorf("%d and, an hour later, %d allowed, want 2 each", first, second)
	}
}

// An instance's name is the one that the fleet sees.
func TestInstanceOfAPair(t *testing.T) {
	pair := aPair(t, shadow.PairConfig{Instance: "pod-7"})
	f, err := inside.Stages(pair).Fleet(t.Context())
	fleet := f.Instances
	if err != nil || len(fleet) != 1 || !strings.HasPrefix(fleet[0].ID, "pod-7-") {
		t.Errorf("%+v (%v), want one instance pod-7-...", fleet, err)
	}
}

// Middleware asks a pair by the key of the request. Without a key function that is the client's address.
func TestDecideByAKeyFunction(t *testing.T) {
	byUser := func(r *policies.Request) (string, bool) { return r.User, r.Method != "OPTIONS" }
	for _, tt := range []struct {
		key     func(*policies.Request) (string, bool)
		request policies.Request
		want    int
	}{
		{nil, policies.Request{IP: "192.0.2.1"}, 2},
		{nil, policies.Request{}, 2},
		{byUser, policies.Request{User: "alice", IP: "192.0.2.1"}, 2},
		{byUser, policies.Request{Method: "OPTIONS"}, 10},
	} {
		pair := aPair(t, shadow.PairConfig{Key: tt.key})

		n := 0
		for i := range 10 {
			r := tt.request
			if tt.key != nil {
				r.IP = fmt.Sprint(i) // the address does not count
			}
			if d := pair.Decide(t.Context(), &r); d.Allowed {
				n++
			}
		}

		if n != tt.want {
			t.Errorf("%+v: %d allowed, want %d", tt.request, n, tt.want)
		}
	}
}

// Pairs that name their policies, others that have names, and harnesses share a process and a registry. Two of one name are
// refused when they are registered, and not at each scrape.
func TestSeveralPairsInOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	limiters := []prometheus.Collector{
		aPair(t, shadow.PairConfig{Policy: "reads"}),
		aPair(t, shadow.PairConfig{Policy: "writes"}),
		aPair(t, shadow.PairConfig{Name: "checkout", Policy: "writes"}),
		aPair(t, shadow.PairConfig{}),
		aHarness(t, "first"),
		aHarness(t, "second"),
	}
	for i, l := range limiters {
		if err := registry.Register(l); err != nil {
			t.Errorf("limiter %d: %v", i, err)
		}
	}

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, family := range families {
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "name" {
					names[l.GetValue()] = true
				}
			}
		}
	}
	if len(names) != len(limiters) {
		t.Errorf("series of %v", names)
	}
	if err := registry.Register(aPair(t, shadow.PairConfig{})); err == nil {
		t.Error("a second limiter of one name was registered")
	}
}
