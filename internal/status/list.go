package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// columns is the width of a terminal.
const columns = 80

// Warning is what cannot wait, or hides what the numbers say.
type Warning struct {
	Label, Text string
	// Urgent is set where clients may be harmed now.
	Urgent bool
}

// Warnings returns the policy's, the most urgent first.
func (p *Policy) Warnings() []Warning {
	all := []Warning{
		{"ALARM", p.Alarm, true},
		{"STORE UNREACHABLE", p.StoreUnreachable, true},
		{"NO HEARTBEATS", p.NoHeartbeats, true},
		{"FALLBACK ACTIVE", p.FallbackActive, false},
		{"DATA LOST", p.DataLost, false},
		{"UNDONE", p.undoneText(), false},
		{"RED BUTTON", p.pressedText(), false},
	}
	return slices.DeleteFunc(all, func(w Warning) bool { return w.Text == "" })
}

// undoneText says which stage the policy has lost to another policy file; "" if it lost none.
func (p *Policy) undoneText() string {
	if p.Undone == nil {
		return ""
	}
	was := stages.State{Stage: p.Undone.Stage, Percent: p.Undone.Percent}
	return fmt.Sprintf("was %s with fingerprint %s until %s, when another policy file took over, by %s; "+
		"to return to it, deploy the file before on all instances, or on one and then adopt",
		was.Describe(), p.Undone.Fingerprint, instant(p.Undone.Until), humanize.Printable(cmp.Or(p.Undone.By, "an unknown actor")))
}

// pressedText says where a red button is pressed; "" if none is.
func (p *Policy) pressedText() string {
	var pressed []string
	for i := range p.Instances {
		if in := &p.Instances[i]; in.Live && in.RedButton {
			pressed = append(pressed, in.ID)
		}
	}
	if len(pressed) == 0 {
		return ""
	}
	return "pressed on " + firstOf(pressed) + ": the authoritative is enforced there"
}

// urgency orders policies for an operator with little time.
func (p *Policy) urgency() int {
	warnings := p.Warnings()
	switch {
	case p.Alarm != "":
		return 6
	case len(warnings) > 0 && warnings[0].Urgent:
		return 5
	case p.Gate.Verdict == gate.Fail && p.Stage.Exposed():
		return 4
	case len(warnings) > 0:
		return 3
	case p.Stage == stages.RolledBack:
		return 2
	case p.Gate.Verdict == gate.Fail:
		return 1
	}
	return 0
}

// byUrgency returns the policies, the most urgent first.
func (r *Report) byUrgency() []*Policy {
	list := make([]*Policy, len(r.Policies))
	for i := range r.Policies {
		list[i] = &r.Policies[i]
	}
	slices.SortStableFunc(list, func(a, b *Policy) int { return cmp.Compare(b.urgency(), a.urgency()) })
	return list
}

// WriteList writes the report as a line for each policy, the most urgent first, below the warnings of all.
func (r *Report) WriteList(out io.Writer) error {
	var b strings.Builder
	list := r.byUrgency()
	r.writeNodes(&b)
	writeWarnings(&b, list)

	rows := [][]string{{"policy", "stage", "verdict", "met", "worst ratio", "since"}}
	for _, p := range list {
		rows = append(rows, p.row())
	}
	writeRows(&b, rows)
	b.WriteString("shadowlimit status POLICY for one\n")

	_, err := io.WriteString(out, b.String())
	return err
}

// writeWarnings writes each warning once, with the policies that have it.
func writeWarnings(b *strings.Builder, list []*Policy) {
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
	for _, w := range all {
		b.WriteString(humanize.Wrap(w.Label+" "+firstOf(w.names)+": "+humanize.Visible(w.Text)+"\n", columns))
	}
}

// row is the policy's line, without an alignment.
func (p *Policy) row() []string {
	worst := "-"
	if r, ok := p.Gate.Worst(); ok {
		worst = r.String() + " " + humanize.Percent(*p.Gate.Ratio(r).Ratio)
	}
	since := "-"
	if !p.StageAt.IsZero() {
		since = age(max(0, p.JudgedAt.Sub(p.StageAt)+time.Duration(p.JudgedAge*float64(time.Second))))
	}
	verdict, met := humanize.Visible(p.Gate.Verdict), fmt.Sprintf("%d of %d", p.Gate.Met(), len(p.Gate.Conditions))
	if p.Ended() {
		verdict, met = "-", "-"
	}
	return []string{humanize.Visible(p.Name), humanize.Visible(p.Describe()), verdict, met, worst, since}
}

// writeRows aligns rows to the left. The first column gives way, so that no line is wider than a terminal.
func writeRows(b *strings.Builder, rows [][]string) {
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
	widths[0] = max(8, min(widths[0], columns-rest))

	for _, row := range rows {
		line := ""
		for i, text := range row {
			if i == 0 {
				text = cut(text, widths[0])
			}
			line += text + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text))+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// cut shortens a text to a number of characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
