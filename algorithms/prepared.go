package algorithms

import (
	"maps"
	"sync"
	"sync/atomic"
)

// prepared is a side that checks have had, with its limit validated and divided: a check then neither validates, nor divides, nor
// asks the algorithm through its interface. Limits of the algorithms that most policies have can be prepared. It is never changed. A part of a record remembers the one that it was last charged by.
type prepared struct {
	preparedSide
	name   partName
	bucket bucket // of a bucket
}

// preparedSide is what a side is prepared by.
type preparedSide struct {
	id    string // as the side has it: may be ""
	kind  preparedKind
	limit Limit
}

// preparedKind is an algorithm that can be prepared.
type preparedKind uint8

const (
	notPrepared preparedKind = iota
	preparedWindow
	preparedCounter
	preparedTokenBucket
	preparedGCRA
)

// preparedKindOf goes by the type and not by the name: an algorithm of a user's is asked.
func preparedKindOf(a Algorithm) preparedKind {
	switch a.(type) {
	case FixedWindow:
		return preparedWindow
	case SlidingWindowCounter:
		return preparedCounter
	case TokenBucket:
		return preparedTokenBucket
	case GCRA:
		return preparedGCRA
	}
	return notPrepared
}

// is reports whether the side is the one that was prepared.
func (p *prepared) is(side *Side) bool {
	return side.Limit == p.limit && preparedKindOf(side.Algorithm) == p.kind && side.ID == p.id
}

// step judges a check that has been checked. It writes the state and the decision in place.
func (p *prepared) step(s *State, d *Decision, cost, at int64) {
	switch p.kind {
	case preparedWindow:
		stepAligned(&p.limit, s, d, cost, at)
		return
	case preparedCounter:
		stepCounter(&p.limit, s, d, cost, at)
		return
	}

	if s.ahead(at, &p.limit) {
		s.Last = at
	}
	p.bucket.step(s, d, cost, at)
}

// mostPrepared bounds the sides that a Memory has prepared. Limits of expressions may be of any number: those beyond the bound are
// validated at each check.
const mostPrepared = 1024

// preparedSides are the sides that a Memory has prepared. The table only grows, and is replaced as a whole, so that readers
// take no lock.
type preparedSides struct {
	mu    sync.Mutex
	known atomic.Pointer[map[preparedSide]*prepared]
}

// of returns the prepared side, nil if there is none. Only keys that are new, or have another limit than before, ask for it.
func (p *preparedSides) of(side *Side, name partName) *prepared {
	wanted := preparedSide{side.ID, preparedKindOf(side.Algorithm), side.Limit}
	if wanted.kind == notPrepared {
		return nil
	}

	known := p.known.Load()
	if known != nil {
		if ready := (*known)[wanted]; ready != nil || len(*known) >= mostPrepared {
			return ready
		}
	}
	return p.add(wanted, name)
}

// add prepares a side. Its limit may be refused: the algorithm then says why.
func (p *preparedSides) add(wanted preparedSide, name partName) *prepared {
	ready := &prepared{preparedSide: wanted, name: name}
	var err error
	switch wanted.kind {
	case preparedWindow:
		err = FixedWindow.Validate(FixedWindow{}, wanted.limit)
	case preparedCounter:
		err = SlidingWindowCounter.Validate(SlidingWindowCounter{}, wanted.limit)
	default:
		ready.bucket, err = validBucket("", &wanted.limit)
	}
	if err != nil {
		return nil
	}

	// Another goroutine may have added one meanwhile: of two that are alike the last one stays, and both are right.
	p.mu.Lock()
	defer p.mu.Unlock()

	next := map[preparedSide]*prepared{wanted: ready}
	if known := p.known.Load(); known != nil {
		maps.Copy(next, *known)
	}
	if len(next) <= mostPrepared {
		p.known.Store(&next)
	}
	return ready
}
