package replay

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// trial is a hypothesis with its number.
type trial struct {
	hypothesis
	least, most    int64 // the numbers that the log does not tell from this one
	wrong          int64 // requests that are decided in another way than the log says
	denies, allows int64 // of them, once the limiter was charged by itself
}

// need is how large the number must be at least for a request to be allowed, and whether the log says that it was.
type need struct {
	number int64
	denied bool
}

// fit finds the number of a hypothesis by which the fewest requests are decided in another way than the log says. found is false
// if no number explains a denial, or the algorithm refuses the limit.
func (s *search) fit(ctx context.Context, h hypothesis) (t trial, found bool, err error) {
	needs, err := s.needs(ctx, h)
	if err != nil || needs == nil {
		return t, false, err
	}

	t = trial{hypothesis: h}
	t.least, t.most, t.wrong = leastWrong(needs)
	number := roundest(t.least, t.most)
	if h.cost != 1 {
		number = roundestBelow(t.least, t.most, h.cost)
	}
	if number < 1 || t.most == math.MaxInt64 {
		return t, false, nil
	}

	t.hypothesis = h.with(number)
	return t, t.algorithm.Validate(t.limit) == nil, nil
}

// roundestBelow returns the number one below a multiple of cost, at which a count that is rounded down is denied; 0 if there is none.
func roundestBelow(least, most, cost int64) int64 {
	whole := roundest(least/cost, most/cost)
	if n := whole*cost + cost - 1; n >= least && n <= most {
		return n
	}
	return 0
}

// unlimited are numbers that hardly a log reaches. The first with which the algorithm is exact is taken.
var unlimited = []int64{1 << 40, 1 << 30, 1 << 20, 1 << 16}

// needs charges a hypothesis that has no bounds with the requests that the log says were allowed, so that it knows before each one
// what the limiter had counted: the largest cost it would still admit tells that.
func (s *search) needs(ctx context.Context, h hypothesis) ([]need, error) {
	i := slices.IndexFunc(unlimited, func(n int64) bool {
		h := h.with(n)
		return h.algorithm.Validate(h.limit) == nil
	})
	if i < 0 {
		return nil, nil
	}

	h = h.with(unlimited[i])
	needs := make([]need, 0, len(s.hot))
	err := h.chargeEach(ctx, s.keys, s.hot, func(e *event) bool {
		return e.observed == ObservedAllowed || h.limit.CountsDenied()
	}, func(e *event, c *algorithms.Charge, d *algorithms.Decision) {
		number := unlimited[i] - d.Remaining
		if c.Cost == 0 {
			number += e.cost * h.cost
		}
		needs = append(needs, need{number, e.observed == ObservedDenied})
	})
	return needs, err
}

// leastWrong returns the numbers by which the fewest requests are decided in another way than the log says: a number allows what
// needs at most it. Of several such ranges it is the one of the smallest numbers; most is the largest integer if it has no end.
func leastWrong(needs []need) (least, most, wrong int64) {
	slices.SortFunc(needs, func(a, b need) int { return cmp.Compare(a.number, b.number) })

	// A number of 0 denies all, so every allowed request is decided in another way.
	count := int64(0)
	for _, n := range needs {
		if !n.denied {
			count++
		}
	}

	least, most, wrong = 0, math.MaxInt64, count
	for i := 0; i < len(needs); {
		number := needs[i].number
		for ; i < len(needs) && needs[i].number == number; i++ {
			if needs[i].denied {
				count++
			} else {
				count--
			}
		}

		end := int64(math.MaxInt64)
		if i < len(needs) {
			end = needs[i].number - 1
		}
		if least == 0 && most == math.MaxInt64 {
			most = number - 1
		}
		if count < wrong {
			least, most, wrong = number, end, count
		}
	}
	return least, most, wrong
}

// charge counts what the limiter, charged with a log, decides in another way than that. A log does not tell which of a key's
// requests of one instant of its clock came first, so their denials are compared by number.
func (t *trial) charge(ctx context.Context, keys []string, list []event, tick time.Duration) error {
	t.denies, t.allows = 0, 0
	more := map[uint32]int64{} // denials of the limiter beyond those of the log, by key, at one instant
	instant := int64(math.MinInt64)
	flush := func() {
		for _, n := range more {
			t.denies += max(n, 0)
			t.allows += max(-n, 0)
		}
		clear(more)
	}

	every := func(*event) bool { return true }
	err := t.chargeEach(ctx, keys, list, every, func(e *event, _ *algorithms.Charge, d *algorithms.Decision) {
		if at := e.at / tick.Microseconds(); at != instant {
			flush()
			instant = at
		}
		switch {
		case d.Allowed && e.observed == ObservedDenied:
			more[e.key]--
		case !d.Allowed && e.observed == ObservedAllowed:
			more[e.key]++
		}
	})
	flush()
	t.wrong = t.denies + t.allows
	return err
}

// chargeEach charges the limiter, in memory, with the events that are paid, and peeks at the others.
func (h *hypothesis) chargeEach(
	ctx context.Context, keys []string, list []event,
	paid func(*event) bool, each func(*event, *algorithms.Charge, *algorithms.Decision),
) error {
	pair := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	charges, into := make([]algorithms.Charge, batch), make([][2]algorithms.Observation, batch)
	for i := range charges {
		charges[i].Policy = "infer"
		charges[i].Sides[algorithms.Authoritative] = algorithms.Side{Algorithm: h.algorithm, Limit: h.limit}
	}

	for from := 0; from < len(list); from += batch {
		events := list[from:min(from+batch, len(list))]
		for i := range events {
			e := &events[i]
			charges[i].Key, charges[i].At, charges[i].Cost = keys[e.key], time.UnixMicro(e.at), 0
			if paid(e) {
				charges[i].Cost = e.cost * h.cost
			}
		}
		if err := pair.Evaluate(ctx, charges[:len(events)], into); err != nil {
			return err
		}
		for i := range events {
			each(&events[i], &charges[i], &into[i][algorithms.Authoritative].Decision)
		}
	}
	return nil
}
