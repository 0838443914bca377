package replay

import (
	"context"
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// RunListed is Run for one of several policies that are charged together: the others are charged as in the service, and what
// becomes of them is not reported. Events of one request have one number; see Events.Number. The pair is the own policy's.
func RunListed(ctx context.Context, own int, events []*Events, cfgs []Config) (*Report, error) {
	runs := make([]*run, len(events))
	for i := range runs {
		runs[i] = newRun(events[i], cfgs[i])
	}
	if err := judgeListed(ctx, own, runs); err != nil {
		return nil, err
	}
	return runs[own].report(), nil
}

func judgeListed(ctx context.Context, own int, runs []*run) error {
	r, judged := runs[own], 0
	next := make([]int, len(runs)) // the first event of each run that was not judged
	var members []int
	var checks []algorithms.Check
	var into [][2]algorithms.Observation
	for {
		if members = earliest(runs, next, members[:0]); len(members) == 0 {
			break
		}

		until := runs[members[0]].events.list.at(next[members[0]]).at
		for _, one := range runs {
			if err := one.settle(ctx, r.cfg.Pair, until); err != nil {
				return err
			}
		}

		checks, into = checks[:0], append(into[:0], make([][2]algorithms.Observation, len(members))...)
		for _, i := range members {
			c := runs[i].fill([]event{*runs[i].events.list.at(next[i])})[0]
			c.Enforced = algorithms.Authoritative // also where it is none: what the candidate denies is charged
			if len(members) > 1 {
				c.Together = 1
			}
			checks = append(checks, c)
		}
		if err := r.cfg.Pair.Evaluate(ctx, checks, into); err != nil {
			return fmt.Errorf("replay: %w", err)
		}

		allowed := true
		for n, i := range members {
			if runs[i].first {
				into[n][algorithms.Authoritative] = allowedByNone
			}
			allowed = allowed && admits(&into[n])
		}
		for n, i := range members {
			if allowed {
				runs[i].answers(runs[i].events.list.at(next[i]), &checks[n])
			}
		}

		for n, i := range members {
			e := runs[i].events.list.at(next[i])
			if next[i]++; i != own {
				continue
			}
			if err := r.count(*e, &checks[n], &into[n]); err != nil {
				return err
			}
			if judged++; judged%batch == 0 && r.cfg.Progress != nil {
				r.cfg.Progress(judged, r.events.Len())
			}
		}
	}
	return r.flush()
}

// earliest appends the runs whose next event is of the earliest request, in their order.
func earliest(runs []*run, next, members []int) []int {
	var first *event
	for i, r := range runs {
		if next[i] == r.events.Len() {
			continue
		}
		e := r.events.list.at(next[i])
		order := 1
		if first != nil {
			order = inOrder(first, e)
		}
		switch {
		case first == nil || order > 0:
			first, members = e, append(members[:0], i)
		case order == 0:
			members = append(members, i)
		}
	}
	return members
}
