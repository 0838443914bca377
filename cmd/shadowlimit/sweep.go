package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

const sweepHint = "write NUMBER=A..B:STEP or NUMBER=VALUE,VALUE, where NUMBER is limit, burst or window, " +
	"such as burst=10..100:10 or window=30s,1m"

// axis is a number of the candidate, with the values to try.
type axis struct {
	name   string
	values []int64 // as in replay.Number
}

// parseSweep reads --sweep. The product of all is bounded, because each candidate is a replay.
func (o *replayOptions) parseSweep(c *cli.Context) error {
	product := 1
	var counts []string
	for _, text := range c.StringSlice("sweep") {
		a, err := parseAxis(text)
		if err == nil && slices.ContainsFunc(o.sweep, func(other axis) bool { return other.name == a.name }) {
			err = fmt.Errorf("%s is given twice", a.name)
		}
		if err != nil {
			return usagef(sweepHint, "--sweep %s: %v", text, err)
		}

		o.sweep = append(o.sweep, a)
		product *= len(a.values)
		counts = append(counts, fmt.Sprint(len(a.values)))
	}
	if product > replay.MostSwept {
		return usagef("take larger steps, or sweep one number after the other", "--sweep: %s candidates are %d, at most %d",
			strings.Join(counts, " x "), product, replay.MostSwept)
	}
	return nil
}

func parseAxis(text string) (a axis, err error) {
	name, list, found := strings.Cut(text, "=")
	if !found {
		return a, errors.New("no values: want NUMBER=VALUES, such as burst=10..100:10")
	}
	if !slices.Contains([]string{replay.NumberLimit, replay.NumberBurst, replay.NumberWindow}, name) {
		return a, fmt.Errorf("%q is not limit, burst or window", name)
	}

	a.name = name
	for _, part := range strings.Split(list, ",") {
		values, err := a.parse(part)
		if err != nil {
			return a, err
		}
		a.values = append(a.values, values...)
		if len(a.values) > replay.MostSwept {
			return a, fmt.Errorf("%d candidates, at most %d", len(a.values), replay.MostSwept)
		}
	}

	sorted := slices.Sorted(slices.Values(a.values))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return a, fmt.Errorf("%s is given twice", replay.Number{Name: name, Value: sorted[i]}.Text())
		}
	}
	return a, nil
}

// parse reads a value, or a range of them.
func (a *axis) parse(text string) ([]int64, error) {
	from, rest, isRange := strings.Cut(text, "..")
	if !isRange {
		v, err := a.value(text)
		return []int64{v}, err
	}
	to, by, stepped := strings.Cut(rest, ":")
	if !stepped {
		return nil, errors.New("a range needs a step")
	}

	var bounds [3]int64
	for i, part := range []string{from, to, by} {
		v, err := a.value(part)
		if err != nil {
			return nil, err
		}
		bounds[i] = v
	}
	first, last, step := bounds[0], bounds[1], bounds[2]
	switch {
	case step == 0:
		return nil, errors.New("the step must be above 0")
	case last < first:
		return nil, fmt.Errorf("%s is more than %s", from, to)
	}

	// The number is looked at before the values are made: a range may be of billions.
	if n := (last-first)/step + 1; n > replay.MostSwept {
		return nil, fmt.Errorf("%d candidates, at most %d", n, replay.MostSwept)
	}
	var values []int64
	for v := first; v <= last && v >= first; v += step {
		values = append(values, v)
	}
	return values, nil
}

// value reads one value. What the algorithm makes of it is asked later.
func (a *axis) value(text string) (int64, error) {
	if a.name != replay.NumberWindow {
		least := int64(0)
		if a.name == replay.NumberBurst {
			least = 1
		}
		return parseCount(a.name, text, least)
	}

	window, err := algorithms.ParseWindow(text)
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(err.Error(), "algorithms: "))
	}
	if window%time.Microsecond != 0 || window == 0 {
		return 0, fmt.Errorf("the window must be at least 1us")
	}
	return window.Microseconds(), nil
}

// swept are the candidates of a sweep: the product of all values, where the last number changes first.
func (o *replayOptions) swept() []replay.Numbers {
	list := []replay.Numbers{nil}
	for _, a := range o.sweep {
		var longer []replay.Numbers
		for _, numbers := range list {
			for _, v := range a.values {
				longer = append(longer, append(slices.Clone(numbers), replay.Number{Name: a.name, Value: v}))
			}
		}
		list = longer
	}
	return list
}

// checkPolicies refuses, before gigabytes of log are read, a policy that is not there, several of them where one is asked
// for, and candidates that their algorithm refuses.
func (o *replayOptions) checkPolicies(s subject) error {
	list, err := named(s.comparisons(), o.policy)
	if err != nil || o.sweep == nil && o.observed == nil {
		return err
	}

	// What a log says of a request is of all its limits together, and a sweep is of one candidate's numbers.
	if len(list) > 1 {
		flag, names := "--sweep", []string(nil)
		if o.sweep == nil {
			flag = "--observed"
		}
		for i := range list {
			names = append(names, list[i].name)
		}
		return usagef("name it by --policy: "+strings.Join(names, ", "),
			"%s is for one policy, and the file has %d with a candidate", flag, len(list))
	}
	if o.sweep == nil {
		return nil
	}

	c := &list[0]
	algorithm := c.sides[algorithms.Candidate].Algorithm
	for _, numbers := range o.swept() {
		if c.limit == nil {
			break
		}
		if err := algorithm.Validate(numbers.Of(*c.limit)); err != nil {
			return usagef(sweepHint, "--sweep: %s", strings.TrimPrefix(err.Error(), "algorithms: "))
		}
	}
	return nil
}

// sweepOf judges the candidates of a comparison.
func (r *replayer) sweepOf(ctx context.Context, c *comparison, cfg replay.Config) (*replay.SweepReport, error) {
	candidates := r.swept()
	texts := make([]string, len(candidates))
	for i, numbers := range candidates {
		texts[i] = c.texts[algorithms.Candidate] + " with " + numbers.String()
		if c.limit != nil {
			texts[i] = c.sides[algorithms.Candidate].Algorithm.Name() + ":" + numbers.Of(*c.limit).String()
		}
	}

	cfg.Progress = func(judged, total int) {
		r.bar.show("sweeping policy "+c.name, int64(judged), int64(total))
	}
	return replay.Sweep(ctx, c.events, cfg, candidates, texts)
}
