package algorithms_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

// The tests of this file fail for an algorithm of All that was forgotten somewhere;
// each message names the missing piece. Other packages hold their own tables likewise:
// docs/new-algorithm.md has the list.

func TestEveryAlgorithmTellsItsTraits(t *testing.T) {
	names := map[string]bool{}
	for _, a := range algorithms.All {
		name := a.Name()
		if names[name] {
			t.Errorf("two algorithms of All are named %q: give one another name", name)
		}
		names[name] = true

		if _, ok := a.(algorithms.Described); !ok {
			t.Errorf("%s has no method Traits: say how it forgets, and what it makes of a burst", name)
			continue
		}

		traits := algorithms.TraitsOf(a)
		if traits.Shape == algorithms.UnknownShape {
			t.Errorf("%s has no Shape in its Traits: say how it forgets, by a new Shape if none fits", name)
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
		termed, ok := a.(algorithms.Termed)
		if !ok {
			t.Errorf("%s has no method Terms: without it Redis cannot judge the algorithm", a.Name())
			continue
		}

		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}
		if terms, err := termed.Terms(limit); err != nil || terms[0] != limit.Capacity() {
			t.Errorf("%s: the first term of %s is %d (%v): pair.lua tells by it whether a side is as if unused, so it must be the "+
				"capacity", a.Name(), limit, terms[0], err)
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

		// A capacity that changes in the course of a window is one of its own, too.
		half, last := time.Minute.Microseconds()/2, time.Minute.Microseconds()-1
		for i, at := range []int64{0, 0, half, half, last, last} {
			cost := limit.Capacity() + int64(i%2)
			_, d, err := a.Step(algorithms.State{}, limit, cost, at)
			if want := cost <= limit.Capacity(); err != nil || d.Allowed != want || d.Limit != limit.Capacity() {
				t.Errorf("%s with %s: cost %d on an unused key: allowed %t, limit %d, error %v; "+
					"an unused key must admit Limit.Capacity(), which is %d, and no more",
					a.Name(), limit, cost, d.Allowed, d.Limit, err, limit.Capacity())
			}
		}
	}
}

// A comparison is trusted again from Forgotten on, so no key may still be in use then.
func TestEveryAlgorithmHasForgottenByThen(t *testing.T) {
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}

		for _, at := range []int64{0, 1, time.Minute.Microseconds() - 1, time.Minute.Microseconds(), 100*time.Minute.Microseconds() + 7} {
			_, d, err := a.Step(algorithms.State{}, limit, limit.Capacity(), at)
			forgotten := algorithms.Forgotten(algorithms.TraitsOf(a).Shape, limit, at)
			if unused := at + d.ResetAfter.Microseconds(); err != nil || unused > forgotten {
				t.Errorf("%s: a key that spends all at %d us is in use until %d us, but Forgotten (number.go) says %d: "+
					"give its shape a case there", a.Name(), at, unused, forgotten)
			}
		}
	}
}

// Two limiters of one shape and one limit count as the same limiter when a cause is
// looked for, so they must forget at the same instants.
func TestEveryAlgorithmOfAShapeForgetsAtTheSameInstants(t *testing.T) {
	type rest struct {
		name  string
		after [4]time.Duration
	}
	rests := map[algorithms.Shape]rest{}

	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}

		seen := rest{name: a.Name()}
		for i, at := range []time.Duration{0, 17 * time.Second, 45 * time.Second, 100 * time.Second} {
			_, d, err := a.Step(algorithms.State{}, limit, 3, at.Microseconds())
			if err != nil {
				t.Fatalf("%s: %v", a.Name(), err)
			}
			seen.after[i] = d.ResetAfter
		}

		shape := algorithms.TraitsOf(a).Shape
		if first, ok := rests[shape]; ok && first.after != seen.after {
			t.Errorf("%s and %s have one Shape, but their keys rest after %v and %v: give one of them a new Shape",
				first.name, seen.name, first.after, seen.after)
		}
		rests[shape] = seen
	}
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

func TestEveryAlgorithmIsDocumented(t *testing.T) {
	limiters := section(t, "../README.md", "### Limiters")
	burst := section(t, "../docs/glossary.md", "### burst")

	for _, a := range algorithms.All {
		if row := "\n| `" + a.Name() + "` |"; !strings.Contains(limiters, row) {
			t.Errorf("README.md: the table of limiters has no row %q: add one that says the rule", row)
		}

		// The rule is asked of Validate, for Traits may be wrong or missing.
		takesBurst := burstRuleOf(a) != algorithms.BurstRefused
		if named := strings.Contains(burst, "`"+a.Name()+"`"); named != takesBurst {
			t.Errorf("docs/glossary.md: the entry of burst names %s: %t, but the algorithm takes a burst: %t: make them agree",
				a.Name(), named, takesBurst)
		}
	}
}

// Help, completion and errors list the algorithms in the order of All: a document with
// another order would be a second list to keep.
func TestDocumentsHaveTheOrderOfAll(t *testing.T) {
	var all, takeBurst []string
	for _, a := range algorithms.All {
		all = append(all, a.Name())
		if burstRuleOf(a) != algorithms.BurstRefused {
			takeBurst = append(takeBurst, a.Name())
		}
	}

	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	inRows := names(rows, section(t, "../README.md", "### Limiters"))
	if !slices.Equal(inRows, all) {
		t.Errorf("README.md: the table of limiters has the rows\n  %v\nwant those of algorithms.All, in its order\n  %v", inRows, all)
	}

	// The entry names one of them again further down, so the list ends with the parenthesis.
	list, _, _ := strings.Cut(section(t, "../docs/glossary.md", "### burst"), ")")
	inList := names(regexp.MustCompile("`([a-z_]+)`"), list)
	if !slices.Equal(inList, takeBurst) {
		t.Errorf("docs/glossary.md: the entry of burst lists\n  %v\nwant those that take a burst, in the order of algorithms.All\n  %v",
			inList, takeBurst)
	}
}

// names returns what the pattern's group finds in a text.
func names(pattern *regexp.Regexp, text string) (list []string) {
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	return list
}

// section returns a document's text from a heading to the next one.
func section(t *testing.T, document, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, document), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", document, heading)
	}
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
