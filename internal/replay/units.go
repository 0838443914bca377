package replay

import (
	"fmt"
	"math"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// ByCost counts what was compared by its cost, the final one where that is known after the answer: a few requests may be most of what a
// limiter gives. All are units, to the largest int64 at most.
type ByCost struct {
	Allowed      int64 `json:"allowed"` // by the authoritative
	NewlyDenied  int64 `json:"newly_denied"`
	Denied       int64 `json:"denied"` // by the authoritative
	NewlyAllowed int64 `json:"newly_allowed"`

	differ bool // some request costs another number than 1
}

// count adds a comparison.
func (b *ByCost) count(outcome evidence.Outcome, cost int64) {
	b.differ = b.differ || cost != 1
	add := func(to *int64) { *to += min(cost, math.MaxInt64-*to) }
	switch outcome {
	case evidence.AgreeAllow, evidence.ExpectedDenied:
		add(&b.Allowed)
	case evidence.NewlyDenied:
		add(&b.Allowed)
		add(&b.NewlyDenied)
	case evidence.AgreeDeny, evidence.ExpectedAllowed:
		add(&b.Denied)
	case evidence.NewlyAllowed:
		add(&b.Denied)
		add(&b.NewlyAllowed)
	}
}

// result is nil where every request costs 1: then the requests say the same.
func (b *ByCost) result() *ByCost {
	if !b.differ {
		return nil
	}
	return b
}

func (b *ByCost) writeText(to *strings.Builder) {
	if b == nil {
		return
	}
	part := func(name string, units, of int64) {
		fmt.Fprintf(to, "  %-13s  %s of %s", name, humanize.Grouped(units), humanize.Counted(of, "unit"))
		if of > 0 {
			fmt.Fprintf(to, " (%s)", humanize.Percent(float64(units)/float64(of)))
		}
		to.WriteByte('\n')
	}
	to.WriteString("\nby cost\n")
	part("newly denied", b.NewlyDenied, b.Allowed)
	part("newly allowed", b.NewlyAllowed, b.Denied)
}
