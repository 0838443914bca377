package promotion_test

import (
	"fmt"
	"strings"
	"testing"
)

// replaceTable puts a table after the comment that names it, in place of the lines
// of the one that is there.
func replaceTable(t *testing.T, document, name, table string) string {
	t.Helper()
	mark := "<!-- " + name + " -->\n"
	before, after, found := strings.Cut(document, mark)
	if !found {
		t.Fatalf("%s has no place for the table %q", statisticsFile, name)
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

// ruleRows are the rows of a rate. The gate looks at clients, so it has two numbers:
// with episodes of many clients, and of one each.
var ruleRows = []struct {
	name, rule string
	clients    bool
}{
	{"**evidence, 48 h**", "evidence", true},
	{"evidence, 72 h", "evidence72", true},
	{"last 24 h below", "trailing", false},
	{"every 5 min below", "quiet", false},
}

func ruleTable(results map[string]outcomes, p0 float64, rates []float64, word func(outcomes) string) string {
	var b table
	head := []string{"true rate", "rule"}
	for _, s := range scenarios {
		head = append(head, s.name)
	}
	b.row(head...)
	for _, times := range rates {
		for _, r := range ruleRows {
			cells := []string{fmt.Sprintf("%g x", times), r.name}
			for _, s := range scenarios {
				many := word(results[candidate{s, p0, times, false}.name()+"/"+r.rule])
				one := word(results[candidate{s, p0, times, true}.name()+"/"+r.rule])
				if r.clients && one != many {
					many += " / " + one
				}
				cells = append(cells, many)
			}
			b.row(cells...)
		}
	}
	return b.String()
}

func falseTable(results map[string]outcomes, p0 float64) string {
	return ruleTable(results, p0, falseRates, func(o outcomes) string { return fmt.Sprintf("%g", o.share()) })
}

// powerTable says how many are promoted, and the hours that the median of all runs
// has taken, if it is.
func powerTable(results map[string]outcomes, p0 float64) string {
	return ruleTable(results, p0, soundRates, func(o outcomes) string {
		if o.Median == never {
			return fmt.Sprintf("%g", o.share())
		}
		return fmt.Sprintf("%g (%d)", o.share(), o.Median/hour)
	})
}

func canaryName(p0, percent float64) string { return fmt.Sprintf("%g %%, %g %%", 100*p0, percent) }

func eachCanary(row func(p0, percent float64)) {
	for _, p0 := range thresholds {
		for _, percent := range percents {
			row(p0, percent)
		}
	}
}

func alarmTable(results map[string]outcomes) string {
	var b table
	b.row("threshold, canary", "0.2 x, iid", "0.2 x, storms", "1 x, iid", "1 x, storms")
	eachCanary(func(p0, percent float64) {
		cells := []string{canaryName(p0, percent)}
		for _, times := range []float64{0.2, 1} {
			for _, storms := range []bool{false, true} {
				o := results[falseAlarms(p0, percent, times, storms)+"/reference"]
				cells = append(cells, fmt.Sprintf("%d in %d days", o.Reached, o.Runs))
			}
		}
		b.row(cells...)
	})
	return b.String()
}

// delay words the median and the 95th percentile in seconds, or how many of the
// regressions are missed.
func (o outcomes) delay() string {
	seconds := func(v int) string {
		if v == never {
			return "never"
		}
		return fmt.Sprintf("%d", v)
	}
	if o.Reached == 0 {
		return "never"
	}
	text := seconds(o.Median) + " / " + seconds(o.P95)
	if o.Reached < o.Runs {
		text += fmt.Sprintf(" (%g %% missed)", 100-o.share())
	}
	return text
}

func delayTable(results map[string]outcomes) string {
	var b table
	b.row("threshold, canary", "2 x", "5 x", "20 x", "100 x")
	eachCanary(func(p0, percent float64) {
		cells := []string{canaryName(p0, percent)}
		for _, times := range regressions {
			cells = append(cells, results[delays(p0, percent, times, clientsOf(percent))+"/reference"].delay())
		}
		b.row(cells...)
	})
	return b.String()
}

func clientTable(results map[string]outcomes) string {
	var b table
	head := []string{"threshold, canary"}
	for _, clients := range fewClients {
		head = append(head, fmt.Sprintf("%d clients", clients))
	}
	b.row(head...)
	eachCanary(func(p0, percent float64) {
		cells := []string{canaryName(p0, percent)}
		for _, clients := range fewClients {
			cells = append(cells, results[delays(p0, percent, 20, clients)+"/reference"].delay())
		}
		b.row(cells...)
	})
	return b.String()
}
