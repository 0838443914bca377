package divergence

// Sum returns a history of the same totals, causes and keys in one minute and one hour. It is for
// display: a judgement needs to know when each of them was.
func (h *History) Sum() History {
	s := History{Distinct: h.Distinct}
	if n := len(h.Minutes); n > 0 {
		s.Minutes = []Minute{{Unix: h.Minutes[n-1].Unix, Tally: h.Total()}}
	}
	if n := len(h.Hours); n > 0 {
		s.Hours = []Hour{{Unix: h.Hours[n-1].Unix, Causes: h.Causes(), Skipped: h.Skipped()}}
	}
	return s
}
