package gate_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Candidates that say the same of every request, whatever the authoritative does.

// answers makes a minute's outcomes of how much the authoritative allowed and
// denied.
type answers func(m *evidence.Minute, allowed, denied int64, rng *rand.Rand)

func allowsAll(m *evidence.Minute, allowed, denied int64, rng *rand.Rand) {
	m.Tally[evidence.AgreeAllow] = allowed
	harm(m, evidence.NewlyAllowed, denied, 1+rng.IntN(9), rng)
}

func deniesAll(m *evidence.Minute, allowed, denied int64, rng *rand.Rand) {
	m.Tally[evidence.AgreeDeny] = denied
	harm(m, evidence.NewlyDenied, allowed, 1+rng.IntN(9), rng)
}

func doesTheSame(m *evidence.Minute, allowed, denied int64, _ *rand.Rand) {
	m.Tally[evidence.AgreeAllow], m.Tally[evidence.AgreeDeny] = allowed, denied
}

// authoritatives change what the authoritative of drawn traffic has decided.
var authoritatives = map[string]func(allowed, denied int64) (int64, int64){
	"as drawn":     func(allowed, denied int64) (int64, int64) { return allowed, denied },
	"never denies": func(allowed, denied int64) (int64, int64) { return allowed + denied, 0 },
	"never allows": func(allowed, denied int64) (int64, int64) { return 0, allowed + denied },
	"opposite":     func(allowed, denied int64) (int64, int64) { return denied, allowed },
}

// answered returns the evidence of a candidate that answers so.
func answered(e gate.Evidence, authoritative func(int64, int64) (int64, int64), a answers) gate.Evidence {
	rng := rand.New(rand.NewPCG(1, 1))
	minutes := make([]evidence.Minute, len(e.History.Minutes))
	for i, m := range e.History.Minutes {
		minutes[i].Unix = m.Unix
		for _, o := range []evidence.Outcome{evidence.AuthoritativeError, evidence.Inconclusive} {
			minutes[i].Tally[o] = m.Tally[o]
		}

		answered := m.Tally.AuthoritativeAllows() + m.Tally[evidence.CandidateError]
		allowed, denied := authoritative(answered, m.Tally.AuthoritativeDenies())
		a(&minutes[i], allowed, denied, rng)
	}
	e.History.Minutes = minutes
	return e
}

func TestUselessCandidatesNeverPassInAnyTraffic(t *testing.T) {
	passed := 0 // of candidates that do the same: how far the draw reaches
	rapid.Check(t, func(t *rapid.T) {
		cfg, e := drawConfig(t), drawEvidence(t)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(authoritatives))).Draw(t, "authoritative")

		for candidate, a := range map[string]answers{"allows all": allowsAll, "denies all": deniesAll} {
			if g := gate.Assess(cfg, answered(e, authoritatives[name], a)); g.Verdict == gate.Pass {
				t.Errorf("a candidate that %s passes, the authoritative %s: %s", candidate, name, g.Reason)
			}
		}
		if gate.Assess(cfg, answered(e, authoritatives[name], doesTheSame)).Verdict == gate.Pass {
			passed++
		}
	})
	t.Logf("a candidate that does the same passes %d times", passed)
}

// declared makes all differences of a candidate declared ones, which have no keys.
func declared(a answers) answers {
	return func(m *evidence.Minute, allowed, denied int64, rng *rand.Rand) {
		a(m, allowed, denied, rng)
		t := &m.Tally
		t[evidence.ExpectedAllowed], t[evidence.NewlyAllowed] = t[evidence.NewlyAllowed], 0
		t[evidence.ExpectedDenied], t[evidence.NewlyDenied] = t[evidence.NewlyDenied], 0
		m.Keys = evidence.Minute{}.Keys
	}
}

// Declared differences are no evidence against a candidate, but none for it either: a
// candidate that agrees in nothing does not pass.
func TestDeclaringEverythingIsNotEnough(t *testing.T) {
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		cfg, e := drawConfig(t), drawEvidence(t)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(authoritatives))).Draw(t, "authoritative")

		if gate.Assess(cfg, answered(e, authoritatives[name], doesTheSame)).Verdict == gate.Pass {
			passed++
		}
		for candidate, a := range map[string]answers{"allows all": allowsAll, "denies all": deniesAll} {
			if g := gate.Assess(cfg, answered(e, authoritatives[name], declared(a))); g.Verdict == gate.Pass {
				t.Errorf("a candidate that %s, as declared, passes: %s", candidate, g.Reason)
			}
		}
	})
	t.Logf("one that does the same passed %d times", passed)
}
