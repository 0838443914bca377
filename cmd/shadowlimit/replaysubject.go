package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// subject is what a replay compares: two limiters, or the policies of a file.
type subject interface {
	// add charges one line of the log. The event is only lent.
	add(context.Context, accesslog.Event)
	// reads are the requests that the expressions have read.
	reads() *requests
	// intake is what add has made of the lines so far.
	intake() *intake
	// comparisons are the checks to replay, each with its two sides.
	comparisons() []comparison
	// charged are the checks by policies, whose keys may look wrong.
	charged() []charged
}

// charged are the checks of a policy.
type charged struct {
	name   string // of the policy
	checks interface {
		Len() int
		Keys() []string
		Busiest() (key string, checks int64)
	}
	keyVaries bool // depends on the request
}

func chargedIn(list []comparison) (all []charged) {
	for i := range list {
		all = append(all, charged{list[i].name, list[i].events, list[i].keyVaries})
	}
	return all
}

// comparison is one pair of sides with its checks.
type comparison struct {
	name  string // of the policy
	sides [2]algorithms.Side
	// settles says that costs are known after the answer.
	settles bool
	texts   [2]string // describe the sides in the report; "" means by their limits
	// limit is the candidate's for every request; nil: an expression says it.
	limit  *algorithms.Limit
	events *replay.Events
	rules  stages.Config // flags overrule what the gate judges by
	// keyVaries reports that the key depends on the request. refusals are why no request is charged; nil: all are.
	keyVaries bool
	refusals  *refusals
	// listed are the comparisons of all policies that are charged together with this one, and it is one of them; nil for none.
	listed   []comparison
	logged   bool    // the authoritative is what the log says
	adaptive [2]bool // the side's limit gives way while the service suffers
}

// named returns the comparisons that --policy asks for: one, or all.
func named(list []comparison, policy string) ([]comparison, error) {
	if policy == "" {
		return list, nil
	}
	var names []string
	for i := range list {
		if list[i].name == policy {
			return list[i : i+1], nil
		}
		names = append(names, list[i].name)
	}
	return nil, usagef("its policies with a candidate: "+strings.Join(names, ", "), "--policy %s: no such policy", policy)
}

// levelWarnings say which sides are judged by their whole limit, because a log does not say how the service did.
func levelWarnings(list []comparison) (warnings []string) {
	for _, c := range list {
		for role, adaptive := range c.adaptive {
			if !adaptive {
				continue
			}
			warnings = append(warnings, fmt.Sprintf("policy %s: the %s gives way while the service suffers, which a log does not say: "+
				"it is judged by its whole limit (level 1)", c.name, algorithms.Role(role)))
		}
	}
	return warnings
}

// intake counts the requests of a log.
type intake struct {
	requests    int64
	presence    replay.Presence
	first, last int64  // instants of the first and the last request, in microseconds
	failed      int64  // requests for which an expression failed
	failure     error  // of the first of them
	consequence string // what became of them, after "3 requests"
}

func (in *intake) count(at int64) {
	if in.requests == 0 {
		in.first, in.last = at, at
	}
	in.requests++
	in.presence.Add(at)
	in.first, in.last = min(in.first, at), max(in.last, at)
}

func (in *intake) fail(err error) {
	in.failed++
	if in.failure == nil {
		in.failure = err
	}
}

// report is a report on the log, still without policies.
func (in *intake) report() *replay.Report {
	r := &replay.Report{Requests: in.requests}
	if in.requests > 0 {
		first, last := time.UnixMicro(in.first).UTC(), time.UnixMicro(in.last).UTC()
		r.First, r.Last = &first, &last
	}
	return r
}

// sideSubject compares the limiters of --from and --to as one policy named replay.
type sideSubject struct {
	sides    [2]algorithms.Side
	key      *policies.KeyExpression // nil: the key of the log
	requests *requests
	observed *observed // nil: not asked
	logged   bool      // the authoritative is what the log says
	events   *replay.Events
	in       intake
}

func newSideSubject(sides [2]algorithms.Side, key *policies.KeyExpression, from *requests, seen *observed) *sideSubject {
	if key != nil {
		from.expect(key.Inputs())
		from.headers = slices.ContainsFunc(key.Inputs(), func(name string) bool { return strings.HasPrefix(name, "request.headers") })
	}
	in := intake{consequence: "without a key, left out"}
	return &sideSubject{sides: sides, key: key, requests: from, observed: seen, events: &replay.Events{}, in: in}
}

func (s *sideSubject) add(ctx context.Context, e accesslog.Event) {
	if s.key == nil {
		s.events.AddRaw(e.At, e.Key, e.Cost)
	} else {
		key, err := s.key.Of(s.requests.of(e))
		if err != nil {
			s.in.fail(err)
			return
		}
		s.events.Add(e.At, []byte(key), e.Cost)
	}

	s.in.count(e.At)
	s.events.Observe(s.observed.of(e))
}

func (s *sideSubject) intake() *intake { return &s.in }

func (s *sideSubject) reads() *requests { return s.requests }

func (s *sideSubject) charged() []charged { return chargedIn(s.comparisons()) }

func (s *sideSubject) comparisons() []comparison {
	texts := [2]string{}
	if s.logged {
		texts[algorithms.Authoritative] = "log"
	}
	return []comparison{{
		name: "replay", logged: s.logged, texts: texts, sides: s.sides, limit: &s.sides[algorithms.Candidate].Limit, events: s.events, rules: stages.Config{}.WithDefaults(),
		keyVaries: s.key == nil || len(s.key.Inputs()) > 0,
	}}
}
