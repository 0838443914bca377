package engine

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/policies"
)

// adaptation is how much of an adaptive side's limit holds in this instance. The two sides of a policy share the holding if they
// have one rule.
type adaptation struct {
	configured *policies.Side
	*adaptive.Holding
}

// shareLevel has sides with one rule hold one level: equal sides must not differ because their levels change one after the other.
func shareLevel(sides *[2]Side) {
	if a, b := sides[0].adaptation, sides[1].adaptation; a != nil && b != nil && a.Key() == b.Key() {
		b.Holding = a.Holding
	}
}

// resume takes over the level from before a reload: a service that suffers must not get the whole load again for a new file. A side may
// have changed its role.
func (a *adaptation) resume(before *[2]Side) {
	for role := range before {
		if b := before[role].adaptation; a != nil && b != nil && a.Key() == b.Key() {
			a.Copy(b.Holding)
		}
	}
}

// applyLevels gives adaptive sides their limits. A level is read once for both sides. A side keeps what it has counted, as for every limit
// that changes.
func applyLevels(sides *[2]Side, c *algorithms.Check) {
	var read *adaptive.Holding
	var level adaptive.Level
	for role := range sides {
		a := sides[role].adaptation
		if a == nil {
			continue
		}
		if a.Holding != read {
			read, level = a.Holding, a.Level()
		}
		if level < adaptive.Full {
			c.Sides[role].Limit = a.configured.AtLevel(level)
		}
	}
}
