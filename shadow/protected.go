package shadow

import (
	"context"
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/policies"
)

// answers keeps which keys are protected: the expression sees nothing but the key, so its answer holds for as long as the
// policy file. An expression takes as long as a charge and allocates, and an answer that is kept does neither.
//
// A key has one place, without a lock. An entry is the key's hash with the lowest bit replaced by the answer; 0 is free.
type answers [8192]atomic.Uint64

// of returns the answer for a hash, if it is kept.
func (a *answers) of(hash uint64) (answer, known bool) {
	entry := a[hash>>1%uint64(len(a))].Load()
	return entry&1 == 1, entry != 0 && entry|1 == hash|1
}

// keep notes an answer, in place of the one that was there.
func (a *answers) keep(hash uint64, answer bool) {
	entry := hash &^ 1
	if answer {
		entry |= 1
	}
	a[hash>>1%uint64(len(a))].Store(entry)
}

// protects reports whether the key of a request, which has this hash, is protected.
func (m *migration) protects(ctx context.Context, p *policies.Policy, r *policies.Request, hash uint64) bool {
	if m.answers == nil || !p.Protects() {
		return false
	}
	if answer, known := m.answers.of(hash); known {
		return answer
	}

	// An expression that fails protects nothing, and is tried again: another policy file mends it.
	answer, err := p.Protected(ctx, r)
	if err != nil {
		m.progress.counts.errors.Add(1)
		m.progress.warnLimited(&m.progress.counts.warned.keyFailed,
			"shadowlimit: protect fails; the key is not protected", "policy", p.Name, "error", err)
		return false
	}
	m.answers.keep(hash, answer)
	return answer
}
