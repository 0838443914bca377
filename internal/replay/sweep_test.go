package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

func numbersOf(limit, burst int64, window time.Duration) (ns replay.Numbers) {
	for name, v := range map[string]int64{
		replay.NumberLimit: limit, replay.NumberBurst: burst, replay.NumberWindow: window.Microseconds(),
	} {
		if v > 0 {
			ns = append(ns, replay.Number{Name: name, Value: v})
		}
	}
	slices.SortFunc(ns, func(a, b replay.Number) int { return strings.Compare(a.Name, b.Name) })
	return ns
}

// drawSweep draws two sides, whose limits may travel with the events, and traffic.
func drawSweep(t *rapid.T) (func(replay.Numbers) *replay.Events, replay.Config) {
	limitOf := func(name string, a algorithms.Algorithm) algorithms.Limit {
		l := algorithms.Limit{Requests: rapid.Int64Range(1, 6).Draw(t, name), Window: 10 * time.Second}
		if algorithms.TraitsOf(a).Burst != algorithms.BurstRefused {
			l.Burst = rapid.Int64Range(1, 6).Draw(t, name+"'s burst")
		}
		return l
	}
	from := rapid.SampledFrom(algorithms.All).Draw(t, "from")
	to := rapid.SampledFrom(algorithms.All).Draw(t, "to")
	cfg := replay.Config{Policy: "p", Sides: [2]algorithms.Side{
		{ID: "from", Algorithm: from, Limit: limitOf("limit", from)}, {ID: "to", Algorithm: to, Limit: limitOf("other", to)},
	}}
	if rapid.IntRange(0, 4).Draw(t, "a first limit") == 0 {
		cfg.Sides[0] = algorithms.Side{}
	}
	if rapid.Bool().Draw(t, "protected") {
		cfg.Gate.Protect = []string{"key 3"}
	}

	type check struct {
		at, cost int64
		key      string
		terms    replay.Terms
	}
	var checks []check
	withTerms := rapid.Bool().Draw(t, "terms")
	for range rapid.IntRange(1, 300).Draw(t, "charges") {
		c := check{
			at: 1e15 + rapid.Int64Range(0, 7200).Draw(t, "second")*1e6/4, cost: rapid.Int64Range(0, 3).Draw(t, "cost"),
			key: fmt.Sprint("key ", rapid.IntRange(0, 5).Draw(t, "key")),
		}

		// Limits of an expression may be refused, and then fail this request alone.
		if withTerms {
			c.terms.Limits = [2]algorithms.Limit{cfg.Sides[0].Limit, cfg.Sides[1].Limit}
			c.terms.Limits[1].Requests += rapid.Int64Range(-1, 2).Draw(t, "more")
			c.terms.Limits[1].Burst += rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(t, "more burst")
			c.terms.Expected.NewlyDenied = rapid.IntRange(0, 9).Draw(t, "expected") == 0
		}
		checks = append(checks, c)
	}

	return func(numbers replay.Numbers) *replay.Events {
		var events replay.Events
		for _, c := range checks {
			if !withTerms {
				events.Add(c.at, []byte(c.key), c.cost)
				continue
			}
			c.terms.Limits[1] = numbers.Of(c.terms.Limits[1])
			events.AddTerms(c.at, []byte(c.key), c.cost, c.terms)
		}
		return &events
	}, cfg
}

// Law: a sweep says of each candidate what a replay of that candidate alone says.
func TestSweepIsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, cfg := drawSweep(t)
		var candidates []replay.Numbers
		for range rapid.IntRange(1, 5).Draw(t, "candidates") {
			burst := rapid.Int64Range(1, 8).Draw(t, "swept burst")
			if cfg.Sides[1].Limit.Burst == 0 {
				burst = 0
			}
			window := time.Duration(rapid.IntRange(0, 3).Draw(t, "swept window")) * 5 * time.Second
			candidates = append(candidates, numbersOf(rapid.Int64Range(1, 8).Draw(t, "swept limit"), burst, window))
		}

		got, err := replay.Sweep(context.Background(), events(nil), cfg, candidates, make([]string, len(candidates)))
		if err != nil {
			t.Fatal(err)
		}
		for i, numbers := range candidates {
			alone := cfg
			alone.Pair = memory()
			alone.Sides[1].Limit = numbers.Of(cfg.Sides[1].Limit)
			report, err := replay.Run(context.Background(), events(numbers), alone)
			if err != nil {
				t.Fatal(err)
			}
			c, want := got.Candidates[i], report.Policies[0]
			if !reflect.DeepEqual(c.Summary, want.Summary) || !reflect.DeepEqual(c.Hurt, want.Hurt) || !reflect.DeepEqual(c.Gate, want.Gate) {
				t.Fatalf("%s:\n%+v\nbut alone\n%+v %+v %+v", numbers, c, want.Summary, want.Hurt, want.Gate)
			}
		}
		checkFrontier(t, got)
	})
}

// checkFrontier compares what is dominated, and the least candidate, with their definitions.
func checkFrontier(t *rapid.T, r *replay.SweepReport) {
	least := ""

	for _, c := range r.Candidates {
		dominated := slices.ContainsFunc(r.Candidates, func(o replay.Swept) bool {
			noWorse := o.NewlyDenied <= c.NewlyDenied && o.NewlyAllowed <= c.NewlyAllowed && o.CandidateError <= c.CandidateError
			return noWorse && o.NewlyDenied+o.NewlyAllowed < c.NewlyDenied+c.NewlyAllowed
		})
		if c.Dominated != dominated {
			t.Fatalf("%s: dominated %t, want %t", c.Numbers, c.Dominated, dominated)
		}

		v := c.Ratios.NewlyDenied
		if fits := (v == nil || *v < r.Threshold) && c.CandidateError == 0 && c.Comparisons > 0; fits && r.Least == nil {
			t.Fatalf("%s is below %g, but there is no least", c.Numbers, r.Threshold)
		} else if fits {
			least = "some"
			if c.Numbers[0].Value < r.Least.Numbers[0].Value {
				t.Fatalf("%s is less than %s", c.Numbers, r.Least.Numbers)
			}
		}
	}
	if r.Least != nil && least == "" {
		t.Fatalf("least %s, but none is below %g", r.Least.Numbers, r.Threshold)
	}
}

// trickle is a client that sends a burst of ten each minute.
func trickle() *replay.Events {
	var events replay.Events
	for minute := range int64(60) {
		for range 10 {
			events.Add(1_700_000_000_000_000+minute*60e6, []byte("client"), 1)
		}
	}
	return &events
}

func sweepOf(t *testing.T, values ...int64) *replay.SweepReport {
	t.Helper()
	limit := algorithms.Limit{Requests: 8, Window: time.Minute}
	var candidates []replay.Numbers
	for _, v := range values {
		candidates = append(candidates, replay.Numbers{{Name: replay.NumberLimit, Value: 30}, {Name: replay.NumberBurst, Value: v}})
	}
	cfg := replay.Config{Policy: "p", Sides: sides(algorithms.FixedWindow{}, algorithms.TokenBucket{}, limit)}
	report, err := replay.Sweep(context.Background(), trickle(), cfg, candidates, make([]string, len(candidates)))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The authoritative allows eight of each ten: a burst of eight decides alike.
func TestSweepNamesTheLeastBurst(t *testing.T) {
	r := sweepOf(t, 10, 9, 8, 7, 6)
	if r.Least == nil || r.Least.Number != "burst" || r.Least.Numbers.String() != "limit=30, burst=8" {
		t.Errorf("least %+v, want the burst of 8", r.Least)
	}
	var dominated []bool
	for _, c := range r.Candidates {
		dominated = append(dominated, c.Dominated)
	}
	if want := []bool{true, true, false, true, true}; !slices.Equal(dominated, want) {
		t.Errorf("dominated %v, want %v", dominated, want)
	}

	if r := sweepOf(t, 6, 7); r.Least != nil {
		t.Errorf("least %+v, want none: both newly deny an eighth at least", r.Least)
	}
}

func TestSweepJSON(t *testing.T) {
	numbers := replay.Numbers{{Name: "burst", Value: 8}, {Name: "limit", Value: 30}, {Name: "window", Value: 60e6}}
	text, err := json.Marshal(numbers)
	if err != nil || string(text) != `{"burst":8,"limit":30,"window":"1m"}` {
		t.Errorf("%s, %v", text, err)
	}
	var back replay.Numbers
	if err := json.Unmarshal(text, &back); err != nil || !slices.Equal(back, numbers) {
		t.Errorf("%v, %v, want %v", back, err, numbers)
	}
}

// The table of large numbers and of every verdict fits a terminal.
func TestSweepTextFits(t *testing.T) {
	report := &replay.Report{Policies: []replay.PolicyReport{{Name: "p", Sweep: &replay.SweepReport{
		Numbers: []string{"burst", "limit", "window"},
	}}}}
	third := 1.0 / 3000
	for i := range 100 {
		c := replay.Swept{Numbers: numbersOf(100_000, 100_000, 1500*time.Millisecond), Dominated: i >= 50}
		c.Ratios.NewlyDenied, c.Ratios.ExtraLoad = &third, &third
		c.KeysNewlyDenied, c.Gate.Verdict = 999_999, gate.Wait
		report.Policies[0].Sweep.Candidates = append(report.Policies[0].Sweep.Candidates, c)
	}

	var out bytes.Buffer
	if err := report.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, want := range []string{
		"100000 100000 1500ms  0.0333%        -  0.0333%  999,999  wait\n",
		"and 10 more: -o json has all", "and 30 more: -o json has all", "no candidate ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// An instant that no algorithm takes ends the sweep, and so does an interrupt.
func TestSweepEnds(t *testing.T) {
	limit := algorithms.Limit{Requests: 8, Window: time.Minute}
	cfg := replay.Config{Policy: "p", Sides: sides(algorithms.FixedWindow{}, algorithms.TokenBucket{}, limit)}
	refused := []replay.Numbers{{{Name: replay.NumberLimit, Value: -1}}}
	if _, err := replay.Sweep(context.Background(), trickle(), cfg, refused, []string{""}); !errors.Is(err, algorithms.ErrLimit) {
		t.Errorf("error %v, want that of the limit", err)
	}

	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := replay.Sweep(ended, trickle(), cfg, refused, []string{""}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
