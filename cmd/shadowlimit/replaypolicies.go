package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// policySubject compares the sides of every policy of a file that has a candidate.
type policySubject struct {
	set      *policies.Set
	list     []*policies.Policy         // that have a candidate, or are charged together with others
	events   []*replay.Events           // of each policy
	number   uint32                     // of the last request
	refusals []*refusals                // of each policy
	models   map[string]algorithms.Side // in the place of custom limiters, by their names
	requests *requests
	observed *observed // nil: not asked
	in       intake
}

func openPolicySubject(file string, models map[string]algorithms.Side, from *requests, seen *observed) (*policySubject, error) {
	set, err := policies.LoadFile(file, stages.Check)
	if err != nil {
		return nil, inFile(file, err)
	}

	from.headers = set.Reading().Headers
	s := &policySubject{set: set, models: models, requests: from, observed: seen, in: intake{consequence: "not charged by some policy, because an expression failed"}}
	customs, compared := map[string]bool{}, false
	for _, p := range set.Policies {
		// A custom limiter is Go code of the service: this program does not have it.
		for role, side := range p.Sides {
			if side == nil || !side.Custom() || seen.isAuthoritative(algorithms.Role(role), side) {
				continue
			}
			if side.Logged() && role == int(algorithms.Authoritative) {
				return nil, usagef(observedHint, "policy %s: the authoritative is what the log says: give --observed", p.Name)
			}
			customs[side.Limiter] = true
			if !models[side.Limiter].Present() {
				return nil, fmt.Errorf("%s: policy %s: the limiter %q is known to your program alone: give a model of it, "+
					"such as --as %s=token_bucket:10/1s:burst=20", file, p.Name, side.Limiter, side.Limiter)
			}
		}

		compared = compared || p.Sides[algorithms.Candidate] != nil
		if p.Sides[algorithms.Candidate] != nil || p.Together() > 0 {
			s.list, s.events = append(s.list, p), append(s.events, &replay.Events{})
			s.refusals = append(s.refusals, newRefusals(p))
			from.expect(p.Inputs())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if !customs[name] {
			return nil, usagef(replayHint, "--as %s: %s has no custom limiter of that name%s", humanize.Printable(name), file,
				known(slices.Sorted(maps.Keys(customs))))
		}
	}
	if !compared {
		return nil, fmt.Errorf("%s: no policy has a candidate: there is nothing to compare", file)
	}
	return s, nil
}

func (s *policySubject) add(ctx context.Context, e accesslog.Event) {
	s.in.count(e.At)
	s.number++

	// A request counts as failed once, however many policies it fails in.
	request, seen := s.requests.of(e), s.observed.of(e)
	var failure error
	for i, p := range s.list {
		c, matches, err := p.Check(ctx, request)
		if err != nil && failure == nil {
			failure = fmt.Errorf("policy %s: %w", p.Name, err)
		}
		if matches {
			terms := replay.Terms{Expected: p.Expected(ctx, request)}
			if p.Settles() {
				if err := final(ctx, p, request, e, &terms); err != nil {
					s.requests.unsettled++
					s.requests.whyUnsettled = cmp.Or(s.requests.whyUnsettled, fmt.Errorf("policy %s: %w", p.Name, err))
				}
			}
			s.check(i, e.At, c, terms)
			s.events[i].Observe(seen)
		} else if err == nil && s.events[i].Len() == 0 {
			s.refusals[i].count(ctx, request)
		}
	}

	if failure != nil {
		s.in.fail(failure)
	}
}

// final sets the final cost of a request, by the answer that the log has. Without one the cost stays as it is charged.
func final(ctx context.Context, p *policies.Policy, request *policies.Request, e accesslog.Event, terms *replay.Terms) error {
	answer, err := answerOf(e)
	if err != nil {
		return err
	}
	if terms.Final, err = p.FinalCost(ctx, request, answer); err != nil {
		return err
	}
	terms.Settles, terms.Delay = true, answer.Duration
	return nil
}

// check notes a check of a policy. Its limits may come from expressions, so they go with it.
func (s *policySubject) check(policy int, at int64, c algorithms.Check, terms replay.Terms) {
	for role, side := range c.Sides {
		terms.Limits[role] = side.Limit
		if model, modelled := s.modelOf(s.list[policy].Sides[role]); modelled {
			terms.Limits[role] = model.Limit
		}
	}
	s.events[policy].AddTerms(at, []byte(c.Key), c.Cost, terms)
	s.events[policy].Number(s.number)
}

// modelOf returns the model of a custom side. One of ours has none.
func (s *policySubject) modelOf(side *policies.Side) (model algorithms.Side, modelled bool) {
	if side == nil || !side.Custom() {
		return model, false
	}
	model = s.models[side.Limiter]
	return model, true
}

// known lists names behind a message, "" without any.
func known(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; it has " + humanize.Printable(strings.Join(names, ", "))
}

func (s *policySubject) intake() *intake { return &s.in }

func (s *policySubject) reads() *requests { return s.requests }

func (s *policySubject) charged() []charged { return chargedIn(s.comparisons()) }

func (s *policySubject) comparisons() (compared []comparison) {
	list := make([]comparison, len(s.list))
	for i, p := range s.list {
		list[i] = comparison{
			name: p.Name, events: s.events[i], rules: stages.ConfigOf(p.Promotion),
			keyVaries: len(p.KeyInputs()) > 0, refusals: s.refusals[i], settles: p.Settles(),
		}

		// The log is replayed without a bound on a side's entries: the reference has none either.
		for role, side := range p.Sides {
			if side == nil {
				continue
			}
			if s.observed.isAuthoritative(algorithms.Role(role), side) {
				list[i].logged, list[i].texts[role] = true, side.Name()
				continue
			}
			list[i].adaptive[role] = side.Adaptive() != nil
			list[i].sides[role] = algorithms.Side{ID: side.Bare().ID, Algorithm: algorithms.Unbounded(side.Algorithm)}
			list[i].texts[role] = side.String()

			// Both sides may be custom, and of one model: their parts of a record have names of their own.
			if model, modelled := s.modelOf(side); modelled {
				list[i].sides[role] = algorithms.Side{ID: "as " + algorithms.Role(role).String(), Algorithm: model.Algorithm}
				list[i].texts[role] = fmt.Sprintf("%s as %s:%s", side.Limiter, model.Algorithm.Name(), model.Limit)
			}
		}

		if p.Sides[algorithms.Candidate] == nil {
			continue
		}
		limit, constant := p.Sides[algorithms.Candidate].Constant()
		if model, modelled := s.modelOf(p.Sides[algorithms.Candidate]); modelled {
			limit, constant = model.Limit, true
		}
		if constant {
			list[i].limit = &limit
		}
	}

	for i, p := range s.list {
		if p.Sides[algorithms.Candidate] == nil {
			continue
		}
		c := list[i]
		for n, other := range s.list {
			if p.Together() > 0 && other.Together() == p.Together() {
				c.listed = append(c.listed, list[n])
			}
		}
		compared = append(compared, c)
	}
	return compared
}
