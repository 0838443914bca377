package status

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// WriteText writes the report for people: a screen for each policy.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Name)
	for i := range r.Policies {
		r.Policies[i].write(&b)
	}

	_, err := io.WriteString(out, b.String())
	return err
}

// lines puts each thing to do on a line of its own: several in one line are not read at three in the morning. A command stays
// whole, because the reason in its quotes may have several parts.
func lines(next string) string {
	var b strings.Builder
	for _, part := range fragmentsOf(next) {
		if !part.Command {
			part.Text = strings.ReplaceAll(part.Text, "; ", "\n                 ")
		}
		b.WriteString(part.Text)
	}
	return b.String()
}

func (p *Policy) write(b *strings.Builder) {
	// What Redis holds may be another program's: it must not send a terminal anything but words.
	visible := humanize.Visible
	fmt.Fprintf(b, "\n%s: %s, version %s, %s\n", visible(p.Name), visible(p.Describe()), p.Version(), visible(p.Mode))
	if p.Alarm != "" {
		fmt.Fprintf(b, "  ALARM: %s\n", visible(p.Alarm))
	}

	for _, line := range []struct{ name, text string }{
		{"STORE AWAY", p.StoreAway}, {"STANDS IN", p.StandsIn}, {"NOT HEARD", p.NotHeard},
	} {
		if line.text != "" {
			fmt.Fprintf(b, "  %s: %s\n", line.name, visible(line.text))
		}
	}

	p.writeFacts(b)
	fmt.Fprintf(b, "  next           %s\n\n", lines(visible(p.NextStep)))

	p.writeLeader(b)
	p.Gate.WriteText(b) // a strings.Builder never fails
	p.writeDisturbed(b)
	if p.Gate.Verdict != gate.Pass {
		fmt.Fprintf(b, "  what this verdict means, and what ends it: %s#verdict\n", glossary)
	}

	fmt.Fprintf(b, "\n%s compared, %s\n", humanize.Counted(p.Comparisons, "request"), humanize.Counted(p.Keys, "key"))
	WriteSummary(b, &p.Summary)
	writePage(b, p.NotCompared(), "ShadowlimitCoverageLow")
	WriteCauses(b, "newly denied", p.CausesNewlyDenied)
	WriteCauses(b, "newly allowed", p.CausesNewlyAllowed)
	writeKeys(b, "newly denied most", p.TopNewlyDenied, p.NewlyDenied)
	writeKeys(b, "newly allowed most", p.TopNewlyAllowed, p.NewlyAllowed)

	p.writeInstances(b)
}

// writeFacts writes a policy's setting, and its last move: each has a line of its own.
func (p *Policy) writeFacts(b *strings.Builder) {
	visible := humanize.Visible
	fmt.Fprintf(b, "  enforced       %s\n", visible(p.EnforcedText()))
	fmt.Fprintf(b, "  authoritative  %s\n", visible(p.Authoritative))
	fmt.Fprintf(b, "  candidate      %s\n", visible(p.Candidate))

	// A value that is left out has no line. Parts of one value stand below each other.
	if levels := visible(p.LevelText()); levels != "" {
		fmt.Fprintf(b, "  adaptive       %s\n", strings.ReplaceAll(levels, "; ", "\n                 "))
		if p.givesWay() {
			fmt.Fprintf(b, "                 see %sShadowlimitAdaptiveLevelLow.md\n", runbooks)
		}
	}

	if p.StoreFailure != "" {
		fmt.Fprintf(b, "  store failure  %s\n", visible(p.StoreFailure))
	}
	if placing := visible(p.Placing()); placing != "" {
		fmt.Fprintf(b, "  placed         %s\n", placing)
	}
	if p.Reason != "" {
		fmt.Fprintf(b, "  moved          %s by %s: %s\n",
			p.At.UTC().Format("2006-01-02 15:04 MST"), humanize.Printable(p.Actor), humanize.Printable(p.Reason))
	}
}

// writeLeader names the instance that has evaluated the evidence. Without one a line says so, too: a reader does not miss a line that
// is sometimes there.
func (p *Policy) writeLeader(b *strings.Builder) {
	if p.Leader == "" {
		b.WriteString("  evaluated by this command: no leader has published anything of this evidence within a minute\n")
		return
	}
	fmt.Fprintf(b, "  evaluated %s before this report by %s\n", seconds(p.JudgedAge), humanize.Printable(p.Leader))
}

// writeDisturbed says how much of the last day counts, in any case: a reader does not miss a line that is sometimes there.
func (p *Policy) writeDisturbed(b *strings.Builder) {
	switch text := humanize.Visible(p.DisturbedText()); {
	case text == "":
	case p.Gate.DisturbedBy == "":
		fmt.Fprintf(b, "  %s\n", text)
	default:
		writePage(b, text, "ShadowlimitNoEvidence")
	}
}

// shownInLine is how many keys and instances fit on a screen.
const shownInLine = 5

// WriteCauses writes the probable causes of a harm, with the share of each.
func WriteCauses(b *strings.Builder, harm string, causes []Cause) {
	if len(causes) == 0 {
		return
	}

	var sum int64
	for _, c := range causes {
		sum += c.Count
	}

	texts := make([]string, len(causes))
	for i, c := range causes {
		texts[i] = c.Cause + " " + humanize.Percent(float64(c.Count)/float64(sum))
	}
	fmt.Fprintf(b, "  %s, probable causes: %s\n", harm, strings.Join(texts, ", "))
}

func writeKeys(b *strings.Builder, title string, keys []divergence.KeyCount, total int64) {
	// The lists are kept by the day, so right after a resume they have keys of the evidence before it.
	if len(keys) == 0 || total == 0 {
		return
	}

	texts := make([]string, min(len(keys), shownInLine))
	for i := range texts {
		share := math.Min(1, float64(keys[i].Count)/float64(total))
		texts[i] = fmt.Sprintf("%s %s (%s)",
			humanize.Printable(keys[i].Key), humanize.Grouped(keys[i].Count), humanize.Percent(share))
	}
	fmt.Fprintf(b, "  %s: %s\n", title, strings.Join(texts, ", "))
}

// writeInstances counts the instances, and lists those with a note. If there are only a few it lists all.
func (p *Policy) writeInstances(b *strings.Builder) {
	if len(p.Instances) == 0 {
		b.WriteString("\ninstances: none is live, and none was recently\n")
		return
	}

	fmt.Fprintf(b, "\ninstances: %s\n", p.InstancesText())

	// A fleet of hundreds must not push the verdict off the screen.
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := range p.Instances {
		in := &p.Instances[i]
		if len(p.Instances) <= shownInLine || in.Note(p) != "" {
			fmt.Fprintf(table, "  %s\t%s\tlast seen %s ago\t%s\n",
				humanize.Printable(in.ID), "applied "+in.AppliedText(p), seconds(in.AgeSeconds), in.Note(p))
		}
	}
	table.Flush()
}

// AppliedText names the version that the instance has applied. One of another fingerprint follows none of them.
func (i *Instance) AppliedText(p *Policy) string {
	if i.Live && i.Fingerprint != p.Fingerprint {
		return "none"
	}
	return i.Applied
}

// EnforcedText says which side is enforced, and on how many instances that is not so because they compare something else.
func (p *Policy) EnforcedText() string {
	other := 0
	for i := range p.Instances {
		in := &p.Instances[i]
		if in.Live && in.Fingerprint != "" && in.Fingerprint != p.Fingerprint {
			other++
		}
	}
	authoritative := algorithms.Authoritative.String()
	if other == 0 || p.Enforced == authoritative {
		return p.Enforced
	}
	return fmt.Sprintf("%s (%s on %s of another fingerprint)", p.Enforced, authoritative, humanize.Counted(int64(other), "instance"))
}

// InstancesText counts the instances that have applied the stage, among the ones that have to. An instance with its red button pressed, or
// of another fingerprint, follows no stage, so that to wait for it would be in vain.
func (p *Policy) InstancesText() string {
	var fine, pressed, other int
	for i := range p.Instances {
		in := &p.Instances[i]
		switch {
		case in.Note(p) == "":
			fine++
		case in.Live && in.RedButton:
			pressed++
		case in.Live && in.Fingerprint != p.Fingerprint:
			other++
		}
	}

	// Where all of them are pressed, no instance follows the stage, and 0 of 0 would read as an outage.
	following := len(p.Instances) - pressed - other
	text := fmt.Sprintf("%d of %d live and at %s", fine, following, p.Version())
	switch {
	case pressed > 0 && following == 0:
		text = fmt.Sprintf("%d of %d enforce the authoritative (%d by a pressed red button)", pressed, pressed, pressed)
	case pressed > 0:
		text += fmt.Sprintf("; besides, red button pressed: %d", pressed)
	}
	if other > 0 {
		text += fmt.Sprintf("; besides, of another fingerprint: %d", other)
	}
	return text
}

// Note says why the instance does not enforce what the policy's state says, or "" if it does.
func (i *Instance) Note(p *Policy) string {
	switch {
	case !i.Live:
		return "silent: it has stopped, or cannot write to the service's Redis"
	case i.RedButton:
		return "red button pressed: enforces the authoritative"
	case i.Fingerprint != p.Fingerprint && i.Idle:
		return "has another fingerprint: does not follow this stage, and waits for its first request"
	case i.Fingerprint != p.Fingerprint:
		return "has another fingerprint: does not follow this stage"
	case i.Applied != p.Version():
		return "has not applied this version yet"
	}

	return ""
}

// writePage writes a text and the runbook about it, or nothing without a text.
func writePage(b *strings.Builder, text, runbook string) {
	if text != "" {
		fmt.Fprintf(b, "  %s; see %s%s.md\n", text, runbooks, runbook)
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}
