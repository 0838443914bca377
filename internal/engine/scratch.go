package engine

import (
	"context"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Scratch is the memory of one decision, which one request uses at a time. The checks,
// evaluations and observations of one index belong together. A pool keeps it, so that a
// decision does not allocate these slices.
type Scratch struct {
	checks      []algorithms.Check
	evaluations []evaluation
	observed    []Observations
	answers     []Answer
	batch       batch

	// Of policies that are charged together.
	lists []numbered    // of the request whose checks are being added
	last  uint16        // the number that was given last
	local []localAnswer // by check; nil without such policies

	charges *Charges // of the request whose checks are being added; nil: nothing is kept
}

// Answer is what became of a check: the decision to obey, and where it comes from.
type Answer struct {
	algorithms.Decision
	Limit *algorithms.Limit       // of the side that decided, or stood in
	Shape algorithms.Shape        // how that side forgets
	Other *algorithms.Observation // what became of the other side in the request
	// OtherLimit is the limit of the other side, the zero Limit without one.
	OtherLimit *algorithms.Limit
	Enforced   algorithms.Role
	Fallback   bool
}

// Len returns the number of checks.
func (s *Scratch) Len() int { return len(s.checks) }

// Check returns a check.
func (s *Scratch) Check(i int) *algorithms.Check { return &s.checks[i] }

// Answer returns the answer to a check, until the memory is given back.
func (s *Scratch) Answer(i int) *Answer { return &s.answers[i] }

// Next returns the memory of the next check, which the caller overwrites. It is one of the checks once add has begun its
// evaluation.
func (s *Scratch) Next() *algorithms.Check {
	n := len(s.checks)
	if n == cap(s.checks) {
		s.checks = append(s.checks, algorithms.Check{})[:n]
	}
	return &s.checks[:n+1][n]
}

// begin makes the next check one of the checks, and returns the memory of its evaluation.
func (s *Scratch) begin() *evaluation {
	n := len(s.checks)
	s.checks = s.checks[:n+1]
	if n >= cap(s.evaluations) || n >= cap(s.observed) || n >= cap(s.answers) {
		s.evaluations = append(s.evaluations, evaluation{})
		s.observed = append(s.observed, Observations{})
		s.answers = append(s.answers, Answer{})
	}
	s.evaluations, s.observed, s.answers = s.evaluations[:n+1], s.observed[:n+1], s.answers[:n+1]
	return &s.evaluations[n]
}

// Policies of one list are charged together: a side is charged iff it admits and the enforced side of every other check of the
// list admits. So the checks of each list stand side by side in the question to their store.

// numbered is a list of the request whose checks are being added.
type numbered struct {
	list   int
	number uint16
}

// list gives a check the number under which its store judges it with the others of its list and request. Numbers of two
// requests differ, so that the checks of several requests can go to a store at once.
func (s *Scratch) list(list int) uint16 {
	for i := range s.lists {
		if s.lists[i].list == list {
			return s.lists[i].number
		}
	}
	if s.last++; s.last == 0 {
		s.last = 1
	}
	s.lists = append(s.lists, numbered{list, s.last})
	return s.last
}

// EndRequest ends the checks of one request: a list of the next one is another list. It returns what the request is charged, nil
// where nothing of that is kept.
func (s *Scratch) EndRequest() (kept *Charges) {
	kept, s.charges = s.charges, nil
	s.lists = s.lists[:0]
	return kept
}

// Refuse makes the checks of a policy's list only look, from the first on: the request is denied by an expression of the policy that
// fails, and must cost nothing in the list.
func (s *Scratch) Refuse(p *Policy, first int) {
	for i := first; i < len(s.checks); i++ {
		if p.together > 0 && s.evaluations[i].together == p.together {
			s.checks[i].Cost = 0
		}
	}
}

// keep makes a check keep what it is charged.
func (s *Scratch) keep(e *Engine, ev *evaluation, c *algorithms.Check) {
	// The receipt outlives the request, whose buffer the key may be part of.
	c.Key = strings.Clone(c.Key)

	if s.charges == nil {
		s.charges = &Charges{engine: e}
	}
	ev.charge = &charge{Policy: ev.Policy, engine: e, hash: ev.hash, enforced: c.Enforced, finalCost: -1}
	s.charges.list = append(s.charges.list, ev.charge)
	ev.charge.stores[c.Enforced] = ev.primaryStore
	c.Receipt = &ev.charge.receipts[c.Enforced]
}

// onlyStore returns the store that judges all checks, nil if they are judged by no store. It is not ok if they are of
// several stores, or of some store and of none.
func (s *Scratch) onlyStore() (one *Store, ok bool) {
	one = s.evaluations[0].primaryStore
	for i := range s.evaluations {
		if s.evaluations[i].primaryStore != one {
			return nil, false
		}
	}
	return one, true
}

// evaluateAt has a store judge its checks in one batch.
func (s *Scratch) evaluateAt(ctx context.Context, st *Store) {
	for i := range s.evaluations {
		if s.evaluations[i].primaryStore == st {
			s.batch.add(s, i)
		}
	}
	s.askBatch(ctx, st)
}

// evaluateTogether has stores judge the checks, those of one list side by side.
func (s *Scratch) evaluateTogether(ctx context.Context, stores []*Store) {
	for _, st := range stores {
		for i := range s.listed {
			if s.evaluations[i].primaryStore == st {
				s.batch.add(s, i)
			}
		}
		s.askBatch(ctx, st)
	}
}

// listed yields the indexes of the checks so that those of one list stand side by side.
func (s *Scratch) listed(yield func(int) bool) {
	for i := range s.checks {
		if s.listedBefore(i) {
			continue // it came with the first one of its list
		}
		for j := i; j < len(s.checks); j++ {
			if (j == i || sameList(&s.checks[i], &s.checks[j])) && !yield(j) {
				return
			}
		}
	}
}

// listedBefore reports whether an earlier check is of the same list.
func (s *Scratch) listedBefore(i int) bool {
	for j := range i {
		if sameList(&s.checks[j], &s.checks[i]) {
			return true
		}
	}
	return false
}

// sameList reports whether two checks are charged together.
func sameList(a, b *algorithms.Check) bool { return a.Together > 0 && a.Together == b.Together }

// askBatch asks a store for the batch, and empties it.
func (s *Scratch) askBatch(ctx context.Context, st *Store) {
	b := &s.batch
	if len(b.indexes) > 0 {
		st.evaluate(ctx, b.checks, b.observed)
	}
	for n, i := range b.indexes {
		s.observed[i] = b.observed[n]
	}
	b.empty()
}

// batch is the checks of one store, where a request has checks for several. A store is
// asked once for all of them: each further call would cost a round trip.
type batch struct {
	checks   []algorithms.Check
	observed []Observations
	indexes  []int // of the checks in the scratch
}

// add takes a check of the scratch into the batch.
func (b *batch) add(s *Scratch, i int) {
	b.checks = append(b.checks, s.checks[i])
	b.observed = append(b.observed, Observations{})
	b.indexes = append(b.indexes, i)
}

// empty forgets the checks, and keeps no key of a request alive.
func (b *batch) empty() {
	clear(b.checks)
	clear(b.observed)
	b.checks = b.checks[:0]
	b.observed = b.observed[:0]
	b.indexes = b.indexes[:0]
}
