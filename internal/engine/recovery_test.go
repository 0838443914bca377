package engine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A store that comes back is not overrun: while it is away each instance tries it with one
// request at a time, and afterwards the instances return one after the other, within one and
// a half times the length of the outage and within 36 s.
func TestRecoveryOfAFleetIsSpread(t *testing.T) {
	const instances, tick = 50, 10 * time.Millisecond
	for _, outage := range []time.Duration{time.Second, 10 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			pair := &failing{err: errors.New("refused")}
			var fleet []*Store
			for range instances {
				fleet = append(fleet, storeOn(pair))
			}

			// The load of a calm fleet is one check a tick and instance.
			most := 0
			round := func() {
				before := pair.asked
				for _, s := range fleet {
					s.ask(false)
				}
				most = max(most, pair.asked-before)
				time.Sleep(tick)
			}
			for begin := time.Now(); time.Since(begin) < outage; {
				round()
			}
			tried := pair.asked

			pair.err = nil
			ended := time.Now()
			var back []time.Duration
			for len(back) < instances {
				round()
				open := 0
				for _, s := range fleet {
					if s.nodes.open() {
						open++
					}
				}
				for len(back) < instances-open {
					back = append(back, time.Since(ended))
				}
				if time.Since(ended) > 2*breakMost {
					t.Fatalf("%d of %d instances have come back", len(back), instances)
				}
			}

			t.Logf("an outage of %s: %d requests tried the store; half of the fleet is back after %s, all of it after %s",
				outage, tried, back[instances/2].Round(tick), slices.Max(back).Round(tick))
			bound := min(outage*3/2+breakFirst*6/5, breakMost*6/5) + tick
			if last := slices.Max(back); last > bound {
				t.Errorf("after an outage of %s the last instance is back after %s, want %s at most", outage, last, bound)
			}
			if most > instances {
				t.Errorf("%d requests within a tick, where a calm fleet has %d", most, instances)
			}
			if spread := back[instances-1] - back[0]; outage > time.Second && spread < outage/20 && spread < breakMost/5 {
				t.Errorf("after an outage of %s all instances are back within %s", outage, spread)
			}
		})
	}
}
