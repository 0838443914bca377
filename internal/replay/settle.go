package replay

import (
	"container/heap"
	"context"
	"errors"
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// settlements are those of admitted requests whose answer is still to come, in the order of the answers.
type settlements []algorithms.Settlement

func (s settlements) Len() int           { return len(s) }
func (s settlements) Less(i, j int) bool { return s[i].At.Before(s[j].At) }
func (s settlements) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *settlements) Push(x any)        { *s = append(*s, x.(algorithms.Settlement)) }
func (s *settlements) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// answers has a request that was admitted settled when its answer comes.
func (r *run) answers(e *event, c *algorithms.Check) {
	if c.Receipt == nil || !c.Receipt.Any() {
		return
	}
	terms := &r.events.terms[e.terms-1]
	heap.Push(&r.unsettled, algorithms.Settlement{Receipt: c.Receipt, Cost: terms.Final, At: c.At.Add(terms.Delay)})
}

// finalCost is what a request costs in the end.
func (r *run) finalCost(e *event) int64 {
	if r.cfg.Settles && e.terms > 0 && r.events.terms[e.terms-1].Settles {
		return r.events.terms[e.terms-1].Final
	}
	return e.cost
}

// settle makes the costs final whose answers came until an instant.
func (r *run) settle(ctx context.Context, pair algorithms.Pair, until int64) error {
	for len(r.unsettled) > 0 && r.unsettled[0].At.UnixMicro() <= until {
		settler, ok := pair.(algorithms.Settler)
		if !ok {
			return errors.New("replay: settle: the store of the replay cannot settle")
		}
		one := []algorithms.Settlement{heap.Pop(&r.unsettled).(algorithms.Settlement)}
		var into [1][2]algorithms.Settled
		if err := settler.Settle(ctx, one, into[:]); err != nil {
			return fmt.Errorf("replay: settle: %w", err)
		}
	}
	return nil
}

// admits reports whether a request gets an answer of the service: the authoritative is the one to obey.
func admits(o *[2]algorithms.Observation) bool {
	a := &o[algorithms.Authoritative]
	return a.Status == algorithms.Judged && a.Decision.Allowed && !a.Blocked
}

// judgeEach is judge for a policy that settles: the answer to a request may come before the next one.
func (r *run) judgeEach(ctx context.Context, events []event) error {
	for i := range events {
		e := &events[i]
		if err := r.settle(ctx, r.cfg.Pair, e.at); err != nil {
			return err
		}
		if err := r.judgeBatch(ctx, events[i:i+1]); err != nil {
			return err
		}
		if admits(&r.into[0]) {
			r.answers(e, &r.checks[0])
		}
	}
	return nil
}
