package gate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// What the gate says in all kinds of traffic, and of small services.

const (
	trafficFile = "testdata/traffic.json"
	longFile    = "testdata/long.json"
)

// steps are those of a migration, with what each needs.
var steps = []gate.Step{{Name: "canary 10 %", Percent: 10}, {Name: "canary 50 %", Percent: 50}, {Name: "promoted", Percent: 100}}

var (
	trafficRates = []float64{0.2, 0.5, 1, 2, 5}
	// The rules of a migration: the first minute of a pass for each step; of a fail; of the regression score's alarm for a
	// candidate that is exposed from the beginning.
	trafficRules = []string{"to10", "to50", "to100", "fail", "alarm"}
	// The rules after a candidate became worse: minutes until there is no pass any more, and until the alarm.
	worseRules = []string{"lost", "alarm"}
)

const halfAYear = 180 * 24 // hours

func trafficName(m model, length int, times float64) string {
	return fmt.Sprintf("%d/%g/%s", length/24, times, m.name)
}

func worseName(m model, times float64) string { return fmt.Sprintf("to %g/%s", times, m.name) }

func trafficSimulations() (list []simulated) {
	cfg := configured(0.02)
	for _, m := range models {
		for _, times := range trafficRates {
			list = append(list, simulated{trafficName(m, fortnight, times), trafficRules, func(run int) []int {
				return firsts(gate.Trace(cfg, m.draw(run, fortnight, times*0.02), steps))
			}})
		}
		for _, times := range []float64{2, 5} {
			list = append(list, simulated{worseName(m, times), worseRules, func(run int) []int { return m.worsens(run, times) }})
		}
	}
	for _, s := range services {
		list = append(list, simulated{s.name, []string{"canary", "promoted"}, s.passes})
	}
	return list
}

// longSimulations take half a year each.
func longSimulations() (list []simulated) {
	for _, m := range models {
		list = append(list, simulated{trafficName(m, halfAYear, 1), trafficRules, func(run int) []int {
			return firsts(gate.Trace(configured(0.02), m.draw(run, halfAYear, 0.02), steps))
		}})
	}
	return list
}

// firsts returns the minute of the first hour in which each of the rules is met.
func firsts(marks []gate.Mark) []int {
	first := []int{never, never, never, never, never}
	for i, m := range marks {
		for rule, met := range []bool{m.Passes >= 1, m.Passes >= 2, m.Passes >= 3, m.Fails, m.Risen} {
			if met && first[rule] == never {
				first[rule] = (i + 1) * hour
			}
		}
	}
	return first
}

// worsens returns what comes of a candidate that is at a fifth of its threshold for 14 days, and then at
// another rate for 14 days. Where it does not pass at the end of the first, or has had an alarm, nothing is asked.
func (m model) worsens(run int, times float64) []int {
	e := joined(m.draw(run, fortnight, 0.2*0.02), m.draw(run, fortnight, times*0.02))
	marks := gate.Trace(configured(0.02), e, steps)
	before, after := marks[:fortnight], marks[fortnight:]

	lost, alarm := never, never
	for i, mark := range after {
		if mark.Passes < 2 && lost == never {
			lost = (i + 1) * hour
		}
		if mark.Risen && alarm == never {
			alarm = (i + 1) * hour
		}
	}
	if before[fortnight-1].Passes < 2 {
		lost = unasked
	}
	if firsts(before)[4] != never {
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
	e.History.Live = []evidence.Span{{From: e.History.Live[0].From, To: e.Now.Unix() / 60}}
	return e
}

// service is a small one whose candidate never differs: requests a minute, the share that is denied, of how many clients, and whether it
// has no instance from 22:00 to 06:00.
type service struct {
	name           string
	aMinute, share float64
	clients        int
	sleeps         bool
}

var services = []service{
	{"1 request/min, 1 % denied, 200 clients", 1, 0.01, 200, false},
	{"1 request/min, 1 % denied, 20 clients", 1, 0.01, 20, false},
	{"1 request/min, 10 % denied, 20 clients", 1, 0.1, 20, false},
	{"10 requests/min, 0.1 % denied, 200 clients", 10, 0.001, 200, false},
	{"10 requests/min, 1 % denied, 20 clients", 10, 0.01, 20, false},
	{"100 requests/min, 1 % denied, 200 clients", 100, 0.01, 200, false},
	{"10 requests/min, 10 % denied, 20 clients, asleep at night", 10, 0.1, 20, true},
}

// passes returns the minutes to a canary of 1 % and to all keys, within 31 days.
func (s service) passes(run int) []int {
	rng := seeded(s.name, run)
	first := mondayMinute + rng.Int64N(7*day)/hour*hour
	const length = 31 * day
	e := evidenceOf(first, length)
	e.History.Live = nil
	known := make([]bool, s.clients)
	zipf := rand.NewZipf(rng, 1.6, 1, uint64(s.clients-1))
	e.Denied = []int64{}
	for at := first; at < first+length; at++ {
		clock := at % day
		if s.sleeps && (clock < 6*hour || clock >= 22*hour) {
			continue
		}
		if n := len(e.History.Live); n > 0 && e.History.Live[n-1].To == at {
			e.History.Live[n-1].To++
		} else {
			e.History.Live = append(e.History.Live, evidence.Span{From: at, To: at + 1})
		}
		m := evidence.Minute{Unix: at}
		for range poisson(rng, s.aMinute*sine(int(clock/hour))) {
			if rng.Float64() >= s.share {
				m.Tally[evidence.AgreeAllow]++
				continue
			}
			m.Tally[evidence.AgreeDeny]++
			if client := zipf.Uint64(); !known[client] {
				known[client] = true
				e.Denied = append(e.Denied, at)
			}
		}
		if m.Tally.Comparisons() > 0 {
			e.History.Minutes = append(e.History.Minutes, m)
		}
	}

	out := []int{never, never}
	all := slices.Insert(slices.Clone(steps), 0, gate.Step{Name: "canary 1 %", Percent: 1})
	taken := gate.Walk(configured(0.02), e, all, time.Hour)
	for i, at := range map[int]int{0: 0, 1: len(all) - 1} {
		if len(taken) > at {
			out[i] = int(taken[at].Unix()/60 - first)
		}
	}
	return out
}

// The results are those of the code as it is. A run without -runs repeats one run of each.
func TestSimulatedTraffic(t *testing.T) { holdResults(t, trafficFile, trafficSimulations(), 100) }

func TestSimulatedHalfYears(t *testing.T) {
	if testing.Short() {
		t.Skip("half a year each")
	}
	holdResults(t, longFile, longSimulations(), 30)
}

// promised are the most that may be promoted at the threshold to all keys and to the first step, and the least at a fifth to all keys,
// in percent of the recorded runs.
func (m model) promised() (all, first, fifth float64) {
	all, first, fifth = 5, 100, 95
	switch {
	case m.name == "rare bursts, 1 in 2 days":
		all = 20
	case m.rare:
		all = 100
	case m.name == "rare bursts, 2 a day":
		all, first = 20, 20
	case strings.HasPrefix(m.name, "clusters") || m.name == "retry storms":
		all, first = 10, 10
	}
	switch {
	case m.rare:
		fifth = 85
	case m.name == "clusters by load":
		// Nights and weekends of an office weigh next to nothing, so the last score of 1,000,000 takes longer than the fortnight.
		fifth = 90
	}
	return all, first, fifth
}

func TestSimulatedTrafficHolds(t *testing.T) {
	results := readFile(t, trafficFile)
	for _, m := range models {
		all, first, fifth := m.promised()
		at := func(times float64, rule string) outcomes { return results[trafficName(m, fortnight, times)+"/"+rule] }
		if o := at(1, "to100"); !(o.Runs >= 100 && o.share() <= all) {
			t.Errorf("%s at the threshold: %.1f %% of %d promoted to all keys, want at most %g", m.name, o.share(), o.Runs, all)
		}
		if o := at(1, "to10"); !(o.share() <= first) {
			t.Errorf("%s at the threshold: %.1f %% promoted to the first step, want at most %g", m.name, o.share(), first)
		}
		if o := at(0.2, "to100"); !(o.share() >= fifth) {
			t.Errorf("%s at a fifth: %.1f %% promoted to all keys, want at least %g", m.name, o.share(), fifth)
		}
		if o := at(0.2, "fail"); !(o.share() <= 10) {
			t.Errorf("%s at a fifth: %.1f %% fail, want at most 10", m.name, o.share())
		}
	}
	for name, days := range map[string]int{services[0].name: 3, services[len(services)-1].name: 4} {
		if o := results[name+"/canary"]; o.Median == never || o.Median > days*day {
			t.Errorf("%s: a canary after %d h in the median, want %d days", name, o.Median/hour, days)
		}
	}
}

// A candidate at its threshold that stays in shadow for half a year is seldom promoted to all keys.
func TestSimulatedHalfYearsHold(t *testing.T) {
	results := readFile(t, longFile)
	for _, m := range models {
		if o := results[trafficName(m, halfAYear, 1)+"/to100"]; !m.rare && !(o.Runs >= 30 && o.share() <= 10) {
			t.Errorf("%s at the threshold: %.1f %% of %d promoted to all keys within 180 days, want at most 10", m.name, o.share(), o.Runs)
		}
	}
}

// An exposed regression is found within hours in the median.
func TestSimulatedRegressions(t *testing.T) {
	results := readFile(t, trafficFile)
	for _, name := range []string{"even", "clusters", "bursts of 1 h"} {
		for times, most := range map[float64]int{2: 130, 5: 36} {
			if o := results[worseName(model{name: name}, times)+"/alarm"]; o.Median == never || o.Median > most*hour {
				t.Errorf("%s, to %g x: the alarm comes after %d h, want %d", name, times, o.Median/hour, most)
			}
		}
	}
}

// Asking every minute passes nothing that asking every hour does not: scores change when a block ends.
func TestAskingOftenChangesNothing(t *testing.T) {
	cfg := configured(0.02)
	for _, m := range []model{models[0], models[8], models[11]} {
		e := m.draw(1, 80, 0.2*0.02)
		hourly := gate.Walk(cfg, e, steps[:1], 0)
		if len(hourly) == 0 {
			t.Fatalf("%s: never passes", m.name)
		}
		until := hourly[0]
		for at := until.Add(-time.Hour); at.Before(until); at = at.Add(time.Minute) {
			e.Step, e.Now = steps[0], at
			if g := gate.Assess(cfg, e); g.Verdict == gate.Pass {
				t.Errorf("%s: passes at %s, asked by the hour at %s", m.name, at, until)
				break
			}
		}
	}
}

// TestDocument holds the tables of the document against the results.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	traffic, alarms := readFile(t, trafficFile), readFile(t, resultsFile)
	document := string(text)
	for name, table := range map[string]string{
		"simulated traffic": promotedTable(traffic, readFile(t, longFile)),
		"simulated delays":  delayTable(alarms),
	} {
		document = replaceTable(t, document, name, table)
	}
	if *update {
		if err := os.WriteFile(documentFile, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if document != string(text) {
		t.Errorf("the tables of %s are not those of the results: run this test with -update", documentFile)
	}
}

// replaceTable puts a table after the comment that names it, in place of the lines
// of the one that is there.
func replaceTable(t *testing.T, document, name, table string) string {
	t.Helper()
	mark := "<!-- " + name + " -->\n"
	before, after, found := strings.Cut(document, mark)
	if !found {
		t.Fatalf("%s has no place for the table %q", documentFile, name)
	}
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	return before + mark + table + after
}

// table writes rows in Markdown, the first one as the head.
type table struct{ strings.Builder }

func (b *table) row(cells ...string) {
	head := b.Len() == 0
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	if head {
		b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
	}
}

// shownModels are those of the document: the others are like one of them.
var shownModels = []string{
	"even", "office hours", "batch, 1 h", "a flash crowd x8 a day", "clusters", "clusters by load", "retry storms", "rare bursts, 1 in 2 days",
	"weekend", "rising",
}

// promotedTable has the percentage promoted to 10 %, 50 % and all of the keys, by the true rate, and what comes of a candidate that
// becomes worse.
func promotedTable(results, long map[string]outcomes) string {
	var b table
	b.row("traffic", "0.2 x", "hours", "0.5 x", "1 x", "1 x, 180 days", "2 x", "worse")
	for _, m := range models {
		if !slices.Contains(shownModels, m.name) {
			continue
		}
		three := func(results map[string]outcomes, length int, times float64) string {
			name := trafficName(m, length, times)
			return fmt.Sprintf("%.3g/%.3g/%.3g", results[name+"/to10"].share(), results[name+"/to50"].share(), results[name+"/to100"].share())
		}
		fifth, worse := trafficName(m, fortnight, 0.2), worseName(m, 5)
		b.row(m.name, three(results, fortnight, 0.2), results[fifth+"/to10"].hours()+"/"+results[fifth+"/to100"].hours(),
			three(results, fortnight, 0.5), three(results, fortnight, 1), three(long, halfAYear, 1), three(results, fortnight, 2),
			results[worse+"/lost"].hours()+"/"+results[worse+"/alarm"].hours())
	}
	return b.String()
}

// hours words the median.
func (o outcomes) hours() string {
	if o.Median == never {
		return "-"
	}
	return fmt.Sprint(o.Median / hour)
}

// delay words the median and the 95th percentile in seconds.
func (o outcomes) delay() string {
	seconds := func(v int) string {
		if v == never {
			return "-"
		}
		return fmt.Sprintf("%d", v)
	}
	return seconds(o.Median) + "/" + seconds(o.P95)
}

func delayTable(results map[string]outcomes) string {
	var b table
	head := []string{"threshold, canary"}
	for _, times := range regressions {
		head = append(head, fmt.Sprintf("%g x", times))
	}
	b.row(head...)
	for _, p0 := range thresholds {
		for _, percent := range percents {
			cells := []string{fmt.Sprintf("%g%%, %g%%", 100*p0, percent)}
			for _, times := range regressions {
				cells = append(cells, results[delays(p0, percent, times, clientsOf(percent))+"/all"].delay())
			}
			b.row(cells...)
		}
	}
	return b.String()
}
