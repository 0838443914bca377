package evidence

// Tally counts evaluations by Outcome. It is a value and not for concurrent use. The zero Tally has seen nothing.
type Tally [outcomes]int64

// Comparisons returns how many evaluations are evidence about the candidate: all except those in which the
// authoritative failed, and inconclusive ones.
func (t Tally) Comparisons() int64 {
	return t.AuthoritativeAllows() + t.AuthoritativeDenies() + t[CandidateError]
}

// Evaluations returns how many checks had a candidate, whatever became of them.
func (t Tally) Evaluations() (n int64) {
	for _, count := range t {
		n += count
	}
	return n
}

// Uncompared returns how many evaluations have no two answers to compare. They are in no ratio, but too many of them
// make an hour invalid as evidence.
func (t Tally) Uncompared() int64 { return t[AuthoritativeError] + t[Inconclusive] }

// AuthoritativeAllows is the denominator of newly denied. It includes declared differences.
func (t Tally) AuthoritativeAllows() int64 { return t[AgreeAllow] + t[NewlyDenied] + t[ExpectedDenied] }

// AuthoritativeDenies is the denominator of newly allowed. It includes declared differences.
func (t Tally) AuthoritativeDenies() int64 {
	return t[AgreeDeny] + t[NewlyAllowed] + t[ExpectedAllowed]
}

// Add adds another tally.
func (t *Tally) Add(other Tally) {
	for i, n := range other {
		t[i] += n
	}
}

// Ratio is one of the ratios that a promotion is judged by.
type Ratio int

const (
	OfComparisons Ratio = iota // newly denied, newly allowed and failed, of all comparisons
	OfAllows                   // newly denied, of what the authoritative allows
	OfDenials                  // newly allowed, of what the authoritative denies
	ExtraLoad                  // newly allowed, of what the authoritative allows; may be above 1
	AllowsCost                 // OfAllows by cost
	DenialsCost                // OfDenials by cost
	ExtraLoadCost              // ExtraLoad by cost
	ratios        = iota
)

// AllRatios are the ratios in the order of their documentation. Those by cost are only of policies whose checks do not all cost 1: a
// few requests may be most of what a limiter gives.
var AllRatios = [ratios]Ratio{OfComparisons, OfAllows, OfDenials, ExtraLoad, AllowsCost, DenialsCost, ExtraLoadCost}

var ratioNames = [ratios]string{
	"divergence", "newly_denied", "newly_allowed", "extra_load", "newly_denied_by_cost", "newly_allowed_by_cost", "extra_load_by_cost",
}

// ByCost reports whether the ratio is of costs, and not of requests.
func (r Ratio) ByCost() bool { return r >= AllowsCost }

// OfRequests returns the ratio of requests that has the threshold of one by cost; others are their own.
func (r Ratio) OfRequests() Ratio {
	if r.ByCost() {
		return r - AllowsCost + OfAllows
	}
	return r
}

// String returns the name as in metrics and JSON.
func (r Ratio) String() string { return ratioNames[r] }

// Of returns the ratio's numerator and denominator, of requests, or by cost if the tally is of costs.
func (r Ratio) Of(t Tally) (numerator, denominator int64) {
	if r.ByCost() {
		// What was counted of a minute may be settled in a later one, down to nothing.
		for o := range t {
			t[o] = max(0, t[o])
		}
	}
	switch r.OfRequests() {
	case OfAllows:
		return t[NewlyDenied], t.AuthoritativeAllows()
	case OfDenials:
		return t[NewlyAllowed], t.AuthoritativeDenies()
	case ExtraLoad:
		return t[NewlyAllowed], t.AuthoritativeAllows()
	}

	return t[NewlyDenied] + t[NewlyAllowed] + t[CandidateError], t.Comparisons()
}

// Value returns the ratio as a fraction, or nil if the denominator is 0.
func (r Ratio) Value(t Tally) *float64 {
	numerator, denominator := r.Of(t)
	if denominator == 0 {
		return nil
	}

	v := float64(numerator) / float64(denominator)
	return &v
}

// counts reports whether an outcome is in the ratio's numerator.
func (r Ratio) counts(o Outcome) bool {
	switch o {
	case NewlyDenied:
		return r == OfComparisons || r == OfAllows
	case NewlyAllowed:
		return r != OfAllows
	case CandidateError:
		return r == OfComparisons
	}

	return false
}

// Ratios are the ratios of a tally as fractions. A ratio without a denominator is nil.
type Ratios struct {
	Divergence   *float64 `json:"divergence"`    // of all comparisons
	NewlyDenied  *float64 `json:"newly_denied"`  // of what the authoritative allows
	NewlyAllowed *float64 `json:"newly_allowed"` // of what the authoritative denies
	ExtraLoad    *float64 `json:"extra_load"`    // newly allowed, of what the authoritative allows
}

// Ratios returns the tally's ratios. A candidate's error counts in divergence only.
func (t Tally) Ratios() Ratios {
	return Ratios{OfComparisons.Value(t), OfAllows.Value(t), OfDenials.Value(t), ExtraLoad.Value(t)}
}
