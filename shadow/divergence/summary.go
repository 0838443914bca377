package divergence

// Summary is what a tally and the keys behind it say of a candidate. Its JSON
// form is the command line's contract.
type Summary struct {
	Comparisons      int64      `json:"comparisons"`
	AgreeAllow       int64      `json:"agree_allow"`
	AgreeDeny        int64      `json:"agree_deny"`
	NewlyDenied      int64      `json:"newly_denied"`
	NewlyAllowed     int64      `json:"newly_allowed"`
	CandidateError   int64      `json:"candidate_error"`
	ExpectedDenied   int64      `json:"expected_newly_denied"`  // declared, and no part of newly_denied
	ExpectedAllowed  int64      `json:"expected_newly_allowed"` // declared, and no part of newly_allowed
	Ratios           Ratios     `json:"ratios"`
	Keys             int64      `json:"keys"`
	KeysNewlyDenied  int64      `json:"keys_newly_denied"`
	KeysNewlyAllowed int64      `json:"keys_newly_allowed"`
	TopNewlyDenied   []KeyCount `json:"top_newly_denied"`
	TopNewlyAllowed  []KeyCount `json:"top_newly_allowed"`
}

// Summarize returns the summary of a tally, without its keys.
func Summarize(t Tally) Summary {
	return Summary{
		Comparisons: t.Comparisons(), AgreeAllow: t[AgreeAllow], AgreeDeny: t[AgreeDeny],
		NewlyDenied: t[NewlyDenied], NewlyAllowed: t[NewlyAllowed], CandidateError: t[CandidateError],
		ExpectedDenied: t[ExpectedDenied], ExpectedAllowed: t[ExpectedAllowed],
		Ratios: t.Ratios(), TopNewlyDenied: []KeyCount{}, TopNewlyAllowed: []KeyCount{},
	}
}
