package engine

import (
	"context"
	"errors"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Policies of one list are charged together: a side is charged iff it admits and the enforced side of every other check of the
// list admits. This file gathers the checks of each list for one step, in the store and in the local limiter.

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

// numbered is a list of the request whose checks are being added.
type numbered struct {
	list   int
	number uint16
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

// feedTogether feeds the local limiter with the checks of each list, as feed does with one. A cost above the share is denied: a debt
// cannot be undone where another check of the list denies.
func (e *Engine) feedTogether(s *Scratch) {
	s.local = append(s.local[:0], make([]localAnswer, len(s.checks))...)
	var checks []algorithms.Check
	var indexes []int
	instances := e.view.Load().instances
	for i := range s.listed {
		c, ev := &s.checks[i], &s.evaluations[i]
		if c.Together == 0 || !ev.fedLocally() {
			continue
		}
		check := algorithms.Check{Policy: c.Policy, Key: c.Key, Cost: c.Cost, Enforced: c.Enforced, Together: c.Together}
		for role := range check.Sides {
			if standIn, ok := ev.localSide(algorithms.Role(role)); ok {
				standIn.Limit = partOf(ev.limits[role], instances)
				if standIn.Algorithm.Validate(standIn.Limit) != nil {
					standIn.Limit = coarse(standIn.Limit)
				}
				check.Sides[role] = standIn
			}
		}
		checks, indexes = append(checks, check), append(indexes, i)
	}
	if len(checks) == 0 {
		return // in memory nothing fails
	}

	into := make([]Observations, len(checks))
	_ = e.local.memory.Evaluate(context.Background(), checks, into) // each observation has its error
	for n, i := range indexes {
		s.local[i] = answerOfLocal(s.checks[i].Enforced, &into[n])
	}
}

// sameList reports whether two checks are charged together.
func sameList(a, b *algorithms.Check) bool { return a.Together > 0 && a.Together == b.Together }

// Errors of policies that cannot be charged together with others.
var (
	ErrClustered = errors.New("it is in a list of together, and its Redis is a cluster, whose nodes cannot be charged in one step: " +
		"take it off the list, or name a Redis that is one server")
	ErrFirstLimit = errors.New("it is in a list of together, and its candidate is a first limit in Redis, which is asked after the answer: " +
		"take it off the list")
)

// Clustered reports whether a side is in a Redis whose keys are on several servers.
func (s *Side) Clustered() bool { return s.store != nil && s.store.clustered }

// Asynchronous reports whether a side can only be asked behind the request, beside an authoritative that is none.
func (s *Side) Asynchronous() bool { return s.present() && !s.quick() }
