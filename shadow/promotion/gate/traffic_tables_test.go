package gate_test

import (
	"fmt"
	"os"
	"testing"
)

// trafficTables are the tables of the document, by name.
func trafficTables(results map[string]outcomes) map[string]string {
	tables := map[string]string{}
	for name, p0 := range map[string]float64{"2 %": 0.02, "0.1 %": 0.001} {
		tables["promoted in other traffic at "+name] = promotedTable(results, p0)
		tables["exposed in other traffic at "+name] = exposedTable(results, p0)
		tables["worse after 14 days at "+name] = worseTable(results, p0)
	}
	return tables
}

func percentOf(o outcomes) string { return fmt.Sprintf("%.3g", o.share()) }

// promotedTable has the percentage promoted for the step to half of the keys, for that to a tenth in brackets, and
// for the step to all at two rates.
func promotedTable(results map[string]outcomes, p0 float64) string {
	var b table
	head := []string{"traffic"}
	rates := []float64{0.2, 0.5, 1, 1.5, 2}
	for _, times := range rates {
		head = append(head, fmt.Sprintf("%g x", times))
	}
	b.row(append(head, "to all, 0.2 x", "to all, 1 x")...)

	for _, s := range sources() {
		cells := []string{s.name}
		for _, times := range rates {
			name := trafficName(s, p0, times)
			cells = append(cells, fmt.Sprintf("%s [%s]", percentOf(results[name+"/to50"]), percentOf(results[name+"/to10"])))
		}
		for _, times := range []float64{0.2, 1} {
			cells = append(cells, percentOf(results[trafficName(s, p0, times)+"/to100"]))
		}
		b.row(cells...)
	}
	return b.String()
}

// exposedTable has what becomes of a candidate that is exposed: alarms in 14 days, and the hours until they come; and
// how often a sound one is called a failure.
func exposedTable(results map[string]outcomes, p0 float64) string {
	var b table
	b.row("traffic", "fail at 0.2 x, mirror", "strikes", "alarm at 0.2 x", "0.5 x", "2 x", "5 x")
	for _, s := range sources() {
		fails := trafficName(s, p0, 0.2)
		cells := []string{s.name, percentOf(results[fails+"/fail"]), percentOf(results[fails+"/strikes"])}
		for _, times := range []float64{0.2, 0.5} {
			cells = append(cells, percentOf(results[trafficName(s, p0, times)+"/alarm"]))
		}
		for _, times := range []float64{2, 5} {
			cells = append(cells, alarmed(results[trafficName(s, p0, times)+"/alarm"]))
		}
		b.row(cells...)
	}
	return b.String()
}

// alarmed words the percentage with an alarm, and the median hours if half of them have one.
func alarmed(o outcomes) string {
	if o.Median == never {
		return percentOf(o)
	}
	return fmt.Sprintf("%s (%d h)", percentOf(o), o.Median/hour)
}

// worseTable has the hours after 14 good days until there is no pass any more.
func worseTable(results map[string]outcomes, p0 float64) string {
	var b table
	b.row("traffic", "to 2 x", "alarm", "to 5 x", "alarm")
	for _, s := range sources() {
		cells := []string{s.name}
		for _, times := range stepRates {
			lost := results[stepName(s, p0, times)+"/lost"]
			cells = append(cells, lost.hours(), alarmed(results[stepName(s, p0, times)+"/alarm"]))
		}
		b.row(cells...)
	}
	return b.String()
}

// hours words the median and the 95th percentile.
func (o outcomes) hours() string {
	hours := func(minutes int) string {
		if minutes == never {
			return "never"
		}
		return fmt.Sprint(minutes / hour)
	}
	return hours(o.Median) + " / " + hours(o.P95)
}

// TestTrafficDocument holds the tables of the document against the results.
func TestTrafficDocument(t *testing.T) {
	text, err := os.ReadFile(statisticsFile)
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	for name, table := range trafficTables(readFile(t, trafficFile)) {
		document = replaceTable(t, document, name, table)
	}

	if *update {
		if err := os.WriteFile(statisticsFile, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if document != string(text) {
		t.Errorf("the tables of %s differ from %s: go test ./shadow/promotion/gate -run TrafficDocument -update",
			statisticsFile, trafficFile)
	}
}
