package shadow

import (
	"log/slog"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Beside a foreign limiter a difference is an echo as long as neither side has admitted more than one
// capacity beyond the other. A limiter of another limit is found soon, whatever the file says.
func TestEchoesOfAForeignLimiterAreWithinOneCapacity(t *testing.T) {
	limit := algorithms.Limit{Requests: 4, Window: time.Minute}
	other := algorithms.Limit{Requests: 2, Window: time.Minute}

	// D is newly denied, A newly allowed, B agreed, ! a charge that one side misses, and . a time in
	// which the key is idle. A comparison that is blind is written small.
	tests := map[string]struct {
		foreign       algorithms.Limit
		answers, want string
	}{
		"nothing is missed":      {limit, "DADADA", "DADADA"},
		"one limit":              {limit, "!DADADADADA", "!dadadadada"},
		"another limit":          {limit, "!DDDDDDDD", "!ddddDDDD"},
		"a larger limit":         {limit, "!AAAAAA", "!aaaaAA"},
		"the balance comes back": {limit, "!DDDDDAAA", "!ddddDaaa"},
		"answers that agree":     {limit, "!DBDBDB", "!dBdBdB"},
		"a charge missed again":  {limit, "!DDD!DDDDD", "!ddd!ddddD"},
		"an idle time":           {limit, "!DA.DA", "!da.DA"},
		"the file gives two":     {other, "!DADADA", "!DADADA"},
		"the file gives one":     {algorithms.Limit{}, "!DADADA", "!dadada"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMigration(promotion.Spec{Policy: "p", Epoch: "e"}, [2]side{
				foreignSide(AllowFunc(func(string) bool { return true })),
				algorithmSide(algorithms.Side{Algorithm: algorithms.GCRA{}}, newMemoryStore()),
			}, options{log: slog.New(slog.DiscardHandler)})
			defer m.progress.followers.close(t.Context())

			// Nothing depends on the missed charge any more when the next one is made.
			ev := evaluation{migration: m, hash: 7, limits: [2]algorithms.Limit{tt.foreign, limit}}
			at, got := time.Unix(1_700_000_000, 0), ""
			for _, answer := range tt.answers {
				at = at.Add(time.Second)
				switch answer {
				case '.':
					at = at.Add(2 * time.Minute)
				case '!':
					m.progress.missed.note(ev.hash, at.UnixMicro())
					raise(&m.progress.missed.slot(ev.hash).idle, ev.forgotten(at.UnixMicro()))
				default:
					o := observations{{At: at}, {At: at}}
					o[0].Decision.Allowed, o[1].Decision.Allowed = answer != 'A', answer != 'D'
					if ev.updateBlind(&algorithms.Charge{Cost: 1}, at, &o) {
						answer += 'a' - 'A'
					}
				}
				got += string(answer)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

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
			if got := divergence.Compare(&o).Seen(ev.updateBlind(&algorithms.Charge{Cost: 1}, at, &o)); got != tt.want {
				t.Errorf("the outcome is %s, want %s", got, tt.want)
			}
		})
	}
}
