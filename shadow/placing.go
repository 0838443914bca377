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
	first    bool // the key is in a canary from its first step
}

// declaredOf asks a policy what it declares of a request that it charges.
func (m *migration) declaredOf(ctx context.Context, p *policies.Policy, r *policies.Request) declaration {
	d := declaration{expected: p.Expected(ctx, r)}

	// The expression costs as much as a condition.
	if !p.DeclaresFirst() || !m.firstMatters() {
		return d
	}

	first, err := p.First(ctx, r)
	if err != nil {
		m.progress.counts.errors.Add(1)
		m.progress.warnLimited(&m.progress.counts.warned.keyFailed, "shadowlimit: first fails; the hash places the key",
			"policy", p.Name, "error", err)
	}
	d.first = first
	return d
}

// firstMatters reports whether it decides anything in the stage that a key is first, or soon: before a canary the
// expression is evaluated so that one that fails is seen.
func (m *migration) firstMatters() bool {
	switch m.progress.stage.state.Load().Stage {
	case promotion.Promoted, promotion.Completed, promotion.RolledBack:
		return false
	}
	return true
}

// position returns where the key stands.
func (ev *evaluation) position() divergence.Position {
	return divergence.Position{Hash: ev.hash, First: ev.first}
}
