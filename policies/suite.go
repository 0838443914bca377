package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// SuiteReport is what the tests of a policy file came to.
type SuiteReport struct {
	File     string    `json:"file"`
	Policies string    `json:"policies"` // the policy file
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Failures []Problem `json:"failures"`
	// Coverage by policy, in the order of the policy file.
	Coverage []Coverage `json:"coverage"`
	problems *Problems
}

// Coverage says what the tests made of a policy.
type Coverage struct {
	Policy string `json:"policy"`
	// Matched reports whether any request was charged, Passed whether any was not.
	// A policy without a condition cannot be passed by.
	Matched bool `json:"matched"`
	Passed  bool `json:"passed"`
}

// Whole reports whether both ways were seen, as far as there are two.
func (c Coverage) whole(conditional bool) bool { return c.Matched && (c.Passed || !conditional) }

// Error implements error: the failures, with their places.
func (r *SuiteReport) Error() string { return r.problems.Error() }

// Uncovered names the policies of which the tests have not seen both ways.
func (r *SuiteReport) Uncovered(set *Set) (names []string) {
	for i, c := range r.Coverage {
		if !c.whole(set.Policies[i].when != nil) {
			names = append(names, c.Policy)
		}
	}
	return names
}

// suite is a tests file while it runs.
type suite struct {
	*document
	set    *Set
	report *SuiteReport
	cover  map[string]*Coverage
}

// TestFile runs the tests of a policy file. The error is a *Problems if a file is
// not as it should be; tests that fail are in the report.
func TestFile(name string) (*SuiteReport, *Set, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("policies: test: %w", err)
	}
	s := &suite{document: &document{Problems: Problems{File: name}}, report: &SuiteReport{File: name, Failures: []Problem{}}, cover: map[string]*Coverage{}}
	var tests *yaml.Node
	if root := s.parse(text); root != nil {
		s.mapping(root, "the file", map[string]field{
			"policies": {read: s.text("policies", &s.report.Policies), required: true},
			"tests":    {read: func(n *yaml.Node) { tests = n }, required: true},
		})
	}
	if s.Failed() {
		return nil, nil, &s.Problems
	}
	if !filepath.IsAbs(s.report.Policies) {
		s.report.Policies = filepath.Join(filepath.Dir(name), s.report.Policies)
	}
	if s.set, err = LoadFile(s.report.Policies); err != nil {
		return nil, nil, err
	}
	return s.run(tests)
}

func (s *suite) run(tests *yaml.Node) (*SuiteReport, *Set, error) {
	for _, p := range s.set.Policies {
		s.report.Coverage = append(s.report.Coverage, Coverage{Policy: p.Name})
	}
	for i := range s.report.Coverage {
		s.cover[s.report.Coverage[i].Policy] = &s.report.Coverage[i]
	}
	items := s.items(tests, "tests")
	if len(items) == 0 && !s.Failed() {
		s.fail(tests, "tests: want at least one")
	}
	if s.Failed() {
		return nil, nil, &s.Problems
	}
	for _, n := range items {
		before := len(s.List)
		s.test(n)
		if len(s.List) == before {
			s.report.Passed++
		} else {
			s.report.Failed++
		}
	}
	s.sort()
	s.report.Failures = append(s.report.Failures, s.List...)
	s.report.problems = &s.Problems
	return s.report, s.set, nil
}

// test runs one test: a request with its charges, or a sequence with decisions.
func (s *suite) test(n *yaml.Node) {
	var name string
	var request, charges, sequence *yaml.Node
	keep := func(into **yaml.Node) field { return field{read: func(n *yaml.Node) { *into = n }} }
	s.mapping(n, "a test", map[string]field{
		"name": {read: s.text("name", &name), required: true}, "request": keep(&request), "charges": keep(&charges), "sequence": keep(&sequence),
	})
	switch {
	case request != nil && charges != nil && sequence == nil:
		s.checkCharges(name, request, charges)
	case sequence != nil && request == nil && charges == nil:
		s.play(name, sequence)
	default:
		s.fail(n, "a test has either a request with charges, or a sequence")
	}
}

// request reads a request's node.
func (s *suite) request(n *yaml.Node) *Request {
	if n.Kind != yaml.MappingNode {
		s.fail(n, "request: want a mapping, such as { method: GET }")
		return nil
	}
	var v map[string]any
	err := n.Decode(&v)
	var text []byte
	if err == nil {
		text, err = json.Marshal(v)
	}
	var r *Request
	if err == nil {
		r, err = ParseRequest(text)
	}
	if err != nil {
		s.fail(n, "%s", strings.TrimPrefix(err.Error(), "policies: "))
		return nil
	}
	return r
}

// charges returns what the set charges a request, and notes which policies matched.
func (s *suite) charges(n *yaml.Node, name string, r *Request) (charges []algorithms.Charge) {
	for _, p := range s.set.Policies {
		c, matches, err := p.Charge(context.Background(), r)
		switch {
		case err != nil:
			s.fail(n, "%s: policy %s: %s", name, p.Name, strings.TrimPrefix(err.Error(), "policies: "))
		case matches:
			s.cover[p.Name].Matched = true
			charges = append(charges, c)
		default:
			s.cover[p.Name].Passed = true
		}
	}
	return charges
}

func (s *suite) checkCharges(name string, request, want *yaml.Node) {
	r := s.request(request)
	if r == nil {
		return
	}
	got := s.charges(request, name, r)
	items := s.items(want, "charges")
	if len(items) != len(got) {
		s.fail(want, "%s: charged by %s, want %d", name, chargedBy(got), len(items))
		return
	}
	for i, item := range items {
		s.checkCharge(name, item, &got[i])
	}
}

func chargedBy(charges []algorithms.Charge) string {
	if len(charges) == 0 {
		return "no policy"
	}
	names := make([]string, len(charges))
	for i, c := range charges {
		names[i] = c.Policy
	}
	return strings.Join(names, ", ")
}

// checkCharge compares the fields that are given.
func (s *suite) checkCharge(name string, n *yaml.Node, c *algorithms.Charge) {
	compare := func(what, got string) field {
		return field{read: func(n *yaml.Node) {
			if n.Value != got {
				s.fail(n, "%s: %s is %q, want %q", name, what, got, n.Value)
			}
		}}
	}
	s.mapping(n, "a charge", map[string]field{
		"policy": compare("policy", c.Policy), "key": compare("key", c.Key), "cost": compare("cost", fmt.Sprint(c.Cost)),
		"authoritative": compare("authoritative", shortForm(c.Sides[algorithms.Authoritative])),
		"candidate":     compare("candidate", shortForm(c.Sides[algorithms.Candidate])),
	})
}

// shortForm writes a charged side as the command line does.
func shortForm(s algorithms.Side) string {
	if !s.Present() {
		return ""
	}
	return s.Algorithm.Name() + ":" + s.Limit.String()
}

// suiteStart is the instant 0s of every sequence: a Thursday, the start of a day.
var suiteStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// play judges a sequence of requests on fresh limiters in virtual time.
func (s *suite) play(name string, sequence *yaml.Node) {
	pair := algorithms.NewMemory(algorithms.MemoryConfig{})
	var last time.Duration
	for _, n := range s.items(sequence, "sequence") {
		at, repeat := last, int64(1)
		var request *yaml.Node
		want := [2]string{}
		before := len(s.List)
		s.mapping(n, "a step", map[string]field{
			"at":            {read: s.offset("at", &at)},
			"request":       {read: func(n *yaml.Node) { request = n }, required: true},
			"repeat":        {read: s.count("repeat", &repeat, 1)},
			"authoritative": {read: s.choice("authoritative", &want[0], "allow", "deny")},
			"candidate":     {read: s.choice("candidate", &want[1], "allow", "deny")},
		})
		if at < last {
			s.fail(n, "%s: a step before the one above it", name)
		}
		if repeat > mostRepeats {
			s.fail(n, "%s: repeat: at most %d times in a step", name, mostRepeats)
		}
		if len(s.List) > before {
			return // what follows would fail for this alone
		}
		last = at
		s.step(name, n, request, pair, at, repeat, want)
	}
}

const mostRepeats = 100_000

// offset returns a reader of a time since the start.
func (s *suite) offset(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := algorithms.ParseWindow(n.Value)
		if err != nil {
			s.fail(n, "%s: want a time since the start, such as 0s or 1m30s", what)
			return
		}
		*into = v
	}
}

// step asks so often, and compares every answer.
func (s *suite) step(name string, n, request *yaml.Node, pair algorithms.Pair, at time.Duration, repeat int64, want [2]string) {
	r := s.request(request)
	if r == nil {
		return
	}
	r.Time = suiteStart.Add(at)
	before := len(s.List)
	for i := range repeat {
		charges := s.charges(request, name, r)
		if len(s.List) > before {
			return // as it would at every repetition
		}
		for c := range charges {
			charges[c].At = r.Time
		}
		observed := make([][2]algorithms.Observation, len(charges))
		if err := pair.Evaluate(context.Background(), charges, observed); err != nil {
			s.fail(n, "%s: %v", name, err)
			return
		}
		for role, word := range want {
			if word == "" {
				continue
			}
			if got := s.verdictOf(charges, observed, role); got != word {
				s.fail(n, "%s: request %d of the step: the %s says %s, want %s", name, i+1, algorithms.Role(role), got, word)
				return
			}
		}
	}
}

// verdictOf says what one side's limiters make of a request together. Where a
// policy has no candidate, its one limiter speaks for both sides.
func (s *suite) verdictOf(charges []algorithms.Charge, observed [][2]algorithms.Observation, role int) string {
	verdict := "allow"
	for i, o := range observed {
		p := s.set.Policies[slices.IndexFunc(s.set.Policies, func(p *Policy) bool { return p.Name == charges[i].Policy })]
		from := role
		if p.Sides[role] == nil {
			from = int(algorithms.Authoritative)
		}
		switch {
		case p.Sides[from].Foreign():
			return "nothing here, for " + p.Sides[from].Limiter + " is a limiter of your own"
		case o[from].Err != nil:
			return strings.TrimPrefix(o[from].Err.Error(), "algorithms: ")
		case !o[from].Decision.Allowed:
			verdict = "deny"
		}
	}
	return verdict
}
