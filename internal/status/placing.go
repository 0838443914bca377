package status

import "github.com/shadowlimit/shadowlimit/shadow/promotion"

// Placing says which keys do not come to the candidate as the canary's percentage says, "" if there are none. After
// completion all keys have the candidate.
func (p *Policy) Placing() string {
	if !p.First || p.Stage == promotion.Completed {
		return ""
	}
	return "keys of first are in the canary from its first step"
}
