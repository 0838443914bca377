package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// serviceSignal says by a field of each line how the service did, for limits that give way. A nil one is not asked.
type serviceSignal struct {
	field  string
	unit   time.Duration // of a number without one
	kind   adaptive.Signal
	course adaptive.Course

	values  int64
	failure error // of the first line that has no value
}

const signalHint = "such as request_time, or duration:ms; " +
	"latency_p99 wants a duration, error_rate a status, saturation a number from 0 to 1"

// signalUnits are the units of numbers, by the end of the field's name or behind a colon.
var signalUnits = []struct {
	name string
	unit time.Duration
}{{"ns", time.Nanosecond}, {"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}}

func (o *replayOptions) parseSignal(c *cli.Context) error {
	if !c.IsSet("signal-field") {
		return nil
	}

	s := &serviceSignal{field: c.String("signal-field"), unit: time.Second}
	for _, u := range signalUnits {
		name, named := strings.CutSuffix(s.field, ":"+u.name)
		if named || strings.HasSuffix(s.field, "_"+u.name) {
			s.field, s.unit = name, u.unit
			break
		}
	}
	if s.field == "" {
		return usagef(signalHint, "--signal-field: want a field of the log")
	}
	o.signal = s
	return nil
}

// aim says which signal the field is, which the adaptive sides decide.
func (s *serviceSignal) aim(list []comparison) error {
	if s == nil {
		return nil
	}

	kinds := map[adaptive.Signal]bool{}
	for _, c := range list {
		for _, rule := range c.adaptive {
			if rule != nil {
				kinds[rule.Signal], s.kind = true, rule.Signal
			}
		}
	}
	switch len(kinds) {
	case 0:
		return usagef("leave it out", "--signal-field %s has no effect: no side is adaptive", s.field)
	case 1:
		return nil
	}
	return usagef("replay one of them, by --policy", "--signal-field %s is one signal, and the adaptive sides have %d", s.field, len(kinds))
}

// note takes the value of a line. A line without one, as of a client that left, says nothing.
func (s *serviceSignal) note(e accesslog.Event) {
	if s == nil {
		return
	}
	err := fmt.Errorf("no field %q", s.field)
	if text, there := e.Field(s.field); there {
		err = s.take(time.UnixMicro(e.At), text)
	}
	if err == nil {
		s.values++
	} else if s.failure == nil {
		s.failure = err
	}
}

func (s *serviceSignal) take(at time.Time, text string) error {
	text = strings.TrimSpace(text)
	if s.kind == adaptive.LatencyP99 {
		return s.takeDuration(at, text)
	}

	number, err := strconv.ParseFloat(text, 64)
	isRate := s.kind == adaptive.ErrorRate
	switch {
	case err != nil:
		return fmt.Errorf("%s: %q is no number", s.field, text)
	case isRate && !(number >= 100 && number <= 999):
		return fmt.Errorf("%s: %q is no status", s.field, text)
	case isRate:
		s.course.Served(at, 0, number >= 500)
	case !(number >= 0 && number <= 1):
		return fmt.Errorf("%s: %q is no number from 0 to 1", s.field, text)
	default:
		s.course.Saturated(at, number)
	}
	return nil
}

// takeDuration reads a number, or a text with a unit such as 12ms.
func (s *serviceSignal) takeDuration(at time.Time, text string) error {
	d, err := time.ParseDuration(text)
	if number, failure := strconv.ParseFloat(text, 64); failure == nil {
		// Long durations are not told apart, and a number may be any.
		d, err = time.Duration(min(number*float64(s.unit), float64(time.Hour))), nil
		if !(number >= 0) {
			err = strconv.ErrRange
		}
	}

	if err != nil || d < 0 {
		return fmt.Errorf("%s: %q is no duration", s.field, text)
	}
	s.course.Served(at, d, false)
	return nil
}

// refuse is an error if no line of the log has a value: the flag would have no effect.
func (s *serviceSignal) refuse() error {
	if s == nil || s.values > 0 {
		return nil
	}
	return usagef(signalHint, "--signal-field %s: no line of the log has a value: %v", s.field, s.failure)
}

// levels returns the levels of a comparison's sides; nil for a side whose limit is always the whole.
func (s *serviceSignal) levels(c *comparison) (levels [2][]adaptive.Change) {
	if s == nil {
		return levels
	}
	for role, rule := range c.adaptive {
		if rule != nil {
			levels[role] = append([]adaptive.Change{}, s.course.Levels(rule)...) // not nil: its course is reported
		}
	}
	return levels
}
