package limitertest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Exchange is where processes exchange what they have admitted: what lua.Pair.Exchange does, of the process of that number.
type Exchange func(process int, number int64, changes []algorithms.Change) []algorithms.Joint

// Synchronized holds the promises of a synchronized Memory and the store that it exchanges with, which open returns
// empty: one process decides as the pair in memory, several overshoot by the stated bound at most, and each unit is counted once.
func Synchronized(t *testing.T, open func() Exchange) {
	for _, a := range algorithms.All {
		held := func(s algorithms.Side) bool { return s.Algorithm.Name() == a.Name() }
		if algorithms.Synchronizable(a) != slices.ContainsFunc(synchronizable, held) {
			t.Errorf("Synchronizable says %v of %s: add it to synchronizable (limitertest/synchronized.go), or take it away there; "+
				"its state must have the numbers of its shape", algorithms.Synchronizable(a), a.Name())
		}
	}

	t.Run("alone it is the pair in memory", func(t *testing.T) { aloneIsInMemory(t, open) })
	t.Run("the overshoot is bounded", func(t *testing.T) { overshootIsBounded(t, open) })
	t.Run("healing counts each unit once", func(t *testing.T) { healingCountsOnce(t, open) })
}

// aloneIsInMemory: with one process every decision is as the pair in memory has it, whatever is lost on the way to the fleet.
func aloneIsInMemory(t *testing.T, open func() Exchange) {
	for i := range synchronizable {
		rapid.Check(t, func(t *rapid.T) {
			// Both sides of a record are exchanged, and each has another shape.
			a, b := synchronizable[i], synchronizable[(i+1)%len(synchronizable)]
			plain, x, one := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}), open(), newProcess()

			for at := int64(epochMicros); at < epochMicros+4_000_000; {
				at += rapid.SampledFrom([]int64{0, 1, 9_000, 70_000, 600_000, 1_500_000}).Draw(t, "wait")

				switch rapid.IntRange(0, 5).Draw(t, "op") {
				case 0:
					one.collect()
				case 1:
					one.send(0, x)
				case 2:
					one.receive()

				// An answer is lost, and an exchange that has landed arrives once more.
				case 3:
					one.reply = nil
					one.late(t, 0, x)

				// Peeks and costs beyond the capacity are among the checks.
				default:
					cost := rapid.Int64Range(0, 12).Draw(t, "cost")

					want, got := checkAt(plain, at, cost, a, b), checkAt(one.memory, at, cost, a, b)
					if want != got {
						t.Fatalf("%s: %+v, in memory %+v", a.Algorithm.Name(), got, want)
					}
				}
			}
		})
	}
}

// overshootIsBounded: several processes admit together at most what the limit does, and what all but one of them admit
// between a collection and the reply to the next one. After a lost request, a lost answer or a partition that is the time until
// it has healed, and for a process that crashes what it has never told.
func overshootIsBounded(t *testing.T, open func() Exchange) {
	for _, side := range synchronizable {
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(open(), rapid.IntRange(2, 4).Draw(t, "processes"))
			bucket := algorithms.TraitsOf(side.Algorithm).Shape == algorithms.Bucket
			at, window := int64(epochMicros), side.Limit.Window.Microseconds()

			// Fast programs reach the limit within a window, slow ones see buckets refill.
			most := rapid.SampledFrom([]int64{500, 5_000, 40_000}).Draw(t, "pace")

			for range 400 {
				at += rapid.Int64Range(0, most).Draw(t, "wait")
				elapsed, limit := at-epochMicros, side.Limit.Requests
				if bucket {
					limit = side.Limit.Capacity() + elapsed*side.Limit.Requests/window
				} else if elapsed >= window {
					limit = 1 << 40 // of windows, the first one; the others are for the comparison with the specification
				}

				w.disturb(t, at, side)
				if bound := limit + w.overshoot(); w.total > bound {
					t.Fatalf("%s: %d processes have admitted %d in %d us, bound %d", side.Algorithm.Name(), len(w.all), w.total, elapsed, bound)
				}
			}
		})
	}
}

// world is processes that exchange over a network that loses what it likes.
type world struct {
	exchange Exchange
	all      []*process // also those that have crashed
	alive    []int
	total    int64 // units admitted
}

// newWorld returns processes that know nothing of each other.
func newWorld(exchange Exchange, processes int) *world {
	w := &world{exchange: exchange}
	for i := range processes {
		w.all = append(w.all, newProcess())
		w.alive = append(w.alive, i)
	}
	return w
}

// disturb does one thing with one process: mostly it charges a key.
func (w *world) disturb(t *rapid.T, at int64, side algorithms.Side) {
	n := rapid.IntRange(0, len(w.alive)-1).Draw(t, "process")
	i := w.alive[n]
	p := w.all[i]

	switch rapid.IntRange(0, 11).Draw(t, "op") {
	// The parts of an exchange come one by one, so that checks fall between them, and an exchange may stay without its answer.
	case 0:
		p.collect()
	case 1:
		p.send(i, w.exchange)
	case 2:
		p.receive()

	// The network loses the answer.
	case 3:
		p.reply = nil

	// A whole exchange, as in a calm network.
	case 4:
		p.sync(i, w.exchange)

	// The network delivers an earlier exchange once more.
	case 6:
		p.late(t, i, w.exchange)

	// A process crashes, and another one takes its place. Each start is one more that knows nothing.
	case 5:
		if len(w.all) < 6 && rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
			w.alive[n] = len(w.all)
			w.all = append(w.all, newProcess())
		}
	default:
		w.check(p, at, rapid.Int64Range(1, 4).Draw(t, "cost"), side)
	}
}

// charge charges a process, and counts what it admits.
func (w *world) check(p *process, at, cost int64, side algorithms.Side) {
	if checkAt(p.memory, at, cost, side)[0].Decision.Allowed {
		p.total += cost
		w.total += cost
	}
}

// overshoot is the sum of the largest spans of all processes but one.
func (w *world) overshoot() (sum int64) {
	// The span that has not ended yet counts from the collection whose answer has not come.
	spans := make([]int64, len(w.all))
	for i, p := range w.all {
		since := p.at
		if p.flight != nil {
			since = p.was
		}
		spans[i] = max(p.span, p.total-since)
	}

	// The process that exchanged last before the limit was reached admits no more than was left: it is the one that does not count.
	slices.Sort(spans)
	for _, s := range spans[1:] {
		sum += s
	}
	return sum
}

// healingCountsOnce: after a partition has healed the record holds each unit once. Lost requests, lost answers, repeated and
// late exchanges neither forgive nor charge twice. A process that crashes takes with it what no exchange has carried, and
// nothing else.
func healingCountsOnce(t *testing.T, open func() Exchange) {
	for _, side := range synchronizable {
		// The limit is so high that nothing is denied, and no time passes: what a record holds is the sum of all checks.
		side.Limit.Requests, side.Limit.Burst = 4000, min(side.Limit.Burst, 1)*4000
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(open(), rapid.IntRange(1, 4).Draw(t, "processes"))
			lost := int64(0)
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				n := rapid.IntRange(0, len(w.alive)-1).Draw(t, "process")
				lost += w.part(t, n, side)
			}

			for _, i := range w.alive {
				w.all[i].sync(i, w.exchange) // what is in flight
				w.all[i].sync(i, w.exchange) // what has come since
			}
			w.checkUnits(t, side, lost)
		})
	}
}

// part has one process charge, exchange, lose a message or crash, and returns the units that a crash has taken along.
func (w *world) part(t *rapid.T, n int, side algorithms.Side) (lost int64) {
	i := w.alive[n]
	p := w.all[i]

	switch rapid.IntRange(0, 12).Draw(t, "op") {
	case 0:
		p.collect()
	case 1:
		p.send(i, w.exchange)
	case 2:
		p.reply = nil
	case 3:
		p.sync(i, w.exchange)
	case 4:
		p.late(t, i, w.exchange)

	// A crash: what no exchange has carried to the store is gone.
	case 5:
		w.alive[n] = len(w.all)
		w.all = append(w.all, newProcess())
		return p.total - p.told

	default:
		w.check(p, epochMicros, 3, side)
	}
	return 0
}

// checkUnits checks that each process counts all units but those lost, after one more of each has it see the record.
func (w *world) checkUnits(t *rapid.T, side algorithms.Side, lost int64) {
	for _, i := range w.alive {
		p := w.all[i]
		w.check(p, epochMicros, 1, side)
		p.sync(i, w.exchange)

		got := checkAt(p.memory, epochMicros, 0, side)[0].Decision
		if used := got.Capacity - got.Remaining; used != w.total-lost {
			t.Fatalf("%s: process %d counts %d units, %d were admitted and %d lost", side.Algorithm.Name(), i, used, w.total, lost)
		}
	}
}
