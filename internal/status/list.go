package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// colored is the label in its colour.
func (w *Warning) colored(colors humanize.Colors) string {
	if w.Urgent {
		return colors.Bad(w.Label)
	}
	return colors.Unsure(w.Label)
}

// urgencyOf orders policies for an operator with little time. One of 0 needs nobody: the first thing to do is no command.
func urgencyOf(p *Policy) int {
	warnings := p.Warnings()
	switch {
	case p.Alarm != "":
		return 7
	case len(warnings) > 0 && warnings[0].Urgent:
		return 6
	case p.Gate.Verdict == gate.Fail && p.Stage.Exposed():
		return 5
	case len(warnings) > 0:
		return 4
	case p.Stage == stages.RolledBack:
		return 3
	case p.Gate.Verdict == gate.Fail:
		return 2
	case len(p.Next) > 0 && p.Next[0].Command != "":
		return 1
	}
	return 0
}

// byUrgency returns the policies, the most urgent first.
func byUrgency(r *Report) []*Policy {
	list := make([]*Policy, len(r.Policies))
	for i := range r.Policies {
		list[i] = &r.Policies[i]
	}
	slices.SortStableFunc(list, func(a, b *Policy) int { return cmp.Compare(urgencyOf(b), urgencyOf(a)) })
	return list
}

// counted counts policies by stage and verdict, the most first: "80 need nobody: 60 shadow wait, 20 canary 10 % wait".
func counted(list []*Policy, what string) string {
	const most = 6
	counts := map[string]int{}
	for _, p := range list {
		counts[strings.TrimSuffix(p.stageCell()+" "+p.verdictCell(), " -")]++
	}
	groups := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, group := range groups {
		groups[i] = fmt.Sprintf("%d %s", counts[group], group)
	}
	if len(groups) > most {
		groups = append(groups[:most], "others")
	}
	return fmt.Sprintf("%d %s: %s\n", len(list), what, strings.Join(groups, ", "))
}

// wholeWarnings is how many warnings stand there whole: more must not push the list off the screen.
const wholeWarnings = 5

// writeWarnings writes each warning once, with the policies that have it.
func writeWarnings(b *humanize.Page, list []*Policy) {
	type warned struct {
		Warning
		names []string
	}
	var all []*warned
	for _, p := range list {
		for _, w := range p.Warnings() {
			at := slices.IndexFunc(all, func(o *warned) bool { return o.Warning == w })
			if at < 0 {
				at, all = len(all), append(all, &warned{Warning: w})
			}
			all[at].names = append(all[at].names, humanize.Visible(p.Name))
		}
	}
	slices.SortStableFunc(all, func(a, b *warned) int {
		if a.Urgent == b.Urgent {
			return 0
		} else if a.Urgent {
			return -1
		}
		return 1
	})
	also := map[string][]string{} // the names of those that are not written whole, by label
	for i, w := range all {
		if i < wholeWarnings {
			fmt.Fprintf(b, "%s %s: %s\n", w.colored(b.Colors), firstOf(w.names), humanize.Visible(w.Text))
		} else {
			also[w.Label] = append(also[w.Label], w.names...)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(also)) {
		fmt.Fprintf(b, "%s also of %s\n", label, firstOf(also[label]))
	}
}

// rowOf is the policy's line, without an alignment.
func rowOf(p *Policy) []string {
	worst := "-"
	if r, ok := p.Gate.Worst(); ok {
		worst = r.String() + " " + humanize.Percent(*p.Gate.Ratio(r).Ratio)
	}
	since := "-"
	if !p.StageAt.IsZero() {
		since = age(max(0, p.JudgedAt.Sub(p.StageAt)+time.Duration(p.JudgedAge*float64(time.Second))))
	}
	met := "-"
	if !p.Ended() {
		met = fmt.Sprintf("%d of %d", p.Gate.Met(), len(p.Gate.Conditions))
	}
	return []string{humanize.Visible(p.Name), p.stageCell(), p.verdictCell(), met, worst, since}
}

// writeRows aligns rows to the left. The first column gives way, so that no line is wider than a terminal.
func writeRows(b *humanize.Page, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	rest := 0
	for _, width := range widths[1:] {
		rest += 2 + width
	}
	widths[0] = max(8, min(widths[0], b.Columns()-rest))

	for _, row := range rows {
		line := ""
		for i, text := range row {
			if i == 0 {
				text = cut(text, widths[0])
			}
			line += inColor(b.Colors, i, text) + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text))+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// inColor gives a cell its colour by its column: that of the stage or the verdict.
func inColor(colors humanize.Colors, column int, text string) string {
	switch column {
	case 1:
		return stages.Colored(colors, text)
	case 2:
		return gate.Colored(colors, text)
	}
	return text
}

// cut shortens a text to a number of characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
