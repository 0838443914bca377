package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// protectStage is a stage by the share of the keys for which the candidate is enforced, in percent.
type protectStage struct {
	name    string
	percent float64
}

var protectStages = []protectStage{{"shadow", 0}, {"canary 1 %", 1}, {"canary 10 %", 10}, {"promoted", 100}}

// protectRules ask twice: for keys that keep to their limit, and for those that do not.
var protectRules = []string{"protect", "protect, beyond"}

// judge is what asks a rule in a stage.
type judge struct {
	day   *clientDay
	stage protectStage
	rule  string
	hours []evidence.Hour // that are over
	first int             // the minute of the first alarm, or in shadow of an hour that keeps steps back
}

// firstHarms returns the minutes of a day in which the rules first speak, by stage and rule.
func (d *clientDay) firstHarms() (first []int) {
	for look := int64(-looksAnHour); look < 0; look++ {
		d.pass(look)
	}
	var judges []*judge
	for _, s := range protectStages {
		for _, rule := range protectRules {
			j := &judge{day: d, stage: s, rule: rule, first: never}
			j.hours = append(j.hours, j.hour(-1))
			judges = append(judges, j)
		}
	}

	// Without a loss the share that a key loses can rise by the change of the hour only.
	for look := range int64(looksAMinute * day) {
		lost := d.pass(look)
		for _, j := range judges {
			j.look(look, lost || hourOf(look) > hourOf(look-1))
		}
	}
	for _, j := range judges {
		first = append(first, j.first)
	}
	return first
}

// look asks the rule: of an enforced candidate at each look, in shadow at the end of each hour.
func (j *judge) look(look int64, changed bool) {
	over := hourOf(look+1) > hourOf(look)
	asks := over
	if j.stage.percent > 0 {
		asks = changed && j.mayHarm(hourOf(look))
	}

	if asks && j.first == never && j.harms(look) {
		j.first = int(look / looksAMinute)
	}
	if over {
		j.hours = append(j.hours, j.hour(hourOf(look)))
	}
}

// mayHarm reports whether anything can come of a look: a protected key has lost 20 requests. The tests of the rule say that less
// is no alarm, and a day is made many times faster.
func (j *judge) mayHarm(now int64) bool {
	for _, c := range j.day.clients {
		if !j.of(c) || c.position >= j.stage.percent {
			continue
		}
		a, b := c.hours[algorithms.Candidate].of(now), c.hours[algorithms.Candidate].of(now-1)
		if a[evidence.NewlyDenied]+b[evidence.NewlyDenied] >= 20 {
			return true
		}
	}
	return false
}

// of reports whether the rule is about a client.
func (j *judge) of(c *dayClient) bool {
	if j.rule == "protect" {
		return c.protected
	}
	return c.beyond
}

// harms asks the rule.
func (j *judge) harms(look int64) bool {
	e := gate.Evidence{Since: monday.Add(-time.Hour), Now: monday.Add(time.Duration(look+1) * time.Minute / looksAMinute), Live: 1}
	hours := j.hours
	if j.stage.percent > 0 {
		hours = hours[max(0, len(hours)-2):] // an alarm looks at two, and at the one before for clients beyond their limit
		e.Exposure = gate.Exposure{Since: monday, AllKeys: j.stage.percent == 100}
		e.Lately = j.lately()
	}
	e.History.Hours = append(slices.Clone(hours), j.hour(hourOf(look)))

	cfg := protecting
	cfg.Protect = nil
	for _, c := range j.day.clients {
		if j.of(c) {
			cfg.Protect = append(cfg.Protect, c.name)
		}
	}
	kept, alarm := gate.ProtectedHarmOf(cfg, &e)
	return alarm || kept && j.stage.percent == 0
}

// hour returns the keys of an hour. Before the day the stage is shadow for all.
func (j *judge) hour(n int64) evidence.Hour {
	h := evidence.Hour{Unix: monday.Unix()/evidence.SecondsPerHour + n}
	for _, c := range j.day.clients {
		role := algorithms.Authoritative
		if c.position < j.stage.percent && n >= 0 {
			role = algorithms.Candidate
		}
		if count := c.hours[role].of(n); j.of(c) && count != none {
			one := evidence.ProtectedKey{Key: c.name}
			one.Counts[role] = count
			h.Protected = append(h.Protected, one)
		}
	}
	return h
}

// lately returns what protected keys have done in the last minutes.
func (j *judge) lately() (keys evidence.ProtectedKeys) {
	for _, c := range j.day.clients {
		if !j.of(c) || c.position >= j.stage.percent {
			continue
		}
		one := evidence.ProtectedKey{Key: c.name}
		for _, n := range c.lately {
			one.Counts[algorithms.Candidate].Add(n)
		}
		keys = append(keys, one)
	}
	return keys
}

// What is said of the protected keys of sound candidates. testdata/protect.json has the results of many days.
// To make all of it again, in some minutes:
//
//	go test ./internal/gate -run Protect -runs 200 -update -timeout 0

const protectFile = "testdata/protect.json"

func clientName(o occasion, p soundPair) string { return fmt.Sprintf("%s/%s", o, p.name) }

// clientSimulations have a rule for each stage and rule of a policy.
func clientSimulations() (list []simulated) {
	var rules []string
	for _, s := range protectStages {
		for _, rule := range protectRules {
			rules = append(rules, s.name+"/"+rule)
		}
	}

	for _, o := range occasions {
		for _, p := range soundPairs {
			name := clientName(o, p)
			list = append(list, simulated{name, rules, func(run int) []int {
				return newClientDay(o, p, seeded(name, run)).firstHarms()
			}})
		}
	}
	return list
}

func TestProtectedKeysOfSoundCandidates(t *testing.T) {
	holdResults(t, protectFile, clientSimulations(), 200)
}

// No sound candidate is rolled back on any of 200 days, and none is kept back.
func TestProtectedKeysOfSoundCandidatesRaiseNoAlarm(t *testing.T) {
	results := readFile(t, protectFile)
	for _, s := range clientSimulations() {
		for _, rule := range s.rules {
			name := s.name + "/" + rule
			if o := results[name]; !strings.HasSuffix(rule, "beyond") && (o.Reached > 0 || o.Runs < 200) {
				t.Errorf("%s: on %d of %d days, want none of 200", name, o.Reached, o.Runs)
			}
		}
	}
}
