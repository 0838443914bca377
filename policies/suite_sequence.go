package policies

import (
	"context"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// step is one line of a sequence: the same request, once or several times. All of them
// must have the wanted answers, so the request at which an answer changes is another step.
type step struct {
	node, request *yaml.Node
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
func (s *suite) ask(name string, st step, pair algorithms.Pair) {
	r := s.request(st.request)
	if r == nil {
		return
	}

	// The time of a step replaces one that its request names: request.time and the clock of
	// the limiters agree in a service, too.
	r.Time = suiteStart.Add(st.at)
	before := s.errors()
	for i := range st.repeat {
		charges := s.charges(st.request, name, r)
		if s.errors() > before {
			return
		}
		for c := range charges {
			charges[c].At = r.Time
		}

		// An error of the pair is one of the whole step; a side's own is in its observation.
		observed := make([][2]algorithms.Observation, len(charges))
		if err := pair.Evaluate(context.Background(), charges, observed); err != nil {
			s.fail(st.node, "%s: %v", name, err)
			return
		}

		// A step that says nothing of a side accepts any answer of it.
		for role, want := range st.want {
			if want == "" {
				continue
			}
			if got, by := s.answerOf(charges, observed, algorithms.Role(role)); got != want {
				s.fail(st.node, "%s: request %d of the step: the %s says %s%s, want %s",
					name, i+1, algorithms.Role(role), got, by, want)
				return
			}
		}
	}
}

// answerOf returns the answer of one side's limiters to a request together, and which of several policies denies. Where a
// policy has no candidate, its one limiter answers for both sides.
func (s *suite) answerOf(
	charges []algorithms.Charge, observed [][2]algorithms.Observation, role algorithms.Role,
) (answer, by string) {
	answer = "allow"
	for i, o := range observed {
		p := s.policyNamed(charges[i].Policy)
		asked := role
		if p.Sides[role] == nil {
			asked = algorithms.Authoritative
		}

		// One denial denies the request, and one side without an answer leaves it open.
		switch {
		case p.Sides[asked].Foreign():
			return "nothing, for " + p.Sides[asked].Limiter + " is a foreign limiter that only your program has", ""
		case o[asked].Err != nil:
			return withoutPackage(o[asked].Err), ""
		case !o[asked].Decision.Allowed:
			answer = "deny"
			if len(charges) > 1 {
				by = " by " + p.Name
			}
		}
	}
	return answer, by
}
