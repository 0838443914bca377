package status

import (
	"strings"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Placing says which keys do not come to the candidate as the canary's percentage says, "" if there are none. After
// completion all keys have the candidate.
func (p *Policy) Placing() string {
	if p.Stage == promotion.Completed {
		return ""
	}

	var list []string
	if p.First {
		list = append(list, "keys of first are in the canary from its first step")
	}
	if p.Last {
		list = append(list, "keys of last have the candidate only once promoted")
	}
	return strings.Join(list, "; ")
}
