package status

import (
	"fmt"
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
	if p.HoldbackPercent > 0 {
		list = append(list, HeldBack(p.HoldbackPercent)+" stay with the authoritative until completed")
	}
	if p.First {
		list = append(list, "keys of first are in the canary from its first step")
	}
	if p.Last {
		list = append(list, "keys of last have the candidate only once promoted")
	}
	return strings.Join(list, "; ")
}

// HeldBack names the share of the keys that a holdback is.
func HeldBack(percent float64) string { return fmt.Sprintf("%g %% of the keys", percent) }
