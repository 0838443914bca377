package evidence_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// answer returns a decision of a side that was judged.
func answer(allowed bool, remaining int64, retryAfter time.Duration) algorithms.Observation {
	return algorithms.Observation{Status: algorithms.Judged,
		Decision: algorithms.Decision{Allowed: allowed, Remaining: remaining, RetryAfter: retryAfter},
	}
}

// totalsOf returns the totals of one comparison each of two keys, which are in different stripes.
func totalsOf(o *[2]algorithms.Observation, s *evidence.Setting) evidence.Totals {
	r := evidence.NewRecorder(nil)
	r.Observe("a", 0, noon, o, s)
	r.Observe("b", 1, noon, o, s)
	return r.Totals()
}

// A number that Observe leaves before it is counted stays 0 for ever, as one of peeks would in count.
func TestEveryTotalCounts(t *testing.T) {
	r := evidence.NewRecorder(nil)
	for _, outcome := range allOutcomes {
		for cost := range int64(2) {
			r.Observe("k", 1, noon, observed(outcome), &evidence.Setting{Cost: cost})
		}
	}

	totals := reflect.ValueOf(r.Totals())
	for i := range totals.NumField() {
		if totals.Field(i).IsZero() {
			t.Errorf("Totals.%s is still zero after a peek and a check of every outcome: count it in Totals.count if it is of comparisons, "+
				"else in Recorder.Observe above the return "+
				"for peeks, sum it in Totals.add, or add here what it counts", totals.Type().Field(i).Name)
		}
	}
}

// A completed migration is a plain limiter: what counts requests of policies without a candidate counts its own, too.
func TestCompletedCountsWhatPlainDoes(t *testing.T) {
	plain, completed := evidence.NewRecorder(nil), evidence.NewRecorder(nil)
	for cost := range int64(2) {
		both := observed(evidence.AgreeAllow)
		alone := *both
		alone[algorithms.Candidate] = algorithms.Observation{}
		plain.Observe("k", 1, noon, &alone, &evidence.Setting{Cost: cost})
		completed.Observe("k", 1, noon, both, &evidence.Setting{Cost: cost, Completed: true})
	}

	want, got := reflect.ValueOf(plain.Totals()), reflect.ValueOf(completed.Totals())
	for i := range want.NumField() {
		if !want.Field(i).IsZero() && got.Field(i).IsZero() {
			t.Errorf("Totals.%s counts requests of a policy without a candidate, and none of a completed migration: count it in "+
				"Recorder.Observe above the return for these", want.Type().Field(i).Name)
		}
	}
}

func TestReasonsOfInconclusiveComparisons(t *testing.T) {
	allow := answer(true, 1, 0)
	degraded := allow
	degraded.Degraded = true
	absent := algorithms.Observation{}

	for reason, o := range map[algorithms.SkipReason]*[2]algorithms.Observation{
		algorithms.QueueFull:   {allow, algorithms.Skip(algorithms.QueueFull)},
		algorithms.BreakerOpen: {algorithms.Failure(errors.New("broken")), algorithms.Skip(algorithms.BreakerOpen)},
		algorithms.StoreFailed: {algorithms.Skip(algorithms.StoreFailed), allow},
		algorithms.MemoryFull:  {allow, degraded},
		algorithms.OtherReason: {absent, allow},
	} {
		got := totalsOf(o, &evidence.Setting{Cost: 1})
		want := evidence.Totals{}.Skipped
		want[reason] = 2
		if got.Skipped != want || got.Outcomes[evidence.Inconclusive] != 2 {
			t.Errorf("%s: skipped %v, outcomes %v", reason, got.Skipped, got.Outcomes)
		}
	}
}

func TestDifferencesOfNumbers(t *testing.T) {
	type pair [2]algorithms.Observation
	const unknown = -1

	for name, tt := range map[string]struct {
		o                     pair
		remaining, retryAfter float64 // sums of two comparisons
		remainings, waits     uint64
	}{
		"both allow":              {pair{answer(true, 5, 0), answer(true, 3, 0)}, -4, 0, 2, 0},
		"remaining not known":     {pair{answer(true, 5, 0), answer(true, unknown, 0)}, 0, 0, 0, 0},
		"nor the authoritative's": {pair{answer(true, unknown, 0), answer(true, 5, 0)}, 0, 0, 0, 0},
		"both deny":               {pair{answer(false, 0, time.Second), answer(false, 0, 3*time.Second)}, 0, 4, 2, 2},
		"one denies":              {pair{answer(false, 0, time.Second), answer(true, 1, 0)}, 2, 0, 2, 0},
		"the other denies":        {pair{answer(true, 1, 0), answer(false, 0, time.Second)}, -2, 0, 2, 0},
		"one never allows":        {pair{answer(false, 0, time.Second), answer(false, 0, algorithms.Never)}, 0, 0, 2, 0},
		"nor the other":           {pair{answer(false, 0, algorithms.Never), answer(false, 0, time.Second)}, 0, 0, 2, 0},
		"one fails":               {pair{answer(true, 5, 0), algorithms.Failure(errors.New("no answer"))}, 0, 0, 0, 0},
	} {
		got := totalsOf((*[2]algorithms.Observation)(&tt.o), &evidence.Setting{Cost: 1})
		remainings, _ := got.Remaining.Cumulative(evidence.RemainingBounds)
		waits, _ := got.RetryAfter.Cumulative(evidence.RetryAfterBounds)
		if got.Remaining.Sum != tt.remaining || remainings != tt.remainings {
			t.Errorf("%s: remaining %+v, want %d with sum %g", name, got.Remaining, tt.remainings, tt.remaining)
		}
		if got.RetryAfter.Sum != tt.retryAfter || waits != tt.waits {
			t.Errorf("%s: waits %+v, want %d with sum %g", name, got.RetryAfter, tt.waits, tt.retryAfter)
		}
	}
}

// A bucket of the histogram counts the numbers up to its bound.
func TestDifferencesAreCumulative(t *testing.T) {
	upToMinusOneAndZero := map[int64][2]uint64{-2: {2, 2}, -1: {2, 2}, 0: {0, 2}, 5000: {0, 0}}
	for by, want := range upToMinusOneAndZero {
		o := [2]algorithms.Observation{answer(true, 3, 0), answer(true, 3+by, 0)}
		d := totalsOf(&o, &evidence.Setting{Cost: 1}).Remaining
		count, upTo := d.Cumulative(evidence.RemainingBounds)
		if count != 2 || upTo[-1] != want[0] || upTo[0] != want[1] {
			t.Errorf("by %d: %d in all, %v", by, count, upTo)
		}
	}
}

func TestDifferencesHaveCausesByDirection(t *testing.T) {
	fixed := algorithms.Limit{Requests: 20, Window: time.Minute}
	gcra := algorithms.Limit{Requests: 20, Window: time.Minute, Burst: 20}
	small := algorithms.Limit{Requests: 20, Window: time.Minute, Burst: 4}
	hour := algorithms.Limit{Requests: 1200, Window: time.Hour}
	double := algorithms.Limit{Requests: 40, Window: time.Minute}
	doubleRate := algorithms.Limit{Requests: 40, Window: time.Minute, Burst: 40}
	more := algorithms.Limit{Requests: 30, Window: time.Minute}

	type limits [2]algorithms.Limit
	covered := map[algorithms.Shape]bool{}
	for name, tt := range map[string]struct {
		allows, denies algorithms.Shape
		limits         limits // of the side that allows, of the other
		apart          bool
		used           int64 // by the side that allows, this request included
		elapsed        time.Duration
		want           evidence.Cause
	}{
		"a custom limiter that allows": {
			algorithms.UnknownShape, algorithms.Bucket, limits{fixed, gcra}, false, 9, 0, evidence.OtherCause,
		},
		"a custom limiter that denies": {
			algorithms.Bucket, algorithms.UnknownShape, limits{gcra, fixed}, false, 9, 0, evidence.OtherCause,
		},
		"a window that just began": {
			algorithms.AlignedWindow, algorithms.SlidingLog,
			limits{fixed, fixed}, false, 1, time.Second, evidence.WindowBoundary,
		},
		"an hour's window unused for a minute": {
			algorithms.AlignedWindow, algorithms.SlidingLog,
			limits{hour, fixed}, false, 1, time.Minute, evidence.ColdState,
		},
		"one that began half a minute ago": {
			algorithms.AlignedWindow, algorithms.SlidingLog,
			limits{hour, fixed}, false, 1, 30 * time.Second, evidence.WindowBoundary,
		},
		"a key's window, which may have ended": {
			algorithms.AnchoredWindow, algorithms.SlidingLog,
			limits{hour, fixed}, false, 1, time.Minute, evidence.WindowBoundary,
		},
		"a log that knows of nothing": {
			algorithms.SlidingLog, algorithms.AlignedWindow, limits{fixed, fixed}, false, 1, 0, evidence.ColdState,
		},
		"a log that knows of something": {
			algorithms.SlidingLog, algorithms.AlignedWindow,
			limits{fixed, fixed}, false, 2, 0, evidence.WindowBoundary,
		},
		"a shorter log": {
			algorithms.SlidingLog, algorithms.AlignedWindow,
			limits{fixed, hour}, false, 1, 0, evidence.WindowBoundary,
		},
		"a counter that knows of nothing": {
			algorithms.SlidingCounter, algorithms.SlidingLog, limits{fixed, fixed}, false, 1, 0, evidence.ColdState,
		},
		"a bucket that knows of nothing": {
			algorithms.Bucket, algorithms.AlignedWindow, limits{gcra, fixed}, false, 1, 0, evidence.ColdState,
		},
		"a bucket that forgets sooner": {
			algorithms.Bucket, algorithms.AlignedWindow, limits{small, fixed}, false, 1, 0, evidence.BurstShape,
		},
		"a window after one that was full": {
			algorithms.AlignedWindow, algorithms.Bucket,
			limits{fixed, gcra}, false, 2, time.Second, evidence.WindowBoundary,
		},
		"a window with more than the burst": {
			algorithms.AlignedWindow, algorithms.Bucket,
			limits{fixed, small}, false, 5, time.Second, evidence.BurstShape,
		},
		"a limit that is not used up": {
			algorithms.AlignedWindow, algorithms.SlidingLog,
			limits{double, fixed}, false, 20, time.Second, evidence.WindowBoundary,
		},
		"a limit that is used up": {
			algorithms.AlignedWindow, algorithms.SlidingLog,
			limits{double, fixed}, false, 21, time.Second, evidence.LimitValue,
		},
		"a bucket of twice the rate": {
			algorithms.Bucket, algorithms.AlignedWindow, limits{doubleRate, fixed}, false, 2, 0, evidence.LimitValue,
		},
		"a rate that is the same over an hour": {
			algorithms.AlignedWindow, algorithms.AnchoredWindow,
			limits{hour, fixed}, true, 900, time.Second, evidence.WindowBoundary,
		},
		"windows of one store, a limit below": {
			algorithms.AlignedWindow, algorithms.AlignedWindow,
			limits{fixed, more}, false, 5, time.Second, evidence.WindowBoundary,
		},
		"logs that are alike, in two stores": {
			algorithms.SlidingLog, algorithms.SlidingLog, limits{fixed, fixed}, true, 20, 0, evidence.StoreLag,
		},
		"buckets that are alike, in two stores": {
			algorithms.Bucket, algorithms.Bucket, limits{gcra, gcra}, true, 20, 0, evidence.StoreLag,
		},
	} {
		covered[tt.allows] = true
		allows := answer(true, tt.limits[0].Capacity()-tt.used, 0)
		allows.Decision.Capacity = tt.limits[0].Capacity()
		allows.Decision.ResetAfter = tt.limits[0].Window - tt.elapsed
		denies := answer(false, 0, time.Second)

		apart := evidence.OneStore
		if tt.apart {
			apart = evidence.TwoStores
		}
		newlyDenied := totalsOf(&[2]algorithms.Observation{allows, denies}, &evidence.Setting{
			Cost:   1,
			Limits: tt.limits,
			Shapes: [2]algorithms.Shape{tt.allows, tt.denies},
			Stores: apart,
		})
		newlyAllowed := totalsOf(&[2]algorithms.Observation{denies, allows}, &evidence.Setting{
			Cost:   1,
			Limits: [2]algorithms.Limit{tt.limits[1], tt.limits[0]},
			Shapes: [2]algorithms.Shape{tt.denies, tt.allows},
			Stores: apart,
		})

		want := evidence.Totals{}.Denied
		want[tt.want] = 2
		if newlyDenied.Denied != want || newlyAllowed.Allowed != want || newlyDenied.Allowed != newlyAllowed.Denied {
			t.Errorf("%s: newly denied by %v, newly allowed by %v, want %s",
				name, newlyDenied.Denied, newlyAllowed.Allowed, tt.want)
		}
	}

	// cold in cause.go has a case for how long the side that allows remembers.
	for _, a := range algorithms.All {
		if shape := algorithms.TraitsOf(a).Shape; !covered[shape] {
			t.Errorf("no row has a side that allows and forgets as %s does (shape %s of traits.go): add rows with the causes you expect, and "+
				"the shape to cold in cause.go; one of them is ColdState, unless a key in use may look unused because its window has just ended: "+
				"cold then returns false, as for AnchoredWindow", a.Name(), shape)
		}
	}
}
