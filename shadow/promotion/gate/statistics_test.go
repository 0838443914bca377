package gate_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// What simulations say of the gate and of the trigger. testdata/statistics.json has
// the results of many runs, docs/statistics.md shows them, and every test repeats
// the first runs and wants the same again. To make all of it again:
//
//	go test ./shadow/promotion/gate -run Statistics -runs 200 -update

var (
	runs   = flag.Int("runs", 1, "how many runs of each simulation to make")
	update = flag.Bool("update", false, "write testdata/statistics.json and docs/statistics.md")
	cells  = flag.String("cells", "", "make only the simulations whose names match")
)

const (
	resultsFile    = "testdata/statistics.json"
	statisticsFile = "../../../docs/statistics.md"
)

// repeated are the most runs whose outcomes are kept one by one.
const repeated = 5

// outcomes sum up what came of the runs of one simulation by one rule: after how
// many minutes or seconds something happened, -1 if it did not.
type outcomes struct {
	Runs    int   `json:"runs"`
	Reached int   `json:"reached"`
	Median  int   `json:"median"`
	P95     int   `json:"p95"`
	First   []int `json:"first"`
}

func sumUp(values []int) outcomes {
	first := values[:min(len(values), repeated)]
	sorted := slices.DeleteFunc(slices.Clone(values), func(v int) bool { return v == unasked })
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Compare(uint(a), uint(b)) }) // never is last
	n, reached := len(sorted), 0
	for _, v := range sorted {
		if v != never {
			reached++
		}
	}
	if n == 0 {
		return outcomes{0, 0, never, never, first}
	}
	return outcomes{n, reached, sorted[(n-1)/2], sorted[(95*n+99)/100-1], first}
}

// share is how many runs reached it, in percent.
func (o outcomes) share() float64 { return 100 * float64(o.Reached) / float64(o.Runs) }

// atMost is the share, in percent, that a true share of percent exceeds in one of 700 tries:
// by three standard errors.
func (o outcomes) atMost(percent float64) float64 {
	p := percent / 100
	return 100 * (p + 3*math.Sqrt(p*(1-p)/float64(o.Runs)))
}

// simulated is one simulation; run returns its outcome by each rule.
type simulated struct {
	name  string
	rules []string
	run   func(run int) []int
}

var (
	thresholds      = []float64{0.001, 0.02}
	falseRates      = []float64{1, 1.5, 2}
	soundRates      = []float64{0.2, 0.05}
	gateRules       = []string{"evidence", "evidence72", "trailing", "quiet"}
	percents        = []float64{1, 10}
	falseAlarmRates = []float64{0.2, 1}
	regressions     = []float64{2, 5, 20, 100}
	fewClients      = []int{10, 30, 100, 300}
)

// clientsOf is how many clients a canary has, unless it has few.
func clientsOf(percent float64) int { return int(1000 * percent) }

func simulations() (list []simulated) {
	for _, p0 := range thresholds {
		for _, times := range slices.Concat(falseRates, soundRates) {
			for _, s := range scenarios {
				list = append(list,
					candidate{s, p0, times, false}.simulated(),
					candidate{s, p0, times, true}.simulated())
			}
		}

		for _, percent := range percents {
			list = append(list, simulatedCanaries(p0, percent)...)
		}
	}
	return list
}

func (c candidate) simulated() simulated {
	return simulated{c.name(), gateRules, func(run int) []int {
		m := c.simulate(run)
		return []int{
			byEvidence(m, configured(c.p0, 48*time.Hour)), byEvidence(m, configured(c.p0, 72*time.Hour)),
			byTrailingRatio(m, c.p0), byQuietBuckets(m, c.p0),
		}
	}}
}

func falseAlarms(p0, percent, times float64, t trouble) string {
	return fmt.Sprintf("false/%g/%g/%g/%s", p0, percent, times, t)
}

func delays(p0, percent, times float64, clients int) string {
	return fmt.Sprintf("delay/%g/%g/%g/%d", p0, percent, times, clients)
}

func simulatedCanaries(p0, percent float64) (list []simulated) {
	add := func(name string, run func(name string, run int) alarms) {
		list = append(list, simulated{name, fastRules, func(n int) []int {
			first := run(name, n)
			return first[:]
		}})
	}

	for _, times := range falseAlarmRates {
		for _, trouble := range troubles {
			c := canary{p0, percent, clientsOf(percent), trouble}
			add(falseAlarms(p0, percent, times, trouble), func(name string, run int) alarms {
				return c.falseAlarms(times, name, run)
			})
		}
	}

	for _, times := range regressions {
		for _, clients := range append(slices.Clone(fewClients), clientsOf(percent)) {
			c := canary{p0, percent, clients, iid}
			add(delays(p0, percent, times, clients), func(name string, run int) alarms {
				return c.delays(times, name, run)
			})
		}
	}
	return list
}

// simulateAll makes a number of runs of every simulation.
func simulateAll(list []simulated, runs int) map[string]outcomes {
	results := map[string]outcomes{}
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan simulated)

	for range 4 {
		workers.Go(func() {
			for s := range next {
				byRule := make([][]int, len(s.rules))
				for run := range runs {
					for i, v := range s.run(run) {
						byRule[i] = append(byRule[i], v)
					}
				}

				mu.Lock()
				for i, rule := range s.rules {
					results[s.name+"/"+rule] = sumUp(byRule[i])
				}
				mu.Unlock()
			}
		})
	}

	for _, s := range list {
		next <- s
	}
	close(next)
	workers.Wait()
	return results
}

func readResults(t *testing.T) map[string]outcomes {
	t.Helper()
	return readFile(t, resultsFile)
}

func readFile(t *testing.T, file string) (results map[string]outcomes) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	return results
}

func writeResults(t *testing.T, file string, results map[string]outcomes) {
	t.Helper()
	text := []byte("{\n")
	for i, name := range slices.Sorted(maps.Keys(results)) {
		line, err := json.Marshal(results[name])
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = fmt.Appendf(text, "%q: %s", name, line)
	}

	if err := os.WriteFile(file, append(text, "\n}\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStatistics(t *testing.T) { holdResults(t, resultsFile, simulations(), 60) }

// holdResults says that the results in a file are those of the code as it is: the first runs come out the
// same. With -update it writes the file, of a least number of runs.
func holdResults(t *testing.T, file string, list []simulated, least int) {
	t.Helper()
	if *update && *runs < least {
		t.Fatalf("-update with %d runs: want -runs %d for tables that mean something", *runs, least)
	}

	some := regexp.MustCompile(*cells)
	got := simulateAll(slices.DeleteFunc(list, func(s simulated) bool { return !some.MatchString(s.name) }), *runs)
	if *update {
		results := readFile(t, file)
		maps.Copy(results, got)
		writeResults(t, file, results)
	}
	want := readFile(t, file)
	if *cells == "" && len(got) != len(want) {
		t.Errorf("%d results, want %d", len(want), len(got))
	}

	n := min(*runs, repeated)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		g, w := got[name], want[name]
		if g.Runs == w.Runs && g.Reached != w.Reached || len(w.First) < n || !slices.Equal(g.First[:n], w.First[:n]) {
			t.Errorf("%s: %d of %d, first %v, in the file %d of %d, first %v",
				name, g.Reached, g.Runs, g.First[:n], w.Reached, w.Runs, w.First)
		}
	}
}

// TestStatisticsDocument holds the tables of the document against the results.
func TestStatisticsDocument(t *testing.T) {
	text, err := os.ReadFile(statisticsFile)
	if err != nil {
		t.Fatal(err)
	}

	results, document := readResults(t), string(text)
	for name, table := range map[string]string{
		"false promotions at 0.1 %": falseTable(results, 0.001),
		"false promotions at 2 %":   falseTable(results, 0.02),
		"power at 0.1 %":            powerTable(results, 0.001),
		"power at 2 %":              powerTable(results, 0.02),
		"false alarms":              alarmTable(results),
		"delays":                    delayTable(results),
		"few clients":               clientTable(results),
	} {
		document = replaceTable(t, document, name, table)
	}

	if *update {
		if err := os.WriteFile(statisticsFile, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if document != string(text) {
		t.Errorf("the tables of %s differ from %s: go test ./shadow/promotion/gate -run Statistics -runs 200 -update",
			statisticsFile, resultsFile)
	}
}

// The numbers of the triggers that the document names are those of the code.
func TestStatisticsDocumentNamesTheTriggers(t *testing.T) {
	text, err := os.ReadFile(statisticsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range gate.TriggersInWords() {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", statisticsFile, want)
		}
	}
}

// mostPromoted are bounds in percent, by the true rate over the threshold: the promise of the
// score where differences come evenly, and for bursts the result of an earlier simulation of
// the same rule.
var mostPromoted = map[float64]map[string]float64{
	1:   {"iid": 1, "peak": 1, "batch": 1, "burst10": 1, "burst60": 7, "rare30": 13},
	1.5: {"burst60": 2, "rare30": 7},
	2:   {"burst60": 0.5, "rare30": 4},
}

func TestStatisticsHoldOfFalsePromotions(t *testing.T) {
	results := readResults(t)

	for _, p0 := range thresholds {
		for times, most := range mostPromoted {
			for _, s := range scenarios {
				for _, lonely := range []bool{false, true} {
					name := candidate{s, p0, times, lonely}.name() + "/evidence"
					if o := results[name]; !(o.share() <= o.atMost(most[s.name])) {
						t.Errorf("%s: %.1f %% promoted, want at most %.1f", name, o.share(), o.atMost(most[s.name]))
					}
				}
			}
		}
	}
}

// A candidate at a fifth of the threshold passes within three days, and in every traffic within
// a fortnight, nightly batches included.
func TestStatisticsHoldOfPower(t *testing.T) {
	results := readResults(t)
	for _, p0 := range thresholds {
		name := candidate{scenarios[0], p0, 0.2, false}.name() + "/evidence"
		if o := results[name]; !(o.P95 > 0 && o.P95 <= 72*hour) {
			t.Errorf("%s: %.1f %% promoted, 95 %% of all after %d minutes, want within 72 h", name, o.share(), o.P95)
		}
		for _, s := range scenarios {
			name := candidate{s, p0, 0.2, false}.name() + "/evidence72"
			if o := results[name]; o.share() < 95 {
				t.Errorf("%s: %.1f %% promoted, want at least 95", name, o.share())
			}
		}
	}
}

// No sound candidate is rolled back on any of 60 days, and none that is at its
// threshold.
func TestStatisticsHoldOfFalseAlarms(t *testing.T) {
	results := readResults(t)

	for _, p0 := range thresholds {
		for _, percent := range percents {
			for _, times := range falseAlarmRates {
				for _, trouble := range troubles {
					for _, rule := range fastRules {
						name := falseAlarms(p0, percent, times, trouble) + "/" + rule
						if o := results[name]; o.Reached > 0 || o.Runs < 60 {
							t.Errorf("%s: an alarm on %d of %d days, want none on 60", name, o.Reached, o.Runs)
						}
					}
				}
			}
		}
	}
}
