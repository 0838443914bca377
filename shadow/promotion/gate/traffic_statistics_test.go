package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// What the gate says in all kinds of traffic. testdata/traffic.json has the results of many runs, and
// docs/statistics.md shows them. To make all of it again, in an hour or two:
//
//	go test ./shadow/promotion/gate -run Traffic -runs 1000 -update -timeout 0

const trafficFile = "testdata/traffic.json"

// source is a kind of traffic, with a rate in times the threshold.
type source struct {
	name string
	draw func(run int, p0, times float64) gate.Evidence
}

// sources are the six scenarios and the other models. A run begins at the same instant whatever its rate.
func sources() (list []source) {
	for _, s := range scenarios {
		list = append(list, source{s.name, func(run int, p0, times float64) gate.Evidence {
			return candidate{s, p0, times, false}.draw(seeded(s.name, run)).byHour()
		}})
	}
	for _, m := range models {
		list = append(list, source{m.name, func(run int, p0, times float64) gate.Evidence {
			return m.draw(seeded(m.name, run), times*p0)
		}})
	}
	return list
}

// byHour returns the evidence of the whole migration in records of an hour: blocks are as long.
func (m *migration) byHour() gate.Evidence {
	e := evidenceOf(m.since, len(m.minutes))
	for from := 0; from < len(m.minutes); from += hour {
		record := m.minutes[from]
		for i := from + 1; i < from+hour; i++ {
			record.Join(&m.minutes[i])
		}
		e.History.Minutes = append(e.History.Minutes, record)
	}
	return e
}

// graded are the steps that need 48 h, 72 h, and a week with all weekdays.
var graded = []gate.Step{{Percent: 10}, {Percent: 50}, {Percent: 100}}

var (
	trafficRates = []float64{0.2, 0.5, 1, 1.5, 2, 5}
	// The rules of a fortnight: the first minute of a pass for each step; of a fail by the mirror, and
	// by strikes; of the mirror's alarm for a candidate that is exposed from the beginning.
	trafficRules = []string{"to10", "to50", "to100", "fail", "strikes", "alarm"}
	stepRates    = []float64{2, 5}
	// The rules after a step of the rate: minutes until there is no pass any more for the step to half of the
	// keys, and until the mirror's alarm.
	stepRules = []string{"lost", "alarm"}
)

// gradedFor returns the configuration for a threshold, with a soak by the step.
func gradedFor(p0 float64) gate.Config {
	cfg := configured(p0, 48*time.Hour)
	cfg.Graded = true
	return cfg
}

func trafficName(s source, p0, times float64) string {
	return fmt.Sprintf("%g/%g/%s", p0, times, s.name)
}

func stepName(s source, p0, times float64) string {
	return fmt.Sprintf("%g/to %g/%s", p0, times, s.name)
}

func trafficSimulations() (list []simulated) {
	for _, p0 := range []float64{0.02, 0.001} {
		for _, s := range sources() {
			for _, times := range trafficRates {
				list = append(list, simulated{trafficName(s, p0, times), trafficRules, func(run int) []int {
					return firsts(gate.Trace(gradedFor(p0), s.draw(run, p0, times), graded))
				}})
			}
			for _, times := range stepRates {
				list = append(list, simulated{stepName(s, p0, times), stepRules, func(run int) []int {
					return s.worsens(run, p0, times)
				}})
			}
		}
	}
	return list
}

// firsts returns the minute of the first hour in which each of the rules is met.
func firsts(marks []gate.Mark) []int {
	first := []int{never, never, never, never, never, never}
	for i, m := range marks {
		for rule, met := range []bool{m.Passes >= 1, m.Passes >= 2, m.Passes >= 3, m.Proven || m.Risen, m.Struck, m.Risen} {
			if met && first[rule] == never {
				first[rule] = (i + 1) * hour
			}
		}
	}
	return first
}

// worsens returns what comes of a candidate that is at a fifth of its threshold for 14 days, and then at
// another rate for 14 days. Where it does not pass at the end of the first, or has had an alarm, nothing is asked.
func (s source) worsens(run int, p0, times float64) []int {
	e := joined(s.draw(run, p0, 0.2), s.draw(run, p0, times))
	marks := gate.Trace(gradedFor(p0), e, graded)
	before, after := marks[:simulatedHours], marks[simulatedHours:]

	lost, alarm := never, never
	for i, m := range after {
		if m.Passes < 2 && lost == never {
			lost = (i + 1) * hour
		}
		if m.Risen && alarm == never {
			alarm = (i + 1) * hour
		}
	}
	if before[simulatedHours-1].Passes < 2 {
		lost = unasked
	}
	if firsts(before)[5] != never {
		alarm = unasked
	}
	return []int{lost, alarm}
}

// joined puts later evidence behind earlier one, as if it had come then.
func joined(e, later gate.Evidence) gate.Evidence {
	end := e.Now.Unix() / 60
	ahead := end - later.Since.Unix()/60
	for _, m := range later.History.Minutes {
		m.Unix += ahead
		e.History.Minutes = append(e.History.Minutes, m)
	}
	e.Now = e.Now.Add(later.Now.Sub(later.Since))
	e.History.Live = []divergence.Span{{From: e.History.Live[0].From, To: e.Now.Unix() / 60}}
	return e
}

// The results are those of the code as it is. A test without -runs repeats those at 2 % only.
func TestTraffic(t *testing.T) {
	if *runs == 1 && *cells == "" {
		*cells = "^0.02/"
		t.Cleanup(func() { *cells = "" })
	}
	holdResults(t, trafficFile, trafficSimulations(), 300)
}

// bound is what a table must hold, in percent or hours, for the models that it does not name otherwise.
type bound struct {
	rule   string
	times  float64
	most   float64
	others map[string]float64
}

// trafficBounds are the most that may be promoted, called a failure or alarmed, in percent. Where 100 stands, the table only
// reports: harm that comes after the verdict, or once a week.
var trafficBounds = []bound{
	{"to50", 1, 1, map[string]float64{
		"by load": 5, "sessions": 3, "burst60": 5, "rare30": 10, "clusters": 17, "clusters by load": 17, "clusters of 2 h": 23,
		"one a day": 100, "weekend": 100, "weekly batch": 100, "rising": 100,
	}},
	{"to10", 1, 1, map[string]float64{
		"by load": 5, "sessions": 3, "burst60": 7, "rare30": 13, "clusters": 17, "clusters by load": 17, "clusters of 2 h": 28,
		"one a day": 100, "weekend": 100, "weekly batch": 100, "rising": 100,
	}},
	{"to50", 2, 1, map[string]float64{"one a day": 7, "weekend": 100}},
	{"to100", 1.5, 1, map[string]float64{"rising": 100}},
	{"fail", 0.2, 0.5, nil},
	{"strikes", 0.2, 14, map[string]float64{"batch": 0}},
	{"alarm", 0.2, 1, nil},
	{"alarm", 0.5, 6, map[string]float64{"weekend": 100}},
}

// trafficPower are the least that must be promoted, in percent.
var trafficPower = []bound{
	{"to50", 0.2, 95, nil},
	{"to100", 0.2, 82, nil},
	{"to50", 0.5, 90, map[string]float64{
		"clusters of 2 h": 85, "rare30": 0, "one a day": 0, "batch": 0, "nightly hour": 0, "weekly batch": 0,
	}},
}

func (b bound) of(model string) float64 {
	if v, ok := b.others[model]; ok {
		return v
	}
	return b.most
}

func TestTrafficHolds(t *testing.T) {
	results := readFile(t, trafficFile)
	for _, p0 := range thresholds {
		for _, s := range sources() {
			for _, b := range trafficBounds {
				o := results[trafficName(s, p0, b.times)+"/"+b.rule]
				if o.Runs < 300 || o.share() > o.atMost(b.of(s.name)) {
					t.Errorf("%s at %g x: %s in %.1f %% of %d runs, want at most %g", s.name, b.times, b.rule, o.share(), o.Runs, b.of(s.name))
				}
			}
			for _, b := range trafficPower {
				o := results[trafficName(s, p0, b.times)+"/"+b.rule]
				if missed := 100 - o.share(); missed > o.atMost(100-b.of(s.name)) {
					t.Errorf("%s at %g x: %s in %.1f %%, want at least %g", s.name, b.times, b.rule, o.share(), b.of(s.name))
				}
			}
		}
	}
}

// An exposed regression is found within hours in the median, and a pass is over within hours in 19 of 20 runs.
func TestTrafficHoldsOfDelays(t *testing.T) {
	results := readFile(t, trafficFile)
	reported := map[string]bool{"evening peak": true, "nightly hour": true, "rising": true}

	for _, s := range sources() {
		for times, most := range map[float64]int{2: 130, 5: 36} {
			switch {
			case times == 5 && s.name == "weekend":
				most = 48
			case times == 2 && (s.name == "iid" || s.name == "burst10"):
				most = 35
			case times == 2 && s.name == "burst60":
				most = 50
			}
			o := results[trafficName(s, 0.02, times)+"/alarm"]
			if !reported[s.name] && (o.Median == never || o.Median > most*hour) {
				t.Errorf("%s at %g x: the alarm comes after %d h, want %d", s.name, times, o.Median/hour, most)
			}
		}
		for times, most := range map[string]map[float64]int{
			"iid": {2: 12, 5: 6}, "peak": {2: 26, 5: 26}, "batch": {2: 26, 5: 26}, "nightly hour": {2: 26, 5: 26}, "evening peak": {2: 26, 5: 26},
		}[s.name] {
			if o := results[stepName(s, 0.02, times)+"/lost"]; o.P95 == never || o.P95 > most*hour {
				t.Errorf("%s, to %g x: still pass after %d h, want none after %d", s.name, times, o.P95/hour, most)
			}
		}
	}
}
