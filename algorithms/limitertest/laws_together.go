package limitertest

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// lists is a random program of requests that several policies match, each with a key and a limit of its own.
type lists struct {
	*trial
	limits   []algorithms.Limit
	requests []request
}

// request is one list of checks: of the policies that match, with their costs.
type request struct {
	at    int64
	costs []int64 // by policy; negative: it does not match
}

// judge judges the requests on fresh keys, in one call, and returns the answers by request and policy. The sides of a policy are the
// caller's, and may be others at each request.
func (p *lists) judge(sides func(policy int) ([2]algorithms.Side, algorithms.Role)) [][][2]algorithms.Observation {
	key, answers := freshName(), make([][][2]algorithms.Observation, len(p.requests))
	var checks []algorithms.Check
	var of []*[2]algorithms.Observation
	for n, r := range p.requests {
		answers[n] = make([][2]algorithms.Observation, len(r.costs))
		for i, cost := range r.costs {
			if cost < 0 {
				continue
			}
			c := algorithms.Check{
				Policy: p.policy + string(rune('a'+i)), Key: key, Cost: cost, At: time.UnixMicro(r.at), Together: uint16(1 + n%2),
			}
			c.Sides, c.Enforced = sides(i)
			checks, of = append(checks, c), append(of, &answers[n][i])
		}
	}

	into := make([][2]algorithms.Observation, len(checks))
	if err := p.pair.Evaluate(context.Background(), checks, into); err != nil {
		p.Fatalf("evaluate: %v", err)
	}
	for i := range into {
		for r := range into[i] {
			if o := &into[i][r]; o.Status == algorithms.Failed {
				p.Fatalf("%+v: %v", checks[i], o.Err)
			}
		}
		*of[i] = into[i]
	}
	return answers
}

// side is a side of a policy: its limit, under an id.
func (p *lists) side(policy int, id string) algorithms.Side {
	return algorithms.Side{ID: id, Algorithm: p.subject.Algorithm, Limit: p.limits[policy]}
}

// listedTwinsAgree finds a side that is charged where its twin is not: what charges it must not depend on which one is enforced, in its
// own policy or in another one.
func listedTwinsAgree(t *trial) {
	p := t.drawLists(t.drawWild)
	answers := p.judge(func(i int) ([2]algorithms.Side, algorithms.Role) {
		return [2]algorithms.Side{p.side(i, "a"), p.side(i, "b")}, algorithms.Role(rapid.IntRange(0, 1).Draw(t.T, "enforced"))
	})
	for n, all := range answers {
		for i, o := range all {
			if o[0].Decision != o[1].Decision {
				t.Fatalf("request %d of %+v under %v, policy %d\n  one side   %+v\n  other side %+v", n, p.requests, p.limits, i, o[0].Decision, o[1].Decision)
			}
		}
	}
}

// listedCandidatesAreHarmless finds a candidate that is seen: in its own policy or in another one of the list, nothing that is enforced
// depends on it.
func listedCandidatesAreHarmless(t *trial) {
	p := t.drawLists(t.drawEvents)
	var enforced [3]algorithms.Role
	for i := range enforced {
		enforced[i] = algorithms.Role(rapid.IntRange(0, 1).Draw(t.T, "enforced"))
	}

	// The candidate of a policy has half its limit.
	run := func(candidates bool) [][][2]algorithms.Observation {
		return p.judge(func(i int) (sides [2]algorithms.Side, r algorithms.Role) {
			r = enforced[i]
			sides[r] = p.side(i, "enforced")
			if candidates {
				other := p.side(i, "other")
				other.Limit.Requests /= 2
				if other.Algorithm.Validate(other.Limit) == nil {
					sides[r.Other()] = other
				}
			}
			return sides, r
		})
	}

	with, without := run(true), run(false)
	for n := range with {
		for i := range with[n] {
			if r := enforced[i]; with[n][i][r].Decision != without[n][i][r].Decision {
				t.Fatalf("request %d of %+v under %v, policy %d\n  with candidates    %+v\n  without candidates %+v",
					n, p.requests, p.limits, i, with[n][i][r].Decision, without[n][i][r].Decision)
			}
		}
	}
}

// deniedListLeavesNoTrace finds a request that is denied and costs something, in whatever policy of its list.
func deniedListLeavesNoTrace(t *trial) {
	p := t.drawLists(t.drawEvents)
	twins := func(i int) ([2]algorithms.Side, algorithms.Role) {
		return [2]algorithms.Side{p.side(i, "a"), p.side(i, "b")}, algorithms.Role(i % 2)
	}

	answers, kept := p.judge(twins), &lists{trial: t, limits: p.limits}
	var want [][][2]algorithms.Observation
	for n, all := range answers {
		denied := false
		for i := range all {
			denied = denied || p.requests[n].costs[i] >= 0 && !all[i][i%2].Decision.Allowed
		}
		if !denied {
			kept.requests, want = append(kept.requests, p.requests[n]), append(want, all)
		}
	}

	for n, all := range kept.judge(twins) {
		for i := range all {
			if all[i][0].Decision != want[n][i][0].Decision {
				t.Fatalf("without the requests that are denied, request %d of %+v under %v, policy %d\n  has  %+v\n  with them %+v",
					n, kept.requests, p.limits, i, all[i][0].Decision, want[n][i][0].Decision)
			}
		}
	}
}
