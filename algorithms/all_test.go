package algorithms_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// The tests of this file fail for an algorithm of All that was forgotten somewhere; each message names the missing piece.

func TestEveryAlgorithmTellsItsTraits(t *testing.T) {
	names := map[string]bool{}
	for _, a := range algorithms.All {
		name := a.Name()
		if names[name] {
			t.Errorf("two algorithms of All are named %q: give one another name", name)
		}
		names[name] = true

		traits := algorithms.TraitsOf(a)
		if traits.Shape == algorithms.UnknownShape {
			t.Errorf("%s has no method traits, or no Shape in what it returns: say how it forgets, by a new Shape if none fits", name)
		}
		if want := burstRuleOf(a); traits.Burst != want {
			t.Errorf("%s tells burst rule %d in its Traits, but its Validate follows rule %d: make them agree",
				name, traits.Burst, want)
		}
	}
}

// burstRuleOf returns what the algorithm's Validate makes of a burst.
func burstRuleOf(a algorithms.Algorithm) algorithms.BurstRule {
	without := a.Validate(algorithms.Limit{Requests: 2, Window: time.Second}) == nil
	with := a.Validate(algorithms.Limit{Requests: 2, Window: time.Second, Burst: 2}) == nil
	switch {
	case without && with:
		return algorithms.BurstOptional
	case with:
		return algorithms.BurstRequired
	}
	return algorithms.BurstRefused
}

func TestEveryAlgorithmHasTermsForItsScript(t *testing.T) {
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}
		terms, ok, err := algorithms.TermsOf(a, limit)
		if !ok {
			t.Errorf("%s has no method terms: without it Redis cannot judge the algorithm", a.Name())
			continue
		}
		if err != nil || terms[3] != limit.Window.Microseconds() {
			t.Errorf("%s: the fourth term of %s is %d (%v): pair.lua tells by it whether a clock was set back, so it must be the window "+
				"in microseconds", a.Name(), limit, terms[3], err)
		}
	}
}

// Responses, scripts, warnings and causes ask the limit for a key's capacity, and not the
// algorithm: no algorithm may have a capacity of its own.
func TestEveryAlgorithmHasTheCapacityOfItsLimit(t *testing.T) {
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}

		// A capacity that changes in the course of a window, or from one window to the next, is one of its own, too.
		half, last := time.Minute.Microseconds()/2, time.Minute.Microseconds()-1
		for i, at := range []int64{0, 0, half, half, last, last, last + 1, last + 1, 2*last + 2, 2*last + 2} {
			cost := limit.Capacity() + int64(i%2)
			_, d, err := a.Step(algorithms.State{}, &limit, cost, at)
			if want := cost <= limit.Capacity(); err != nil || d.Allowed != want || d.Capacity != limit.Capacity() {
				t.Errorf("%s with %s: cost %d on an unused key, %d us after the epoch: allowed %t, limit %d, error %v; "+
					"an unused key must admit Limit.Capacity(), which is %d, and no more",
					a.Name(), limit, cost, at, d.Allowed, d.Capacity, err, limit.Capacity())
			}
		}
	}
}

// A comparison is trusted again from Forgotten on, so no key may still be in use then,
// whatever was charged before, and however often it was looked at since.
func TestEveryAlgorithmHasForgottenByThen(t *testing.T) {
	for _, a := range algorithms.All {
		shape := algorithms.TraitsOf(a).Shape
		t.Run(a.Name(), rapid.MakeCheck(func(t *rapid.T) {
			p := keyPrograms.Draw(t, "program")
			charged := p.begin
			for i, answer := range p.answers(a) {
				if c := p.checks[i]; c.cost > 0 {
					charged = c.at
				}

				unused, forgotten := p.checks[i].at+answer.inUse.Microseconds(), algorithms.Forgotten(shape, p.limitOf(a), charged)
				if answer.inUse > 0 && unused > forgotten {
					t.Fatalf("a key with %s that was last charged at %d us is in use until %d us, but Forgotten (traits.go) says %d: "+
						"give its shape, %s, a case there, or the algorithm another shape (TestEveryAlgorithmOfAShapeDecidesAlike tells)",
						p.limitOf(a), charged, unused, forgotten, shape)
				}
			}
		}))
	}
}

// An instant that is too late disturbs evidence for longer than needed, and no law finds it.
func TestEveryAlgorithmRemembersUntilForgotten(t *testing.T) {
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}

		// A key without anything left is in use for longest. At instants such as 0 and a half, wrong answers may be right.
		window := limit.Window.Microseconds()
		for _, at := range []int64{0, window / 2, window * 5 / 7} {
			_, d, err := a.Step(algorithms.State{}, &limit, limit.Capacity(), at)
			shape := algorithms.TraitsOf(a).Shape
			unused, forgotten := at+d.ResetAfter.Microseconds(), algorithms.Forgotten(shape, limit, at)
			if err != nil || unused != forgotten {
				t.Errorf("%s: a key with %s that spends all at %d us is in use until %d us (%v), but Forgotten (traits.go) says %d: "+
					"give its shape, %s, a case there, or the algorithm another shape (TestEveryAlgorithmOfAShapeDecidesAlike tells)",
					a.Name(), limit, at, unused, err, forgotten, shape)
			}
		}
	}
}

// Messages and documents promise that disturbed time ends a window or two after its cause.
func TestEveryAlgorithmForgetsWithinTwoWindows(t *testing.T) {
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = limit.Requests // a larger one may take longer, which the runbook says
		}

		shape, window := algorithms.TraitsOf(a).Shape, limit.Window.Microseconds()
		for at := range 4 {
			instant := int64(at) * window / 4
			if lasts := algorithms.Forgotten(shape, limit, instant) - instant; lasts > 2*window {
				t.Errorf("%s remembers a check for %d us, more than two windows: correct the bounds "+
					"that take this for granted (grep Forgotten)", a.Name(), lasts)
			}
		}
	}
}

// Two limiters of one shape and one limit count as the same limiter when a cause is
// looked for, and where one begins as a copy of the other. So they must allow
// the same checks, and forget them at the same instants.
func TestEveryAlgorithmOfAShapeDecidesAlike(t *testing.T) {
	pairsOfAlgorithms(func(a, b algorithms.Algorithm) {
		if algorithms.TraitsOf(a).Shape != algorithms.TraitsOf(b).Shape {
			return
		}
		t.Run(a.Name()+" and "+b.Name(), rapid.MakeCheck(func(t *rapid.T) {
			p := keyPrograms.Draw(t, "program")
			if first, second := p.answers(a), p.answers(b); !slices.Equal(first, second) {
				t.Fatalf("%s and %s have one Shape, %s, but with %s they answer %v and %v: give one of them a new Shape",
					a.Name(), b.Name(), algorithms.TraitsOf(a).Shape, p.limitOf(a), first, second)
			}
		}))
	})
}

// The programs of the test above tell any two shapes apart: an algorithm that is given the
// wrong one is found.
func TestProgramsTellShapesApart(t *testing.T) {
	pairsOfAlgorithms(func(a, b algorithms.Algorithm) {
		if algorithms.TraitsOf(a).Shape == algorithms.TraitsOf(b).Shape {
			return
		}
		for seed := range 100 {
			if p := keyPrograms.Example(seed); !slices.Equal(p.answers(a), p.answers(b)) {
				return
			}
		}
		t.Errorf("no program tells %s and %s apart", a.Name(), b.Name())
	})
}

func pairsOfAlgorithms(do func(a, b algorithms.Algorithm)) {
	for i, a := range algorithms.All {
		for _, b := range algorithms.All[:i] {
			do(a, b)
		}
	}
}

// keyProgram is a history of one key: checks, some of which only look, at instants that do
// not go back.
type keyProgram struct {
	limit  algorithms.Limit // with a burst
	begin  int64            // us
	checks []struct{ at, cost int64 }
}

// keyPrograms are histories of up to some windows.
var keyPrograms = rapid.Custom(func(t *rapid.T) *keyProgram {
	window := rapid.Int64Range(1, 60).Draw(t, "window") * time.Second.Microseconds()
	p := &keyProgram{
		limit: algorithms.Limit{
			Requests: rapid.Int64Range(0, 20).Draw(t, "requests"), Window: time.Duration(window) * time.Microsecond,
			Burst: rapid.Int64Range(1, 20).Draw(t, "burst"),
		},
		begin: rapid.Int64Range(-2*window, 2*window).Draw(t, "begin"),
	}

	at := p.begin
	for range rapid.IntRange(2, 8).Draw(t, "charges") {
		at += rapid.Int64Range(0, window).Draw(t, "later")
		p.checks = append(p.checks, struct{ at, cost int64 }{at, rapid.Int64Range(0, 6).Draw(t, "cost")})
	}
	return p
})

// limitOf is the program's limit as an algorithm takes it.
func (p *keyProgram) limitOf(a algorithms.Algorithm) algorithms.Limit {
	l := p.limit
	if burstRuleOf(a) == algorithms.BurstRefused {
		l.Burst = 0
	}
	return l
}

// keyAnswer is what all algorithms of one shape say alike to a check. They may differ in Remaining,
// Delay and RetryAfter.
type keyAnswer struct {
	allowed bool
	inUse   time.Duration // how long the key is in use from the check on
}

func (p *keyProgram) answers(a algorithms.Algorithm) (list []keyAnswer) {
	var s algorithms.State
	limit := p.limitOf(a)
	for _, c := range p.checks {
		next, d, err := a.Step(s, &limit, c.cost, c.at)
		if err != nil {
			panic(err)
		}
		s, list = next, append(list, keyAnswer{d.Allowed, d.ResetAfter})
	}
	return list
}

func TestEveryAlgorithmHasARuleInTheOracle(t *testing.T) {
	for _, a := range algorithms.All {
		if problem := panicOf(func() { limitertest.NewOracle(a.Name()) }); problem != "" {
			t.Errorf("%s has no definition in the oracle: %s", a.Name(), problem)
		}
	}
}

// panicOf returns what f panics with, as text.
func panicOf(f func()) (problem string) {
	defer func() {
		if p := recover(); p != nil {
			problem = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

// Redis takes a state of Used 0 for a key never used, so what a step stores beside it would be lost there.
func TestEveryStateWithoutUseIsTheZeroState(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), rapid.MakeCheck(func(t *rapid.T) {
			p := keyPrograms.Draw(t, "program")
			limit := p.limitOf(a)
			var s algorithms.State
			for _, c := range p.checks {
				next, _, err := a.Step(s, &limit, c.cost, c.at)
				if err != nil {
					t.Fatal(err)
				}
				if s = next; s.Used == 0 && s != (algorithms.State{}) {
					t.Fatalf("%s with %s: cost %d at %d us leaves %+v, whose Used is 0: leave the zero State", a.Name(), limit, c.cost, c.at, s)
				}
			}
		}))
	}
}
