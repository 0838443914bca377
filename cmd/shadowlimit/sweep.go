package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
