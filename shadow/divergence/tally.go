package divergence

// Tally counts outcomes. It is a value and not for concurrent use.
type Tally [outcomes]int64

// Comparisons returns how many evaluations say something about the candidate:
// all but those that failed on the authoritative's side or were inconclusive.
func (t Tally) Comparisons() int64 {
	return t.AuthoritativeAllows() + t.AuthoritativeDenies() + t[CandidateError]
}

// AuthoritativeAllows is the denominator of newly denied.
func (t Tally) AuthoritativeAllows() int64 { return t[AgreeAllow] + t[NewlyDenied] }

// AuthoritativeDenies is the denominator of newly allowed.
func (t Tally) AuthoritativeDenies() int64 { return t[AgreeDeny] + t[NewlyAllowed] }

// Ratios are the three ratios of a tally, fractions from 0 to 1. One without a
// denominator is nil.
type Ratios struct {
	Divergence   *float64 `json:"divergence"`    // of all comparisons
	NewlyDenied  *float64 `json:"newly_denied"`  // of what the authoritative allows
	NewlyAllowed *float64 `json:"newly_allowed"` // of what the authoritative denies
}

// Ratios returns the tally's ratios. A candidate's error counts in divergence only.
func (t Tally) Ratios() Ratios {
	return Ratios{
		Divergence:   ratio(t[NewlyDenied]+t[NewlyAllowed]+t[CandidateError], t.Comparisons()),
		NewlyDenied:  ratio(t[NewlyDenied], t.AuthoritativeAllows()),
		NewlyAllowed: ratio(t[NewlyAllowed], t.AuthoritativeDenies()),
	}
}

func ratio(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	r := float64(part) / float64(whole)
	return &r
}
