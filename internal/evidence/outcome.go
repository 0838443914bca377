package evidence

import "github.com/shadowlimit/shadowlimit/algorithms"

// Outcome is the result of comparing both sides' answers to one check. The numbers are stored in the ledger as the
// indexes of a Tally, so new outcomes are added at the end only.
type Outcome int

const (
	AgreeAllow Outcome = iota
	AgreeDeny
	NewlyDenied        // the authoritative allows, the candidate denies
	NewlyAllowed       // the authoritative denies, the candidate allows
	CandidateError     // the candidate failed
	AuthoritativeError // the authoritative failed
	Inconclusive       // a side was skipped or degraded
	ExpectedDenied     // newly denied, as the policy declares
	ExpectedAllowed    // newly allowed, as the policy declares
	outcomes           = iota
)

var outcomeNames = [outcomes]string{
	"agree_allow", "agree_deny", "newly_denied", "newly_allowed",
	"candidate_error", "authoritative_error", "inconclusive",
	"expected_newly_denied", "expected_newly_allowed",
}

// String returns the name as in metrics and JSON.
func (o Outcome) String() string { return outcomeNames[o] }

// Known reports whether there is such an outcome.
func (o Outcome) Known() bool { return 0 <= o && o < outcomes }

// differs reports whether the outcome is in the numerator of a ratio.
func (o Outcome) differs() bool { return NewlyDenied <= o && o <= CandidateError }

// Under returns the outcome of a check with declared differences. A declared difference is a comparison like any
// other, but no evidence against the candidate.
func (o Outcome) Under(e algorithms.Expected) Outcome {
	switch {
	case o == NewlyDenied && e.NewlyDenied:
		return ExpectedDenied
	case o == NewlyAllowed && e.NewlyAllowed:
		return ExpectedAllowed
	}

	return o
}

// Compare returns the outcome of one check's observations, by role. It compares whether the sides allow the request,
// and neither what remains nor how long to wait: only the answer changes what a client gets.
func Compare(o *[2]algorithms.Observation) Outcome {
	authoritative, candidate := &o[algorithms.Authoritative], &o[algorithms.Candidate]

	// A side that was not judged comes first: where one was left out, the failure of the other is no evidence.
	// Two failures leave nothing to compare the candidate with, whatever the reason of its own.
	switch {
	case skipped(authoritative), authoritative.Blocked, candidate.Blocked: // another policy of the list denies
		return Inconclusive
	case authoritative.Status == algorithms.Failed && candidate.Status == algorithms.Failed:
		return AuthoritativeError
	case skipped(candidate):
		return Inconclusive
	case authoritative.Status != algorithms.Judged:
		return AuthoritativeError
	case candidate.Status != algorithms.Judged:
		return CandidateError
	}

	switch a, c := authoritative.Decision.Allowed, candidate.Decision.Allowed; {
	case a && c:
		return AgreeAllow
	case a:
		return NewlyDenied
	case c:
		return NewlyAllowed
	}

	return AgreeDeny
}

// skipped reports whether a side has no answer to compare, although the limiter did not fail. A degraded answer is of a bucket
// that several keys share, so it says nothing about this key.
func skipped(o *algorithms.Observation) bool {
	return o.Degraded || o.Status != algorithms.Judged && (o.Status != algorithms.Failed || o.Reason != 0)
}

// Skips count inconclusive comparisons by algorithms.SkipReason.
type Skips [len(algorithms.AllSkipReasons)]int64

// add joins what another observer counted.
func (s *Skips) add(other *Skips) {
	for r, n := range other {
		s[r] += n
	}
}

// reasonOf returns why a comparison is inconclusive. Of two skipped sides the authoritative's reason counts, so each
// comparison has one reason and the counts add up.
func reasonOf(o *[2]algorithms.Observation) algorithms.SkipReason {
	for role := range o {
		if o[role].Status == algorithms.Skipped || o[role].Reason != 0 {
			return o[role].Reason
		}
	}

	// A degraded answer is of a key that shared a bucket with others, because memory was full.
	if o[0].Degraded || o[1].Degraded {
		return algorithms.MemoryFull
	}

	return algorithms.OtherReason
}
