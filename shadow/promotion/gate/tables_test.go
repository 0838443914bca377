package gate_test

import (
	"fmt"
	"slices"
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

// canaryTable has a row for each canary and trigger, or one where both say the same.
func canaryTable(head []string, cells func(p0, percent float64, rule string) []string) string {
	var b table
	b.row(append([]string{"threshold, canary", "triggers"}, head...)...)

	for _, p0 := range thresholds {
		for _, percent := range percents {
			harmed, all := cells(p0, percent, "harmed"), cells(p0, percent, "all")
			if slices.Equal(harmed, all) {
				b.row(append([]string{canaryName(p0, percent), "either"}, all...)...)
				continue
			}
			b.row(append([]string{canaryName(p0, percent), "harmed clients"}, harmed...)...)
			b.row(append([]string{canaryName(p0, percent), "all triggers"}, all...)...)
		}
	}
	return b.String()
}

func alarmTable(results map[string]outcomes) string {
	var head []string
	for _, times := range falseAlarmRates {
		for _, trouble := range troubles {
			head = append(head, fmt.Sprintf("%g x, %s", times, trouble))
		}
	}

	return canaryTable(head, func(p0, percent float64, rule string) (cells []string) {
		for _, times := range falseAlarmRates {
			for _, trouble := range troubles {
				o := results[falseAlarms(p0, percent, times, trouble)+"/"+rule]
				cells = append(cells, fmt.Sprintf("%d in %d", o.Reached, o.Runs))
			}
		}
		return cells
	})
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
	var head []string
	for _, times := range regressions {
		head = append(head, fmt.Sprintf("%g x", times))
	}
	return canaryTable(head, func(p0, percent float64, rule string) (cells []string) {
		for _, times := range regressions {
			cells = append(cells, results[delays(p0, percent, times, clientsOf(percent))+"/"+rule].delay())
		}
		return cells
	})
}

func clientTable(results map[string]outcomes) string {
	var head []string
	for _, clients := range fewClients {
		head = append(head, fmt.Sprintf("%d clients", clients))
	}
	return canaryTable(head, func(p0, percent float64, rule string) (cells []string) {
		for _, clients := range fewClients {
			cells = append(cells, results[delays(p0, percent, 20, clients)+"/"+rule].delay())
		}
		return cells
	})
}
