package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// levelsFile has a side that is adaptive, with a limit that shows its level.
func levelsFile(authoritative, candidate string) string {
	return `
version: 1
name: test
policies:
  - name: p
    key: request.user
    authoritative: { algorithm: gcra, limit: 64, window: 1d` + authoritative + ` }
    candidate: { algorithm: token_bucket, limit: 64, window: 1d` + candidate + ` }
`
}

const levelsRule = ", adaptive: { signal: latency_p99 }"

// An instance that hears of nothing has the whole limit again after five minutes, and a reload does not change that.
func TestLevelReturnsWithoutNews(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(levelsFile(levelsRule, "")))
	if err != nil {
		t.Fatal(err)
	}
	configured := set.Policies[0].Sides[0]

	synctest.Test(t, func(t *testing.T) {
		a := adapted(configured)
		a.Follow(map[string]adaptive.State{a.Key(): {Less: 48}})
		for _, row := range []struct {
			wait time.Duration
			want adaptive.Level
		}{{0, 16}, {time.Minute, 16}, {time.Second, 24}, {30 * time.Second, 32}, {4 * time.Minute, 64}} {
			time.Sleep(row.wait)
			a.Follow(nil)

			reloaded := adapted(configured)
			reloaded.resume(&[2]Side{{}, {adaptation: a}}) // in the other role
			a = reloaded
			if a.Level() != row.want {
				t.Errorf("after %s more: %d, want %d", row.wait, a.Level(), row.want)
			}
		}

		// A level that a stranger has published stays above the least of the rule.
		a.Follow(map[string]adaptive.State{a.Key(): {Less: 127}})
		if a.Level() != 16 {
			t.Errorf("a published level below the least: %d, want 16", a.Level())
		}
	})
}

// Sides with one rule have one level at every instant, so that equal limiters never differ. Those with two have two.
func TestSidesWithOneRuleShareALevel(t *testing.T) {
	for candidate, shared := range map[string]bool{levelsRule: true, ", adaptive: { signal: error_rate }": false, "": false} {
		set, err := policies.Load("test.yaml", []byte(levelsFile(levelsRule, candidate)))
		if err != nil {
			t.Fatal(err)
		}
		p := set.Policies[0]
		m := NewPolicy(stages.Spec{}, [2]Side{{adaptation: adapted(p.Sides[0])}, {adaptation: adapted(p.Sides[1])}}, PolicyOptions{})

		m.Sides[0].adaptation.Follow(map[string]adaptive.State{m.Sides[0].adaptation.Key(): {Less: 32}})
		var c algorithms.Check
		for role := range c.Sides {
			c.Sides[role].Limit, _ = p.Sides[role].Constant()
		}
		applyLevels(&m.Sides, &c)
		if got := c.Sides[1].Limit.Requests == 32; c.Sides[0].Limit.Requests != 32 || got != shared {
			t.Errorf("candidate%q: the limits are %s and %s", candidate, c.Sides[0].Limit, c.Sides[1].Limit)
		}
	}
}

func adapted(configured *policies.Side) *adaptation {
	var s Side
	s.Adapt(configured)
	return s.adaptation
}
