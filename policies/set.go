package policies

import (
	"context"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// Set is a policy file, read and compiled. It is immutable and safe for
// concurrent use.
type Set struct {
	// Name is the namespace in Redis and in metrics.
	Name string
	// Generation grows with the file; 0 if the file has none. One that is smaller than the
	// fleet's takes over by an operator's order only, or once that one is gone.
	Generation int64
	// RetryJitter is the share of the wait, a fraction, by which the Retry-After of denials is spread; 0 if the file has none.
	RetryJitter float64
	// Policies are in the order of the file, which is the order of their checks.
	Policies []*Policy
	// Warnings are problems that did not keep the file from being loaded, in the order of
	// their places; nil if there are none.
	Warnings []Problem
	// ReadsRoutes reports whether any policy reads request.route: a middleware without
	// a router that knows routes can warn then.
	ReadsRoutes bool
	// Adapts reports whether a limit follows how the service does; see Side.Adaptive.
	// AdaptsByErrors reports whether one follows the service's errors, so that responses have to be looked at.
	Adapts, AdaptsByErrors bool
	// Settles reports whether a policy settles, so that responses have to be looked at.
	Settles bool

	reading    *Reading
	selections selections
	text       setText
}

// setText is what a Set keeps of its file's text. No request needs it.
type setText struct {
	fields   map[string]string // for Difference, by path
	sections []*section        // for Check
	problems *Problems         // that describe the warnings
}

// Describe writes one of the warnings as Problems do.
func (s *Set) Describe(warning Problem) string { return s.text.problems.Describe(warning) }

// Check lets a check look at a set that was loaded without it, and returns what it
// finds beyond the set's warnings, in the order of the places. The set stays as it is,
// even if a finding is an error: it is for the caller to refuse the set.
func (s *Set) Check(check Check) []Problem {
	found := &Problems{}

	// A warning that loading has given already is not given twice.
	for _, section := range s.text.sections {
		for _, p := range section.check(check) {
			if !slices.Contains(s.Warnings, p) {
				found.addOnce(p)
			}
		}
	}
	found.sort()
	return found.List
}

// named returns a policy, nil if there is none.
func (s *Set) named(name string) *Policy {
	for _, p := range s.Policies {
		if p.Name == name && name != "" {
			return p
		}
	}
	return nil
}

func (s *Set) names() (list []string) {
	for _, p := range s.Policies {
		list = append(list, p.Name)
	}
	return list
}

// rename gives the policies of one list the number of another.
func (s *Set) rename(from, to int) {
	for _, p := range s.Policies {
		if p.together == from {
			p.together = to
		}
	}
}

// Listed returns the policies that are charged together under a number above 0, in the order of the file.
func (s *Set) Listed(number int) (list []*Policy) {
	for _, p := range s.Policies {
		if p.together == number && number > 0 {
			list = append(list, p)
		}
	}
	return list
}

// Selection returns the policies that may match a request. Policy.Check says which of them do.
func (s *Set) Selection(r *Request) (list Selection) {
	// A file without a condition on routes pays no look-up for them.
	list.lists[0] = s.selections.always
	if len(s.selections.routes) > 0 {
		list.lists[1] = s.selections.routes[r.Route]
	}
	if len(s.selections.paths) > 0 {
		list.lists[2] = s.selections.paths[r.Path]
	}
	return list
}

// Reading returns what the set reads, which is shared and must not be changed. A nil set may read all of a request.
func (s *Set) Reading() *Reading {
	if s == nil {
		return readingAll
	}
	return s.reading
}

// reads reports whether any expression that checks evaluate reads an input. Those of
// expected differences decide no check.
func (s *Set) reads(input string) bool {
	for _, p := range s.Policies {
		for _, x := range p.expressions() {
			if x.inputs[input] {
				return true
			}
		}
	}
	return false
}

// adapts reports whether any side is adaptive by one of these signals.
func (s *Set) adapts(by ...adaptive.Signal) bool {
	return slices.ContainsFunc(s.Policies, func(p *Policy) bool {
		return slices.ContainsFunc(p.Sides[:], func(s *Side) bool {
			return s != nil && s.adaptive != nil && slices.Contains(by, s.adaptive.rule.Signal)
		})
	})
}

// Explain says what the set charges a request. No deadline ends it: an expression has a
// bound of its own, and a person waits for the answer. It asks no limiter and changes no
// state, so it does not say whether the request would be allowed.
func (s *Set) Explain(r *Request) Explanation {
	e := Explanation{Checks: []ExplainedCheck{}, Skipped: []Skipped{}} // no null in JSON

	for _, p := range s.Policies {
		// A policy that is skipped is listed with its reason: it is mostly what the author is looking for.
		c, matches, err := p.Check(context.Background(), r)
		switch {
		case err != nil:
			reason := strings.TrimPrefix(err.Error(), "policies: ")
			if p.OnError == FailDeny {
				reason += "; on_error: deny denies the request"
			}
			e.Skipped = append(e.Skipped, Skipped{p.Name, reason})
		case !matches:
			e.Skipped = append(e.Skipped, Skipped{p.Name, "when is false: " + strings.TrimSpace(p.when.source)})
		default:
			check := explainPolicy(p, &c, r)
			for _, other := range s.Listed(p.together) {
				if other != p {
					check.Together = append(check.Together, other.Name)
				}
			}
			e.Checks = append(e.Checks, check)
		}
	}
	return e
}
