package gate_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// What simulations say of the gate and of the triggers. testdata has the results of many runs, docs/gate.md shows them, and every
// test repeats the first runs and wants the same again. To make all of it again, in about half an hour:
//
//	go test ./internal/gate -run 'Simulat|Document' -runs 300 -update -timeout 0

var (
	runs   = flag.Int("runs", 1, "how many runs of each simulation to make")
	update = flag.Bool("update", false, "write the results to testdata and the tables to docs/gate.md")
	cells  = flag.String("cells", "", "make only the simulations whose names match")
)

const (
	resultsFile  = "testdata/statistics.json"
	documentFile = "../../docs/gate.md"
)

// never is the outcome of a run in which something does not happen, unasked that of one in which the question does not arise: it
// counts in no share.
const (
	never   = -1
	unasked = -2
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

// simulated is one simulation; run returns its outcome by each rule.
type simulated struct {
	name  string
	rules []string
	run   func(run int) []int
}

var (
	thresholds      = []float64{0.001, 0.02}
	percents        = []float64{1, 10}
	falseAlarmRates = []float64{0.2, 1}
	regressions     = []float64{2, 5, 20, 100}
	fewClients      = []int{10, 30, 100, 300}
)

// configured returns the gate's configuration for a threshold of what clients lose.
func configured(p0 float64) gate.Config {
	return gate.Config{Divergence: p0, NewlyDenied: p0}.WithDefaults()
}

// clientsOf is how many clients a canary has, unless it has few.
func clientsOf(percent float64) int { return int(1000 * percent) }

func canarySimulations() (list []simulated) {
	for _, p0 := range thresholds {
		for _, percent := range percents {
			list = append(list, simulatedCanaries(p0, percent)...)
		}
	}
	return list
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

func TestSimulatedCanaries(t *testing.T) { holdResults(t, resultsFile, canarySimulations(), 60) }

// everyFourth yields one simulation of four: make test has little time.
func everyFourth(list []simulated) iter.Seq[simulated] {
	return func(yield func(simulated) bool) {
		for i := 0; i < len(list); i += 4 {
			if !yield(list[i]) {
				return
			}
		}
	}
}

// holdResults says that the results in a file are those of the code as it is: the first runs come out the
// same. With -update it writes the file, of a least number of runs.
func holdResults(t *testing.T, file string, list []simulated, least int) {
	t.Helper()
	if *update && *runs < least {
		t.Fatalf("-update with %d runs: want -runs %d for tables that mean something", *runs, least)
	}

	if testing.Short() && !*update {
		list = slices.Collect(everyFourth(list))
	}
	some := regexp.MustCompile(*cells)
	got := simulateAll(slices.DeleteFunc(list, func(s simulated) bool { return !some.MatchString(s.name) }), *runs)
	if *update {
		results := map[string]outcomes{}
		if *cells != "" {
			results = readFile(t, file)
		}
		maps.Copy(results, got)
		writeResults(t, file, results)
	}
	want := readFile(t, file)
	if *cells == "" && !testing.Short() && len(got) != len(want) {
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

// slowest are the most seconds, in the median, in which all triggers find a
// regression to 20 times the threshold in a canary of 10 %, by its clients. 30 clients
// are few: without the 3 that it hits most half of the requests are left, and that is
// only now and then ten times a threshold of 0.1 %.
var slowest = map[float64]map[int]int{
	0.001: {30: 90, 100: 30, 10_000: 30},
	0.02:  {30: 30, 100: 30, 10_000: 30},
}

func TestSimulatedDelays(t *testing.T) {
	results := readFile(t, resultsFile)
	bounded := func(name string, most int) {
		t.Helper()
		if o := results[name]; !(o.Median > 0 && o.Median <= most) {
			t.Errorf("%s: found after %d s, want %d at most", name, o.Median, most)
		}
	}
	for p0, byClients := range slowest {
		for clients, most := range byClients {
			bounded(delays(p0, 10, 20, clients)+"/all", most)
		}
		bounded(delays(p0, 10, 20, clientsOf(10))+"/harmed", 30)
	}
}

// No sound candidate is rolled back on any of 60 days, and none that is at its
// threshold.
func TestSimulatedFalseAlarms(t *testing.T) {
	results := readFile(t, resultsFile)

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
