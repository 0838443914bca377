package shadow

import (
	"context"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// declaration is what a policy file says of a charge besides its sides. The zero value is that
// of a file that says nothing.
type declaration struct {
	expected algorithms.Expected
	place    algorithms.Place
	// protected reports that the key has no exception.
	protected bool
}

// declaredOf asks a policy what it declares of a request that it charges under a key of this hash.
func (m *migration) declaredOf(ctx context.Context, p *policies.Policy, r *policies.Request, hash uint64) declaration {
	d := declaration{expected: p.Expected(ctx, r), protected: m.protects(ctx, p, r, hash)}

	// Each of the two expressions costs as much as a condition.
	if !p.Places() || !m.placesMatter() {
		return d
	}

	place, err := p.Place(ctx, r)
	if err != nil {
		m.progress.counts.errors.Add(1)
		m.progress.warnLimited(&m.progress.counts.warned.placeFailed, "shadowlimit: first or last fails; the hash places the key",
			"policy", p.Name, "error", err)
	}
	d.place = place
	return d
}

// placesMatter reports whether the places of keys decide anything in the stage, or soon: before a canary they are
// asked so that an expression that fails is seen.
func (m *migration) placesMatter() bool {
	switch m.progress.stage.state.Load().Stage {
	case promotion.Promoted, promotion.Completed, promotion.RolledBack:
		return false
	}
	return true
}

// position returns where the key stands.
func (ev *evaluation) position() divergence.Position {
	return divergence.Position{Hash: ev.hash, Place: ev.place}
}
