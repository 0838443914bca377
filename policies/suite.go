package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// SuiteReport is the result of a policy file's tests.
type SuiteReport struct {
	// File is the tests file, Policies the policy file as found from it.
	File     string `json:"file"`
	Policies string `json:"policies"`
	// Passed and Failed count tests.
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Failures are in the order of their places in the tests file. A test may have
	// several.
	Failures []Problem `json:"failures"`

	problems *Problems // that describe the failures
}

// Error implements error: the failures, with their places.
func (r *SuiteReport) Error() string { return r.problems.Error() }

// suite is a tests file while it runs.
type suite struct {
	*reader
	set    *Set
	report *SuiteReport
	lines  map[string]int // of the tests by name
}

// TestFile runs the tests of a policy file. The error is a *Problems if a file is
// not as it should be, and wraps the one of [ReadFile] if one cannot be read. Tests that
// fail are in the report, which is nil on an error.
func TestFile(name string) (*SuiteReport, error) {
	text, err := ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("policies: test: %w", err)
	}

	s := &suite{
		reader: &reader{Problems{File: name}},
		report: &SuiteReport{File: name, Failures: []Problem{}},
		lines:  map[string]int{},
	}
	var tests, at *yaml.Node
	if root := s.parse(text); root != nil {
		s.root(root, &tests, &at)
	}
	if s.Failed() {
		return nil, &s.Problems
	}

	// As seen from the tests file, so that the pair of files can be moved together.
	if !filepath.IsAbs(s.report.Policies) {
		s.report.Policies = filepath.Join(filepath.Dir(name), s.report.Policies)
	}
	s.set, err = LoadFile(s.report.Policies)
	if errors.Is(err, fs.ErrNotExist) {
		s.fail(at, "policies: there is no file %s: name it as seen from this file", s.report.Policies)
		return nil, &s.Problems
	}
	if err != nil {
		return nil, err
	}
	return s.run(tests)
}

// root reads the file's own fields, and keeps the nodes of the tests and of the policy file's name.
func (s *suite) root(n *yaml.Node, tests, policies **yaml.Node) {
	s.mapping(n, "the file", map[string]field{
		"policies": {read: func(n *yaml.Node) {
			*policies = n
			s.text("policies", &s.report.Policies)(n)
		}, required: true},
		"tests": {read: keep(tests), required: true},
	})
}

// keep returns a reader that stores the node for later.
func keep(into **yaml.Node) func(*yaml.Node) {
	return func(n *yaml.Node) { *into = n }
}

// run runs the tests. Its error is one of the tests file itself.
func (s *suite) run(tests *yaml.Node) (*SuiteReport, error) {
	// A file without a test would pass, and look as if the policies were tested.
	items := s.items(tests, "tests")
	if len(items) == 0 && !s.Failed() {
		s.fail(tests, "tests: want at least one")
	}
	if s.Failed() {
		return nil, &s.Problems
	}

	// A problem while a test runs is a failure of that test.
	for _, n := range items {
		before := s.errors()
		s.test(n)
		if s.errors() == before {
			s.report.Passed++
		} else {
			s.report.Failed++
		}
	}

	s.sort()
	s.report.Failures = append(s.report.Failures, s.List...)
	s.report.problems = &s.Problems
	return s.report, nil
}

// test runs one test: a request with its checks, or a sequence with decisions.
func (s *suite) test(n *yaml.Node) {
	var name string
	var request, checks, sequence *yaml.Node
	before := s.errors()
	s.mapping(n, "a test", map[string]field{
		"name":     {read: s.text("name", &name), required: true},
		"request":  {read: keep(&request)},
		"charges":  {read: keep(&checks)},
		"sequence": {read: keep(&sequence)},
	})

	// A report names a failed test, and the reader looks for it by its name.
	if first := s.lines[name]; first > 0 {
		s.fail(n, "two tests have the name %q: the first is in line %d", name, first)
	}
	if name != "" {
		s.lines[name] = n.Line
	}

	// A misspelt field would be told once more, as one that is missing. A test of both kinds would leave open whether the request counts
	// in the sequence.
	switch {
	case s.errors() > before && (checks == nil || request == nil) && sequence == nil:
	case request != nil && checks != nil && sequence == nil:
		s.validChecks(name, request, checks)
	case sequence != nil && request == nil && checks == nil:
		s.play(name, sequence)
	case request != nil && checks == nil && sequence == nil:
		s.fail(n, "a test of a request needs its charges, such as charges: [{ policy: NAME }], or charges: [] if no policy matches")
	default:
		s.fail(n, "a test has either a request with charges, or a sequence")
	}
}

// checks returns what the set charges a request. An expression that fails is a failure of the test: no check could show it.
func (s *suite) checks(n *yaml.Node, name string, r *Request) (checks []algorithms.Check) {
	for _, p := range s.set.Policies {
		c, matches, err := p.Check(context.Background(), r)

		switch {
		case err != nil:
			s.fail(n, "%s: policy %s: %s", name, p.Name, strings.TrimPrefix(err.Error(), "policies: "))
		case matches:
			checks = append(checks, c)
		}
	}
	return checks
}

// validChecks compares the checks of a request with the wanted ones of a test, in the
// order of the policies.
func (s *suite) validChecks(name string, request, want *yaml.Node) {
	r := s.request(request)
	if r == nil {
		return
	}

	got := s.checks(request, name, r)
	before := s.errors()
	items := s.items(want, "charges")
	if s.errors() > before {
		return
	}

	// Without the right policies, comparing one by one would blame the wrong ones. A check need not name its policy.
	same := len(items) == len(got)
	for i := range min(len(items), len(got)) {
		listed := placesOf(items[i]).orNone("policy").Value
		same = same && (listed == "" || listed == got[i].Policy)
	}
	if !same {
		s.fail(want, "%s: the request is charged by %s: list every check, and no other, in the order of the policies", name, policiesOf(got))
		return
	}
	for i, item := range items {
		s.validCheck(name, item, &got[i])
	}
}

// policiesOf lists the policies of checks.
func policiesOf(checks []algorithms.Check) string {
	var names []string
	for _, c := range checks {
		names = append(names, c.Policy)
	}
	return cmp.Or(strings.Join(names, ", "), "no policy")
}

// validCheck compares the fields that a test gives, as text: a key is text, and the
// other fields are written as a person would.
func (s *suite) validCheck(name string, n *yaml.Node, c *algorithms.Check) {
	// What a test leaves out is not compared.
	compare := func(what, got string) field {
		return field{read: func(n *yaml.Node) {
			switch {
			case n.Kind != yaml.ScalarNode:
				s.fail(n, "%s: want one text, such as %q", what, cmp.Or(got, "gcra:100/1m:burst=20"))
			case got == "" && n.Value != "":
				s.fail(n, "%s: the policy has no %s here, want %q", name, what, n.Value)
			case n.Value != got:
				s.fail(n, "%s: %s is %q, want %q", name, what, got, n.Value)
			}
		}}
	}

	// A side is compared in its short form, as status and explain show it.
	authoritative := shortForm(c.Sides[algorithms.Authoritative])
	if s.set.named(c.Policy).Sides[algorithms.Authoritative].None() {
		authoritative = none
	}
	s.mapping(n, "a check", map[string]field{
		"policy":        {read: func(*yaml.Node) {}}, // compared above
		"key":           compare("key", c.Key),
		"cost":          compare("cost", fmt.Sprint(c.Cost)),
		"authoritative": compare("authoritative", authoritative),
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

// suiteStart is the instant 0s of every sequence: a Thursday, and the start of a day,
// so that windows begin at it.
var suiteStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// mostRepeats bounds the work of a step: a second or so.
const mostRepeats = 100_000

// step is one line of a sequence: the same request, once or several times. All of them
// must have the wanted answers, so the request at which an answer changes is another step.
type step struct {
	node, request *yaml.Node
	response      *Response     // to each request that is allowed; nil: none, and costs stay as they are charged
	at            time.Duration // since suiteStart
	repeat        int64
	want          [2]string // by role: allow, deny, or "" for either
}

// play judges a sequence of requests on fresh limiters in virtual time.
func (s *suite) play(name string, sequence *yaml.Node) {
	// In memory, and fresh: what another sequence has spent must not count here.
	pair := algorithms.NewMemory(algorithms.MemoryConfig{})
	var last time.Duration
	expects := false
	steps := s.items(sequence, "sequence")
	for _, n := range steps {
		// After a bad step the following ones would fail for it alone.
		next, ok := s.step(name, n, last)
		if !ok {
			return
		}
		last = next.at
		expects = expects || next.want != [2]string{}
		s.ask(name, next, pair)
	}

	// Such a test would pass whatever the policies do.
	if len(steps) > 0 && !expects {
		s.fail(sequence, "%s: no step says what it expects: write authoritative or candidate, with allow or deny", name)
	}
}

// step reads a step. Without a time of its own it happens at the time of the one before.
func (s *suite) step(name string, n *yaml.Node, last time.Duration) (step, bool) {
	before := s.errors()
	st := step{node: n, at: last, repeat: 1}
	// A side that a step does not name may answer anything.
	authoritative, candidate := &st.want[algorithms.Authoritative], &st.want[algorithms.Candidate]
	s.mapping(n, "a step", map[string]field{
		"at":            {read: s.offset("at", &st.at)},
		"request":       {read: keep(&st.request), required: true},
		"response":      {read: func(n *yaml.Node) { st.response = s.response(n) }},
		"repeat":        {read: s.count("repeat", &st.repeat, 1)},
		"authoritative": {read: s.choice("authoritative", authoritative, "allow", "deny")},
		"candidate":     {read: s.choice("candidate", candidate, "allow", "deny")},
	})

	// Limiters treat a clock that goes back in a way of its own, which is no way to test a
	// policy.
	if st.at < last {
		s.fail(n, "%s: a step before the one above it", name)
	}

	if st.repeat > mostRepeats {
		s.fail(n, "%s: repeat: at most %d times in a step", name, mostRepeats)
	}
	return st, s.errors() == before
}

// offset returns a reader of a time since the start.
func (s *suite) offset(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// It is written as a window is, for the steps of a test aim at the ends of windows.
		v, err := algorithms.ParseWindow(n.Value)
		if err != nil {
			s.fail(n, "%s: want a time since the start, such as 0s or 1m30s", what)
			return
		}
		*into = v
	}
}

// ask sends a step's requests, and compares every answer. It ends at the first
// difference: the following requests would mostly repeat it.
func (s *suite) ask(name string, st step, pair algorithms.Settler) {
	r := s.request(st.request)
	if r == nil {
		return
	}

	// The time of a step replaces one that its request names: request.time and the clock of
	// the limiters agree in a service, too.
	r.Time = suiteStart.Add(st.at)
	before := s.errors()
	for i := range st.repeat {
		checks := s.checks(st.request, name, r)
		if s.errors() > before {
			return
		}
		for c := range checks {
			checks[c].At = r.Time
			checks[c].Together = uint16(s.set.named(checks[c].Policy).together)
			if st.response != nil {
				checks[c].Receipt = new(algorithms.Receipt)
			}
		}

		// The checks of a list stand side by side.
		slices.SortStableFunc(checks, func(a, b algorithms.Check) int { return cmp.Compare(a.Together, b.Together) })

		// An error of the pair is one of the whole step; a side's own is in its observation.
		observed := make([][2]algorithms.Observation, len(checks))
		if err := pair.Evaluate(context.Background(), checks, observed); err != nil {
			s.fail(st.node, "%s: %v", name, err)
			return
		}

		// A step that says nothing of a side accepts any answer of it.
		for role, want := range st.want {
			if want == "" {
				continue
			}
			if got, by := s.answerOf(checks, observed, algorithms.Role(role)); got != want {
				s.fail(st.node, "%s: request %d of the step: the %s says %s%s, want %s",
					name, i+1, algorithms.Role(role), got, by, want)
				return
			}
		}

		// The authoritative is the one to obey, and a request that it denies has no response of the service.
		if got, _ := s.answerOf(checks, observed, algorithms.Authoritative); st.response != nil && got == "allow" {
			if err := s.settle(r, st.response, checks, pair); err != nil {
				s.fail(st.node, "%s: %s", name, withoutPackage(err))
				return
			}
		}
	}
}

// settle changes what a request was charged to its final cost.
func (s *suite) settle(r *Request, a *Response, checks []algorithms.Check, pair algorithms.Settler) error {
	var settlements []algorithms.Settlement
	for i := range checks {
		if p := s.set.named(checks[i].Policy); p.Settles() {
			cost, err := p.FinalCost(context.Background(), r, a)
			if err != nil {
				return err
			}
			settlements = append(settlements, algorithms.Settlement{Receipt: checks[i].Receipt, Cost: cost, At: r.Time})
		}
	}
	return pair.Settle(context.Background(), settlements, make([][2]algorithms.Settled, len(settlements)))
}

// response reads what a step answers to its requests, which settle sees.
func (s *suite) response(n *yaml.Node) *Response {
	a := &Response{Status: http.StatusOK, Headers: http.Header{}}
	var status int64
	headers := map[string]string{}
	s.mapping(n, "a response", map[string]field{
		"status": {read: s.count("status", &status, 100)},
		"headers": {read: func(n *yaml.Node) {
			if n.Decode(&headers) != nil {
				s.fail(n, "headers: want texts by name, such as { x-tokens: \"12\" }")
			}
		}},
		"size": {read: s.count("size", &a.Size, 0)},
		"seconds": {read: func(n *yaml.Node) {
			var seconds float64
			if n.Decode(&seconds) != nil || !(seconds >= 0 && seconds <= 1e6) {
				s.fail(n, "seconds: want a number from 0 on, such as 1.5")
			}
			a.Duration = time.Duration(seconds * float64(time.Second))
		}},
	})
	if status > 0 {
		a.Status = int(status)
	}
	for name, value := range headers {
		a.Headers.Set(name, value)
	}
	return a
}

// answerOf returns the answer of one side's limiters to a request together, and which of several policies denies. Where a
// policy has no candidate, its one limiter answers for both sides.
func (s *suite) answerOf(
	checks []algorithms.Check, observed [][2]algorithms.Observation, role algorithms.Role,
) (answer, by string) {
	answer = "allow"
	for i, o := range observed {
		p := s.set.named(checks[i].Policy)
		asked := role
		if p.Sides[role] == nil {
			asked = algorithms.Authoritative
		}

		// One denial denies the request, and one side without an answer leaves it open.
		switch {
		case p.Sides[asked].None():
		case p.Sides[asked].Custom():
			return "nothing, for " + p.Sides[asked].Limiter + " is a custom limiter that only your program has", ""
		case o[asked].Err != nil:
			return withoutPackage(o[asked].Err), ""
		case !o[asked].Decision.Allowed:
			answer = "deny"
			if len(checks) > 1 {
				by = " by " + p.Name
			}
		}
	}
	return answer, by
}

// request reads a request's node, by the same rules as one on the command line. It
// returns nil after noting a problem.
func (s *suite) request(n *yaml.Node) *Request {
	if n.Kind != yaml.MappingNode {
		s.fail(n, "request: want a mapping, such as { method: GET }")
		return nil
	}

	r, err := requestOf(n)
	if err != nil {
		s.fail(n, "%s", withoutPackage(err))
		return nil
	}
	return r
}

// requestOf takes a node through JSON, the form that ParseRequest knows: a request has one reader, for files and for command lines.
func requestOf(n *yaml.Node) (*Request, error) {
	var v map[string]any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return ParseRequest(text)
}
