package shadow

import (
	"log/slog"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// ownBucket is an algorithm of the user's. It says that it is a bucket, and may be another one.
type ownBucket struct{ algorithms.Algorithm }

func (ownBucket) Name() string              { return "own_bucket" }
func (ownBucket) Traits() algorithms.Traits { return algorithms.Traits{Shape: algorithms.Bucket} }

// Two limiters that are the same differ only by what one of them has missed, however long ago.
// All others differ for reasons of their own, which count as soon as what was missed is forgotten.
func TestEchoesOfTheSameLimiterAreBlind(t *testing.T) {
	limit := algorithms.Limit{Requests: 10, Window: time.Minute}
	other := algorithms.Limit{Requests: 5, Window: time.Minute}
	slow := algorithms.Limit{Requests: 10, Window: time.Hour}
	burst := algorithms.Limit{Requests: 10, Window: time.Minute, Burst: 10}

	tests := map[string]struct {
		candidate algorithms.Algorithm
		limit     algorithms.Limit
		apart     bool
		agree     bool
		want      divergence.Outcome
	}{
		"the same":                  {algorithms.GCRA{}, limit, true, false, divergence.Blind},
		"the same by another name":  {algorithms.TokenBucket{}, burst, true, false, divergence.Blind},
		"the same, and it agrees":   {algorithms.GCRA{}, limit, true, true, divergence.AgreeAllow},
		"nothing was missed":        {algorithms.GCRA{}, limit, false, false, divergence.NewlyDenied},
		"another limit":             {algorithms.GCRA{}, other, true, false, divergence.NewlyDenied},
		"another window":            {algorithms.GCRA{}, slow, true, false, divergence.NewlyDenied},
		"another shape":             {algorithms.SlidingWindowLog{}, limit, true, false, divergence.NewlyDenied},
		"an algorithm of the users": {ownBucket{algorithms.GCRA{}}, limit, true, false, divergence.NewlyDenied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			st := newMemoryStore()
			m := newMigration(promotion.Spec{Policy: "p", Epoch: "e"}, [2]side{
				algorithmSide(algorithms.Side{Algorithm: algorithms.GCRA{}}, st),
				algorithmSide(algorithms.Side{ID: "b", Algorithm: tt.candidate}, st),
			}, options{log: slog.New(slog.DiscardHandler)})

			at := time.Unix(1_700_000_000, 0)
			o := observations{{At: at}, {At: at}}
			o[0].Decision.Allowed, o[1].Decision.Allowed = true, tt.agree
			if tt.apart {
				o[1].Apart = at.Add(-2 * time.Hour).UnixMicro()
			}
			ev := evaluation{migration: m, limits: [2]algorithms.Limit{limit, tt.limit}}
			if got := divergence.Compare(&o).Seen(ev.blind(at, &o)); got != tt.want {
				t.Errorf("the outcome is %s, want %s", got, tt.want)
			}
		})
	}
}
