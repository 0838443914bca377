package evidence

import "github.com/shadowlimit/shadowlimit/algorithms"

// Totals are all counts of a recorder since NewRecorder. They become metrics of this instance, so they never go down and
// never leave it by the ledger.
type Totals struct {
	Outcomes  Tally
	Decisions [2]Decisions // by role
	// Enforced are those of Decisions that were made by the side whose decision the client gets. Where it failed, the client
	// got a fallback's.
	Enforced [2]Decisions
	Causes
	// Skipped counts inconclusive comparisons by algorithms.SkipReason.
	Skipped Skips
	// Remaining and RetryAfter are the candidate's number minus the authoritative's: requests remaining where both are
	// known, seconds to wait where both deny.
	Remaining, RetryAfter Differences
}

// Decisions count the answers of one side. Checks that the side was not asked about are in none of them.
type Decisions struct{ Allowed, Denied, Failed int64 }

// count counts the answer of a side, or its failure. A side that was not asked has decided nothing.
func (d *Decisions) count(o *algorithms.Observation) {
	switch {
	case o.Status == algorithms.Failed:
		d.Failed++
	case o.Status != algorithms.Judged: // nothing was asked of the side
	case o.Decision.Allowed:
		d.Allowed++
	default:
		d.Denied++
	}
}

func (d *Decisions) add(other *Decisions) {
	d.Allowed += other.Allowed
	d.Denied += other.Denied
	d.Failed += other.Failed
}

// count adds one evaluation with a candidate.
func (t *Totals) count(o *[2]algorithms.Observation, outcome Outcome, cause Cause) {
	t.Outcomes[outcome]++
	t.Causes.count(outcome, cause)
	if outcome == Inconclusive {
		t.Skipped[reasonOf(o)]++
	}

	authoritative, candidate := &o[algorithms.Authoritative], &o[algorithms.Candidate]

	if authoritative.Status != algorithms.Judged || candidate.Status != algorithms.Judged {
		return
	}

	// Remaining is -1 where a side does not know it, and Never is no number of seconds.
	a, c := &authoritative.Decision, &candidate.Decision
	if a.Remaining >= 0 && c.Remaining >= 0 {
		t.Remaining.add(float64(c.Remaining-a.Remaining), &RemainingBounds)
	}
	if !a.Allowed && !c.Allowed && a.RetryAfter != algorithms.Never && c.RetryAfter != algorithms.Never {
		t.RetryAfter.add((c.RetryAfter - a.RetryAfter).Seconds(), &RetryAfterBounds)
	}
}

// add joins another stripe. A field that is forgotten here is missing in every metric, which TestTotalsAddEveryField finds.
func (t *Totals) add(other *Totals) {
	t.Outcomes.Add(other.Outcomes)
	for role := range t.Decisions {
		t.Decisions[role].add(&other.Decisions[role])
		t.Enforced[role].add(&other.Enforced[role])
	}

	t.Causes.add(&other.Causes)
	t.Skipped.add(&other.Skipped)

	t.Remaining.join(&other.Remaining)
	t.RetryAfter.join(&other.RetryAfter)
}

// differenceBounds is the number of bounds of a histogram of differences.
const differenceBounds = 9

// Upper bounds of the buckets of Differences, inclusive. The last bucket has none. The bucket up to 0 begins above -1:
// where both sides give the same whole number, it counts there.
var (
	RemainingBounds  = [differenceBounds]float64{-1000, -100, -10, -1, 0, 1, 10, 100, 1000} // requests
	RetryAfterBounds = [differenceBounds]float64{-3600, -60, -10, -1, 0, 1, 10, 60, 3600}   // seconds
)

// Differences is a histogram of numbers that may be negative.
type Differences struct {
	Buckets [differenceBounds + 1]int64 // the count of each bucket, not cumulative
	Sum     float64
}

// add counts a number in its bucket. There are a few bounds, so a loop is faster than a search.
func (d *Differences) add(v float64, bounds *[differenceBounds]float64) {
	i := 0
	for i < differenceBounds && v > bounds[i] {
		i++
	}

	d.Buckets[i]++
	d.Sum += v
}

// join adds another histogram of the same bounds.
func (d *Differences) join(other *Differences) {
	for i, n := range other.Buckets {
		d.Buckets[i] += n
	}
	d.Sum += other.Sum
}

// Cumulative returns the count of all numbers, and the count up to each bound, as a Prometheus histogram wants them.
func (d *Differences) Cumulative(bounds [differenceBounds]float64) (count uint64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, differenceBounds)
	for i, n := range d.Buckets {
		count += uint64(n)
		if i < differenceBounds {
			upTo[bounds[i]] = count
		}
	}

	return count, upTo
}
