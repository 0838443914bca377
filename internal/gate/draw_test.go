package gate_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// Random evidence: stretches of traffic of one kind each.

type traffic struct {
	every        int // minutes from one with requests to the next
	volume       int // requests a minute at most
	deniedShare  float64
	newlyDenied  float64 // of the allowed
	newlyAllowed float64 // of the denied
	failed       float64 // of all
	uncompared   float64 // of all
	keys         int     // that diverge
}

var kinds = map[string]traffic{
	"idle":          {},
	"sparse":        {every: 17, volume: 9, deniedShare: 0.3, newlyDenied: 0.01, keys: 5},
	"lone denials":  {every: 61, volume: 3, deniedShare: 1, newlyAllowed: 0.1, keys: 2},
	"dense":         {every: 1, volume: 900, deniedShare: 0.1, newlyDenied: 0.0002, newlyAllowed: 0.002, keys: 9},
	"quiet":         {every: 1, volume: 300, deniedShare: 0.2},
	"harmful":       {every: 1, volume: 100, deniedShare: 0.1, newlyDenied: 0.4, keys: 8},
	"one client":    {every: 1, volume: 100, deniedShare: 0.1, newlyDenied: 0.4, keys: 1},
	"lenient":       {every: 2, volume: 60, deniedShare: 0.2, newlyAllowed: 0.9, keys: 4},
	"errors":        {every: 3, volume: 50, deniedShare: 0.1, failed: 0.2, keys: 4},
	"uncovered":     {every: 1, volume: 200, deniedShare: 0.1, newlyDenied: 0.3, uncompared: 0.03, keys: 5},
	"just covered":  {every: 20, volume: 3000, deniedShare: 0.1, uncompared: leastUncovered},
	"with hiccups":  {every: 1, volume: 900, deniedShare: 0.2, newlyDenied: 0.0002, uncompared: 0.002, keys: 9},
	"only degraded": {every: 7, volume: 5, uncompared: 1},
}

// leastUncovered is exactly the share that still counts.
const leastUncovered = 0.01

// likely has the kinds more than once that let a gate pass at all.
var likely = append(slices.Sorted(maps.Keys(kinds)),
	"quiet", "quiet", "quiet", "quiet", "quiet", "quiet", "quiet", "dense", "dense", "dense", "with hiccups", "with hiccups",
	"idle", "sparse")

// some rounds a share of n up or down by chance.
func some(rng *rand.Rand, n int64, share float64) int64 {
	return min(n, int64(float64(n)*share+rng.Float64()))
}

func (k traffic) minute(rng *rand.Rand, unix int64) evidence.Minute {
	m := evidence.Minute{Unix: unix}
	n := 1 + rng.Int64N(int64(k.volume))
	uncompared := some(rng, n, k.uncompared)
	if k.uncompared == leastUncovered {
		n, uncompared = 3000, 30
	}
	n -= uncompared

	failed := some(rng, n, k.failed)
	denied := some(rng, n-failed, k.deniedShare)
	newlyDenied, newlyAllowed := some(rng, n-failed-denied, k.newlyDenied), some(rng, denied, k.newlyAllowed)
	if k.keys == 0 {
		failed, newlyDenied, newlyAllowed = 0, 0, 0
	}

	m.Tally[evidence.AgreeAllow] = n - failed - denied - newlyDenied
	m.Tally[evidence.AgreeDeny] = denied - newlyAllowed
	m.Tally[evidence.Inconclusive] = uncompared / 2
	m.Tally[evidence.AuthoritativeError] = uncompared - uncompared/2
	harm(&m, evidence.NewlyDenied, newlyDenied, k.keys, rng)
	harm(&m, evidence.NewlyAllowed, newlyAllowed, k.keys, rng)
	harm(&m, evidence.CandidateError, failed, k.keys, rng)
	return m
}

// harm counts a divergence n times, of a number of keys.
func harm(m *evidence.Minute, o evidence.Outcome, n int64, keys int, rng *rand.Rand) {
	for i := range n {
		if i >= 6 { // the keys of a minute are few
			m.Tally[o] += n - i
			return
		}
		m.Count(o, 1+rng.Uint64N(uint64(keys)))
	}
}

func drawConfig(t *rapid.T) gate.Config {
	threshold := rapid.SampledFrom([]float64{0.001, 0.02, 0.05, 0.5})
	return gate.Config{
		Divergence:    threshold.Draw(t, "divergence"),
		NewlyDenied:   threshold.Draw(t, "newly denied"),
		NewlyAllowed:  threshold.Draw(t, "newly allowed"),
		Soak:          time.Hour * time.Duration(rapid.SampledFrom([]int{1, 6, 48}).Draw(t, "soak")),
		MinDenials:    rapid.SampledFrom([]int64{1, 5, 20}).Draw(t, "least denials"),
		MinDeniedKeys: 20,
	}.WithDefaults()
}

// drawMinutes draws traffic from one minute on, and returns the minute after it.
func drawMinutes(t *rapid.T, since int64) (minutes []evidence.Minute, now int64) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

	now = since
	for range rapid.IntRange(1, 14).Draw(t, "stretches") {
		kind := kinds[rapid.SampledFrom(likely).Draw(t, "kind")]
		length := rapid.SampledFrom([]int{3, 29, 60, 61, 240, 1000, 2000}).Draw(t, "length")
		for range length {
			if kind.every > 0 && rng.IntN(kind.every) == 0 {
				minutes = append(minutes, kind.minute(rng, now))
			}
			now++
		}
	}
	return minutes, now
}

// drawLive draws the spans in which instances were there: all the time but for
// some gaps.
func drawLive(t *rapid.T, since, now int64) (live []evidence.Span) {
	from := since
	for range rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "gaps") {
		gap := rapid.Int64Range(from, now).Draw(t, "gap")
		if gap > from {
			live = append(live, evidence.Span{From: from, To: gap})
		}
		from = min(now, gap+rapid.SampledFrom([]int64{1, 30, 31, 200}).Draw(t, "gap's length"))
	}

	if from < now {
		live = append(live, evidence.Span{From: from, To: now})
	}
	return live
}

// drawEvidence draws whole minutes only: TestMinuteInProgress is about the rest.
func drawEvidence(t *rapid.T) gate.Evidence {
	since := mondayMinute + rapid.Int64Range(0, 2*day).Draw(t, "since")
	minutes, now := drawMinutes(t, since)
	e := gate.Evidence{
		Since: time.Unix(60*since+rapid.Int64Range(0, 59).Draw(t, "since's seconds"), 0),
		Now:   time.Unix(60*now+rapid.Int64Range(0, 59).Draw(t, "now's seconds"), 0),
		Live:  1,
	}

	e.History.Minutes, e.History.Live = minutes, drawLive(t, since, now)
	e.History.Distinct[evidence.KeysDenied] = rapid.SampledFrom([]int64{20, 300, 20, 300, 19}).Draw(t, "keys")

	switch rapid.IntRange(0, 15).Draw(t, "fleet") {
	case 1:
		e.Live = 0
	case 2:
		e.NotWriting = []string{"a"}
	case 3:
		e.OtherFingerprint = []string{"b"}
	}
	return e
}

func TestGateAgreesWithOracle(t *testing.T) {
	verdicts := map[string]int{} // how far the draw reaches
	rapid.Check(t, func(t *rapid.T) {
		cfg, e := drawConfig(t), drawEvidence(t)
		g, o := gate.Assess(cfg, e), consult(cfg, e)
		verdicts[o.verdict]++
		for _, d := range o.compare(g) {
			t.Error(d)
		}
	})
	t.Logf("verdicts %v", verdicts)
}
