package replay

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// hypothesis is a limiter with one number that the log has to tell: the limit of a window, the burst of a bucket.
type hypothesis struct {
	algorithm algorithms.Algorithm
	limit     algorithms.Limit
	cost      int64 // of a request whose cost is 1
}

// bucket reports whether the open number is the burst.
func (h *hypothesis) bucket() bool {
	return algorithms.TraitsOf(h.algorithm).Shape == algorithms.Bucket
}

// with returns the hypothesis with a number.
func (h hypothesis) with(number int64) hypothesis {
	if h.bucket() {
		h.limit.Burst = number
	} else {
		h.limit.Requests = number
	}
	return h
}

// number returns the number that with has set.
func (h *hypothesis) number() int64 {
	if h.bucket() {
		return h.limit.Burst
	}
	return h.limit.Requests
}

func (h *hypothesis) String() string { return h.algorithm.Name() + ":" + h.limit.String() }

// thousandths is the cost of a request for a limiter that compares a rate with its limit after it has rounded the rate down, as
// HAProxy does: in whole requests its limit has no number.
const thousandths = 1000

// usualWindows are the windows that configurations have.
var usualWindows = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// windows returns a hypothesis for each kind of window, without options that the log cannot show: its clock is too coarse for a
// window shorter than a second, it ends before a window does, or each request costs the same, so that a denied one counts nothing
// in a window that is full anyway.
func (s *search) windows() (list []hypothesis) {
	add := func(a algorithms.Algorithm, l algorithms.Limit, cost int64) {
		list = append(list, hypothesis{a, l, cost})
	}

	for _, w := range usualWindows {
		if w < s.fine || w > 2*s.span {
			continue
		}
		for _, counted := range []bool{false, true} {
			o := algorithms.Options{CountDenied: counted}
			first := algorithms.Options{CountDenied: counted, Phase: algorithms.PhaseFirst}
			add(algorithms.SlidingWindowLog{}, algorithms.Limit{Window: w, Options: o}, 1)
			for _, cost := range []int64{1, thousandths} {
				add(algorithms.SlidingWindowCounter{}, algorithms.Limit{Window: w, Options: o}, cost)
				add(algorithms.SlidingWindowCounter{}, algorithms.Limit{Window: w, Options: first}, cost)
			}
			if !counted || s.costs {
				add(algorithms.FixedWindow{}, algorithms.Limit{Window: w, Options: o}, 1)
				add(algorithms.FixedWindow{}, algorithms.Limit{Window: w, Options: first}, 1)
				add(algorithms.FixedWindowAnchored{}, algorithms.Limit{Window: w, Options: o}, 1)
			}
		}
	}

	for _, calendar := range []algorithms.Calendar{algorithms.Week, algorithms.Month, algorithms.Year} {
		if calendar.Longest() < 2*s.span {
			l := algorithms.Limit{Window: calendar.Longest(), Options: algorithms.Options{Calendar: calendar}}
			add(algorithms.FixedWindow{}, l, 1)
		}
	}
	return list
}

// usualPeriods are the times of which configurations give a rate.
var usualPeriods = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}

// bucketOf returns a bucket of a rate. All buckets decide alike, so one stands for them.
func bucketOf(requests int64, period, refill time.Duration) hypothesis {
	l := algorithms.Limit{Requests: requests, Window: period, Options: algorithms.Options{Refill: refill}}
	return hypothesis{algorithms.TokenBucket{}, l, 1}
}

// refills are the steps in which the tokens of buckets come: evenly, or all of a second at once.
var refills = []time.Duration{0, time.Second}

// coarseRates returns buckets of round rates, each once, from one a day to 10,000 a second.
func coarseRates() (list []hypothesis) {
	known := map[string]bool{}
	for _, period := range usualPeriods {
		for _, scale := range []int64{10, 100, 1000, 10_000} {
			for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80, 90} {
				h := bucketOf(tenths*scale/100, period, 0)
				if rate := h.rate().String(); h.limit.Requests*100 != tenths*scale || known[rate] {
					continue
				}
				known[h.rate().String()] = true
				list = append(list, h)

				// A step that brings less than a token is none.
				if period == time.Second {
					list = append(list, bucketOf(h.limit.Requests, period, time.Second))
				}
			}
		}
	}
	return list
}

// rate returns the requests of a nanosecond.
func (h *hypothesis) rate() *big.Rat { return big.NewRat(h.limit.Requests, int64(h.limit.Window)) }

// finerRates returns buckets between the neighbours of the best rate that was tried. The errors of a rate fall towards the right
// one, so it lies there.
func (s *search) finerRates() (list []hypothesis) {
	for _, refill := range refills {
		buckets := slices.DeleteFunc(slices.Clone(s.tried), func(t trial) bool { return !t.bucket() || t.limit.Refill != refill })
		if len(buckets) == 0 {
			continue
		}

		slices.SortFunc(buckets, func(a, b trial) int { return a.rate().Cmp(b.rate()) })
		first := best(slices.Clone(buckets), 1)[0]
		at := slices.IndexFunc(buckets, func(t trial) bool { return t.sameBucket(&first.hypothesis) })
		low, high := buckets[max(at-1, 0)].rate(), buckets[min(at+1, len(buckets)-1)].rate()
		for _, period := range usualPeriods {
			list = append(list, between(low, high, period, refill)...)
		}
	}
	return slices.DeleteFunc(list, func(h hypothesis) bool {
		return slices.ContainsFunc(s.tried, func(t trial) bool { return t.sameBucket(&h) })
	})
}

func (h *hypothesis) sameBucket(other *hypothesis) bool {
	return h.bucket() && other.bucket() && h.limit.Options == other.limit.Options && h.rate().Cmp(other.rate()) == 0
}

// mostBetween is how many rates of one period are tried between two others.
const mostBetween = 24

// between returns buckets of whole requests a period that lie between two rates, evenly.
func between(low, high *big.Rat, period, refill time.Duration) (list []hypothesis) {
	whole := func(rate *big.Rat) int64 {
		n := new(big.Rat).Mul(rate, big.NewRat(int64(period), 1))
		return new(big.Int).Quo(n.Num(), n.Denom()).Int64()
	}

	first, last := whole(low)+1, whole(high)
	step := max((last-first)/mostBetween, 1)
	for n := first; n <= last; n += step {
		list = append(list, bucketOf(n, period, refill))
	}
	return list
}

// complexity orders limiters that explain a log equally well: people write round numbers and few options.
func (h *hypothesis) complexity() int {
	c := figures(h.limit.Requests) + 2*strings.Count(h.limit.Options.String(), ":")
	if h.bucket() && h.limit.Burst != h.limit.Requests {
		c += figures(h.limit.Burst)
	}
	if h.cost != 1 {
		c += 2
	}
	if !slices.Contains(usualPeriods, h.limit.Window) {
		c++
	}
	return 10*c + rank(h.algorithm)
}

// usual are the algorithms of hypotheses, from the one that is met most often.
var usual = []string{"fixed_window", "token_bucket", "fixed_window_anchored", "sliding_window_counter", "sliding_window_log"}

// rank orders algorithms by how often they are met.
func rank(a algorithms.Algorithm) int {
	if i := slices.Index(usual, a.Name()); i >= 0 {
		return i
	}
	return len(usual)
}

// figures counts the digits of a number without the zeros at its end.
func figures(n int64) (count int) {
	for n != 0 && n%10 == 0 {
		n /= 10
	}
	for ; n != 0; n /= 10 {
		count++
	}
	return count
}

// roundest returns the number with the fewest figures from least to most, and of several the smallest.
func roundest(least, most int64) int64 {
	for scale := int64(1e15); scale > 1; scale /= 10 {
		if n := (least + scale - 1) / scale * scale; n > 0 && n <= most {
			return n
		}
	}
	return least
}

// best returns the first trials in the order of how well they explain the log. Of buckets that are nearly the same it has only the
// simplest: a log does not tell 36,001 an hour from 10 a second.
func best(list []trial, most int) []trial {
	slices.SortStableFunc(list, func(a, b trial) int {
		return cmp.Or(cmp.Compare(a.wrong, b.wrong), cmp.Compare(a.complexity(), b.complexity()), cmp.Compare(a.String(), b.String()))
	})

	kept := list[:0:0]
	for _, t := range list {
		at := slices.IndexFunc(kept, func(k trial) bool { return k.near(&t) })
		switch {
		case at >= 0 && t.complexity() < kept[at].complexity() && t.wrong <= noisy(kept[at].wrong):
			kept[at] = t
		case at < 0 && len(kept) < most:
			kept = append(kept, t)
		}
	}

	slices.SortStableFunc(kept, func(a, b trial) int { return cmp.Compare(a.wrong, b.wrong) })
	return kept
}

// noisy returns how many requests a limiter may decide in another way than the log if it is as good as one with the given number
// of them: chance makes the square root, and a coarse clock, or requests that end in another order than they began, make more. A
// limiter that explains the whole log leaves no room.
func noisy(wrong int64) int64 { return wrong + wrong/4 + 2*int64(math.Sqrt(float64(wrong))) }

// nearRates are the bounds of the ratio of two rates that are nearly the same.
var nearRates = [2]*big.Rat{big.NewRat(97, 100), big.NewRat(100, 97)}

// near reports whether two buckets differ by three hundredths of their rate at most.
func (h *hypothesis) near(other *trial) bool {
	if !h.bucket() || !other.bucket() || h.limit.Options != other.limit.Options || h.limit.Burst != other.limit.Burst {
		return false
	}
	ratio := new(big.Rat).Quo(h.rate(), other.rate())
	return ratio.Cmp(nearRates[0]) >= 0 && ratio.Cmp(nearRates[1]) <= 0
}
