package shadow

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Whatever happens to two limiters that are the same is no evidence. Where they share no record they differ in disturbed time:
// nothing is moved, held or failed for it, and time is undisturbed again within the hour and one window. Where they share one
// only the first window of a log disturbs any, which need not begin as a copy, and the deployment of another file.
func TestDisturbedTimeIsNoEvidence(t *testing.T) {
	for i, arrangement := range twinArrangements {
		t.Run(arrangement.name, func(t *testing.T) {
			t.Parallel()
			programs := rapid.Custom(func(t *rapid.T) []twinStep { return drawTwinProgram(t, nil) })
			for seed := range blips(2, 300) {
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
				a := algorithms.All[(3*i+seed)%len(algorithms.All)]
				window := []time.Duration{30 * time.Second, time.Minute, 10 * time.Minute, time.Hour}[rng.IntN(4)]
				limit := twinLimit(a, int64(window/(15*time.Second)), window)
				setting := twinSetting{
					algorithm: a, limits: [2]algorithms.Limit{limit, limit}, places: arrangement.places, instances: 1 + rng.IntN(3),
				}
				if rng.IntN(2) == 1 {
					setting.stage = stages.Step{Stage: stages.Promoted}
				}

				program := twinOutage
				if seed > 0 {
					program = programs.Example(seed)
				}
				var w *twinWorld
				synctest.Test(t, func(t *testing.T) { w = setting.disturb(program, rng) })
				w.check(t, program)
			}
		})
	}
}

// twinOutage has checks reach one side only in each arrangement without a shared record. The first program of each is this one:
// a drawn one may disturb nothing.
var twinOutage = []twinStep{
	{"clients leave", 0, 12, 100 * time.Millisecond},
	{"hold", 1, 0, 15 * time.Second}, {"requests", 0, 12, time.Second},
	{"hold", 0, 0, 15 * time.Second}, {"requests", 0, 12, time.Second},
}

// disturb runs a program in the second hour of traffic that goes on until all must be undisturbed again, and for an hour more.
func (s twinSetting) disturb(program []twinStep, rng *rand.Rand) *twinWorld {
	w := newTwinWorld(s)
	end := w.goOn(rng)
	w.start()
	w.sleepTo(time.Now().Truncate(time.Hour).Add(time.Hour + 10*time.Minute))
	w.play(program)

	// The hour in which a disturbance ends, and those that have a part of the window behind it, may be disturbed.
	back := time.Now().Add(w.memory() + time.Hour).Truncate(time.Hour)
	w.sleepTo(back.Add(time.Minute))
	before := w.undisturbed()
	w.sleepTo(back.Add(time.Hour + time.Minute))
	end()
	after := w.undisturbed()
	w.end()

	if after-before != time.Hour {
		w.violate("of the hour from %s on %s is undisturbed", back.Format("15:04"), after-before)
	}
	all, fresh := time.Since(w.began).Truncate(time.Minute), w.memory()
	if w.instances[0].Pair.policy.Spec.Copied {
		fresh = 0
	}
	switch deployed := slices.ContainsFunc(program, func(s twinStep) bool { return deployments[s.do] }); {
	case s.sharesRecord() && !deployed && after < all-fresh-time.Minute:
		w.violate("of %s with a record that is shared %s is undisturbed", all, after)
	case !s.sharesRecord() && w.mostOneSided() > 0.002 && after > all-time.Hour:
		w.violate("of %s with an hour in which more than 0.2 %% of the checks reached one side only %s is undisturbed", all, after)
	}
	return w
}

// deployments are the steps that bring another file beside the twins'.
var deployments = map[string]bool{"another fingerprint": true, "another limit": true, "plain limiter": true}

func (w *twinWorld) sleepTo(at time.Time) { time.Sleep(time.Until(at)) }

// goOn sends requests of ten keys, of which some are over their limit all the time, until it is told to end. They come at
// random, 1440 in an hour: one of them that reaches one side only does not disturb it.
func (w *twinWorld) goOn(rng *rand.Rand) (end func()) {
	const keys = 10
	name := func(n int) string { return append(twinKeys, "c3", "c4", "c5", "c6", "c7", "c8", "c9")[n] }
	sum := 0.0
	for n := range keys {
		sum += math.Pow(float64(n+1), -0.9)
	}

	done := make(chan struct{})
	var goes sync.WaitGroup
	goes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(2.5 * rng.ExpFloat64() * float64(time.Second))):
			}
			n := 0
			for x := rng.Float64() * sum; n < keys-1; n++ {
				if x -= math.Pow(float64(n+1), -0.9); x < 0 {
					break
				}
			}
			w.ask(context.Background(), w.someInstance(i), name(n), 1)
		}
	})
	return func() {
		close(done)
		goes.Wait()
		w.requests.Wait()
	}
}

// mostOneSided returns the largest share, of any hour, of checks that one side alone has answered.
func (w *twinWorld) mostOneSided() (most float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all, oneSided [24]float64
	for i := range w.comparisons {
		c := &w.comparisons[i]
		hour := c.At.Sub(w.began) / time.Hour
		if all[hour]++; (c.Observed[0].Status == algorithms.Judged) != (c.Observed[1].Status == algorithms.Judged) && c.Cost > 0 {
			oneSided[hour]++
		}
	}
	for hour := range all {
		most = max(most, oneSided[hour]/max(1, all[hour]))
	}
	return most
}

// undisturbed returns how much of the time counts, and holds that the evidence is none against twins.
func (w *twinWorld) undisturbed() time.Duration {
	list, err := stages.NewController(w.states, w.ledger, "test").Assess(context.Background())
	if err != nil || len(list) != 1 {
		w.violate("%d policies are judged: %v", len(list), err)
		return 0
	}
	g := list[0].Gate
	if g.Verdict == gate.Fail {
		w.violate("the verdict is %s: %s", g.Verdict, g.Reason)
	}
	return time.Duration(math.Round(g.UndisturbedHours*60)) * time.Minute
}
