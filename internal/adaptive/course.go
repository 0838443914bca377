package adaptive

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Course is what a service did over a log, so that a replay has the levels of that time. Lines may come in any order. The zero Course
// has none.
type Course struct {
	cells map[cell]int64
}

// cell is a slot of time and a bucket of durations, or one of the sums below. Most slots of a long log have a few.
type cell struct {
	slot   int64
	bucket int16
}

const (
	// slotOf is the time of a slot, and of a look at the evidence.
	slotOf = 5 * time.Second
	// evidenceOf is how many slots a look sees, and heardAfter how many slots later its level holds: heartbeats and counts take that long.
	seenSlots  = 2
	heardAfter = 1
)

// The sums of a slot that are no bucket of durations.
const (
	failedIn int16 = -1 - iota
	saturationIn
	saturatedIn
)

// Change is a level that holds from an instant on.
type Change struct {
	At    time.Time
	Level Level
}

// add adds to a cell of an instant.
func (c *Course) add(at time.Time, bucket int16, n int64) {
	if c.cells == nil {
		c.cells = map[cell]int64{}
	}
	c.cells[cell{at.UnixMicro() / slotOf.Microseconds(), bucket}] += n
}

// Served adds a request.
func (c *Course) Served(at time.Time, d time.Duration, failed bool) {
	c.add(at, int16(bucketOf(d)), 1)
	if failed {
		c.add(at, failedIn, 1)
	}
}

// Saturated adds what the service has said of itself, a ratio between 0 and 1.
func (c *Course) Saturated(at time.Time, ratio float64) {
	if !math.IsNaN(ratio) {
		c.add(at, saturationIn, int64(min(max(ratio, 0), 1)*Million))
		c.add(at, saturatedIn, 1)
	}
}

// Levels returns the levels that a rule decides, each until the next one. Before the first it is the whole limit.
func (c *Course) Levels(r *Rule) (list []Change) {
	slots := c.slots()
	s, level := State{}, Full
	for i := 0; i < len(slots); {
		// A look is at the end of a slot. Where nothing is heard, looks go on until the limit is whole again.
		for slot := slots[i]; ; slot++ {
			for i < len(slots) && slots[i] <= slot {
				i++
			}

			// A change holds once instances have heard of it.
			e := c.evidence(slot)
			s = r.Next(s, &e, startOf(slot+1))
			if next := s.Level(); next != level {
				level, list = next, append(list, Change{startOf(slot + 1 + heardAfter), next})
			}

			quiet := i == len(slots) || slots[i] > slot+seenSlots
			if _, known := e.Reading(r.Signal); quiet && !known && level == Full {
				break
			}
		}
	}
	return list
}

// slots returns the slots with anything in them, in order.
func (c *Course) slots() (list []int64) {
	for at := range c.cells {
		list = append(list, at.slot)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// evidence is what a look at the end of a slot sees.
func (c *Course) evidence(slot int64) (e Evidence) {
	for at := slot - seenSlots + 1; at <= slot; at++ {
		e.Failed += c.cells[cell{at, failedIn}]
		e.saturation += c.cells[cell{at, saturationIn}]
		e.saturated += c.cells[cell{at, saturatedIn}]

		for bucket := range e.durations {
			e.durations[bucket] += c.cells[cell{at, int16(bucket)}]
		}
	}
	return e
}

func startOf(slot int64) time.Time { return time.UnixMicro(slot * slotOf.Microseconds()) }

// At returns the level of an instant.
func At(changes []Change, at time.Time) Level {
	i, found := slices.BinarySearchFunc(changes, at, func(c Change, at time.Time) int { return cmp.Compare(c.At.UnixMicro(), at.UnixMicro()) })
	if found {
		return changes[i].Level
	}

	// Before the first change the limit is whole.
	if i == 0 {
		return Full
	}
	return changes[i-1].Level
}
