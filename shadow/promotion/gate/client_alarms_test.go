package gate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// clientStage is a stage by the share of the keys for which the candidate is enforced, in percent.
type clientStage struct {
	name    string
	percent float64
}

var clientStages = []clientStage{{"shadow", 0}, {"canary 1 %", 1}, {"canary 10 %", 10}, {"promoted", 100}}

// harmRules are the rules as docs/policies.md declares them. Protect is asked twice: for keys that keep to their limit, and for those
// that do not.
var harmRules = []string{"client_harm", "protect", "protect, beyond"}

const (
	ofClients = iota
	ofProtected
	ofBeyond
)

var harmConfig = gate.Config{Harms: gate.Harms{ClientHarm: harmRule, Protect: 0.05}}.WithDefaults()

// judge is what asks a rule in a stage, of a day's clients or of the protected ones.
type judge struct {
	day   *clientDay
	stage clientStage
	rule  int
	hours []divergence.Hour // that are over
	first int               // the minute of the first alarm, or in shadow of a strike or an obstacle
}

// firstHarms returns the minutes of a day in which the rules first speak, by stage and rule.
func (d *clientDay) firstHarms() (first []int) {
	for look := int64(-looksAnHour); look < 0; look++ {
		d.pass(look)
	}
	var judges []*judge
	for _, s := range clientStages {
		for rule := range harmRules {
			j := &judge{day: d, stage: s, rule: rule, first: never}
			j.hours = append(j.hours, j.hour(-1))
			judges = append(judges, j)
		}
	}

	// Without a loss the share of harmed clients can rise by the change of the hour only.
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

// mayHarm reports whether anything can come of a look: three clients have lost their share, or a protected key 20 requests. The tests
// of the rules say that less is no alarm, and a day is made many times faster.
func (j *judge) mayHarm(now int64) bool {
	harmed := 0
	for _, c := range j.day.clients {
		if !j.of(c) || c.position >= j.stage.percent {
			continue
		}
		a, b := c.hours[algorithms.Candidate].of(now), c.hours[algorithms.Candidate].of(now-1)
		if j.rule != ofClients && a.Lost+b.Lost >= divergence.LeastLost {
			return true
		}
		if j.rule == ofClients && (a.Misses(harmRule.Losing) || b.Misses(harmRule.Losing)) {
			harmed++
		}
	}
	return harmed >= 3
}

// of reports whether the rule is about a client.
func (j *judge) of(c *dayClient) bool {
	switch j.rule {
	case ofProtected:
		return c.protected
	case ofBeyond:
		return c.beyond
	}
	return true
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

	ask := gate.ProtectedHarmOf
	if j.rule == ofClients {
		ask = gate.ClientHarmOf
	}
	strike, alarm := ask(harmConfig, &e)
	return alarm || strike && j.stage.percent == 0
}

// hour returns the clients of an hour. Before the day the stage is shadow for all.
func (j *judge) hour(n int64) divergence.Hour {
	h := divergence.Hour{Unix: monday.Unix()/divergence.SecondsPerHour + n}
	list := &h.Protected.List
	if j.rule == ofClients {
		list = &h.Clients.List
	}

	for _, c := range j.day.clients {
		role := algorithms.Authoritative
		if c.position < j.stage.percent && n >= 0 {
			role = algorithms.Candidate
		}
		if count := c.hours[role].of(n); j.of(c) && count.Requests > 0 {
			one := divergence.Client{Hash: c.Hash}
			one.Counts[role] = count
			*list = append(*list, one)
		}
	}
	return h
}

// lately returns what protected keys have done in the last minutes.
func (j *judge) lately() (keys divergence.Clients) {
	for _, c := range j.day.clients {
		if j.rule == ofClients || !j.of(c) || c.position >= j.stage.percent {
			continue
		}
		one := divergence.Client{Hash: c.Hash}
		for _, n := range c.lately {
			one.Counts[algorithms.Candidate].Add(n)
		}
		keys.List = append(keys.List, one)
	}
	return keys
}

// What client_harm and protect say of sound candidates. testdata/clients.json has the results of many days, and docs/statistics.md
// shows them. To make all of it again, in some minutes:
//
//	go test ./shadow/promotion/gate -run Clients -runs 200 -update -timeout 0

const clientsFile = "testdata/clients.json"

func clientName(o occasion, p soundPair) string { return fmt.Sprintf("%s/%s", o, p.name) }

// clientSimulations have a rule for each stage and rule of a policy.
func clientSimulations() (list []simulated) {
	var rules []string
	for _, s := range clientStages {
		for _, rule := range harmRules {
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

func TestClientsOfSoundCandidates(t *testing.T) {
	holdResults(t, clientsFile, clientSimulations(), 200)
}

// No sound candidate is rolled back on any of 200 days, and none has a strike. A counter denies some bursts that a log allows:
// on one day two clients, of under 400 that had been active by then, did lose a tenth of an hour, which keeps from a step.
func TestClientsOfSoundCandidatesRaiseNoAlarm(t *testing.T) {
	results := readFile(t, clientsFile)
	for _, s := range clientSimulations() {
		for _, rule := range s.rules {
			name := s.name + "/" + rule
			most := 0
			if rule == "shadow/client_harm" {
				most = 1
			}
			if o := results[name]; !strings.HasSuffix(rule, "beyond") && (o.Reached > most || o.Runs < 200) {
				t.Errorf("%s: on %d of %d days, want at most %d of 200", name, o.Reached, o.Runs, most)
			}
		}
	}
}

// TestClientsDocument holds the table of the document against the results.
func TestClientsDocument(t *testing.T) {
	text, err := os.ReadFile(statisticsFile)
	if err != nil {
		t.Fatal(err)
	}

	document := replaceTable(t, string(text), "clients of sound candidates", harmTable(readFile(t, clientsFile)))
	if *update {
		if err := os.WriteFile(statisticsFile, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if document != string(text) {
		t.Errorf("a table of %s differs from %s: go test ./shadow/promotion/gate -run Clients -runs 200 -update", statisticsFile, clientsFile)
	}
}

// harmTable has a row for each rule and stage, and a column for each occasion, with a number for each pair if they differ.
func harmTable(results map[string]outcomes) string {
	var b table
	head := []string{"rule", "stage"}
	for _, o := range occasions {
		head = append(head, string(o))
	}
	b.row(head...)

	for _, rule := range harmRules {
		for _, s := range clientStages {
			cells := []string{rule, s.name}
			for _, o := range occasions {
				var days []string
				for _, p := range soundPairs {
					days = append(days, fmt.Sprint(results[clientName(o, p)+"/"+s.name+"/"+rule].Reached))
				}
				cells = append(cells, strings.Join(days, " / "))
			}
			b.row(cells...)
		}
	}
	return b.String()
}
