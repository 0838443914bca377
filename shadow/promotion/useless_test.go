package promotion_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Candidates that say the same of every request, whatever the authoritative does.

// answers makes a minute's outcomes of how much the authoritative allowed and
// denied.
type answers func(m *divergence.Minute, allowed, denied int64, rng *rand.Rand)

func allowsAll(m *divergence.Minute, allowed, denied int64, rng *rand.Rand) {
	m.Tally[divergence.AgreeAllow] = allowed
	harm(m, divergence.NewlyAllowed, denied, 1+rng.IntN(9), rng)
}

func deniesAll(m *divergence.Minute, allowed, denied int64, rng *rand.Rand) {
	m.Tally[divergence.AgreeDeny] = denied
	harm(m, divergence.NewlyDenied, allowed, 1+rng.IntN(9), rng)
}

func doesTheSame(m *divergence.Minute, allowed, denied int64, _ *rand.Rand) {
	m.Tally[divergence.AgreeAllow], m.Tally[divergence.AgreeDeny] = allowed, denied
}

// authoritatives change what the authoritative of drawn traffic has decided.
var authoritatives = map[string]func(allowed, denied int64) (int64, int64){
	"as drawn":     func(allowed, denied int64) (int64, int64) { return allowed, denied },
	"never denies": func(allowed, denied int64) (int64, int64) { return allowed + denied, 0 },
	"never allows": func(allowed, denied int64) (int64, int64) { return 0, allowed + denied },
	"opposite":     func(allowed, denied int64) (int64, int64) { return denied, allowed },
}

// answered returns the evidence of a candidate that answers so.
func answered(e promotion.Evidence, authoritative func(int64, int64) (int64, int64), a answers) promotion.Evidence {
	rng := rand.New(rand.NewPCG(1, 1))
	minutes := make([]divergence.Minute, len(e.History.Minutes))
	for i, m := range e.History.Minutes {
		minutes[i].Unix = m.Unix
		for _, o := range []divergence.Outcome{divergence.AuthoritativeError, divergence.Inconclusive} {
			minutes[i].Tally[o] = m.Tally[o]
		}
		allowed, denied := authoritative(m.Tally.AuthoritativeAllows()+m.Tally[divergence.CandidateError], m.Tally.AuthoritativeDenies())
		a(&minutes[i], allowed, denied, rng)
	}
	e.History.Minutes = minutes
	return e
}

// trailingPass is the literal rule for all three ratios: each was measured in the
// last hours, and was under its threshold.
func trailingPass(cfg promotion.Config, e promotion.Evidence) bool {
	var last divergence.Tally
	for _, m := range e.History.Minutes {
		if m.Unix >= e.Now.Add(-cfg.Soak).Unix()/60 {
			last.Add(m.Tally)
		}
	}
	for _, r := range divergence.AllRatios {
		if v := r.Value(last); v == nil || *v >= cfg.Threshold(r) {
			return false
		}
	}
	return true
}

func TestUselessCandidatesNeverPassInAnyTraffic(t *testing.T) {
	passed := 0 // of candidates that do the same: how far the draw reaches
	rapid.Check(t, func(t *rapid.T) {
		cfg, e := drawConfig(t), drawEvidence(t)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(authoritatives))).Draw(t, "authoritative")
		for candidate, a := range map[string]answers{"allows all": allowsAll, "denies all": deniesAll} {
			e := answered(e, authoritatives[name], a)
			if g := promotion.Assess(cfg, e); g.Verdict == pass {
				t.Errorf("a candidate that %s passes, the authoritative %s: %s", candidate, name, g.Reason)
			}
			if trailingPass(cfg, e) {
				t.Errorf("a candidate that %s passes by trailing ratios, the authoritative %s", candidate, name)
			}
		}
		if promotion.Assess(cfg, answered(e, authoritatives[name], doesTheSame)).Verdict == pass {
			passed++
		}
	})
	t.Logf("a candidate that does the same passes %d times", passed)
}
