package status

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// WriteText writes all of the report for people: a screen for each policy.
func (r *Report) WriteText(out io.Writer) error {
	b := humanize.PageFor(out)
	r.writeNodes(b)
	for i := range r.Policies {
		if i > 0 {
			b.WriteString("\n")
		}
		r.Policies[i].write(b)
	}

	return b.Show(out)
}

// writeNodes writes which nodes do not answer, above all else: of what is there, the rest of the report may know little.
func (r *Report) writeNodes(b *humanize.Page) {
	for _, n := range r.Nodes {
		fmt.Fprintf(b, "%s %s\n", b.Bad("NODE UNREACHABLE"), humanize.Visible(n.Address+": "+n.Message))
	}
}

func (p *Policy) write(b *humanize.Page) {
	// What Redis holds may be another program's: it must not send a terminal anything but words.
	fmt.Fprintf(b, "%s\n", humanize.Visible(p.Name))
	for _, w := range p.Warnings() {
		fmt.Fprintf(b, "  %s: %s\n", w.colored(b.Colors), humanize.Visible(w.Text))
	}
	p.writeFacts(b)
	p.writeNext(&b.Builder)

	// Behind the end no step is waited for.
	if p.Stage != stages.Completed {
		b.WriteString("\n")
		p.Gate.WriteText(b) // a page never fails
	}

	fmt.Fprintf(b, "\n%s compared, %s\n", humanize.Counted(p.Comparisons, "request"), humanize.Counted(p.Keys, "key"))
	WriteSummary(b, &p.Summary)
	if text := p.NotCompared(); text != "" {
		fmt.Fprintf(b, "  %s\n", text)
	}
	WriteCauses(&b.Builder, "newly denied", p.CausesNewlyDenied)
	WriteCauses(&b.Builder, "newly allowed", p.CausesNewlyAllowed)
	writeKeys(&b.Builder, "newly denied most", p.TopNewlyDenied, p.NewlyDenied)
	writeKeys(&b.Builder, "newly allowed most", p.TopNewlyAllowed, p.NewlyAllowed)

	p.writeInstances(&b.Builder)
}

// writeFacts writes a policy's setting and its last move, each on a line. One without a value has no line.
func (p *Policy) writeFacts(b *humanize.Page) {
	fmt.Fprintf(b, "  %-13s  %s, version %s%s, %s\n",
		"stage", stages.Colored(b.Colors, humanize.Visible(p.Describe())), p.Version(), p.GenerationText(), humanize.Visible(string(p.Mode)))
	writeFact(b, "labels", p.LabelText())
	writeFact(b, "enforced", p.EnforcedText())
	writeFact(b, "authoritative", p.Authoritative)
	writeFact(b, "candidate", p.Candidate)
	writeFact(b, "adaptive", p.LevelText())
	writeFact(b, "store failure", p.StoreFailure)
	writeFact(b, "first", p.Pinned())
	writeFact(b, "last move", p.MoveText())
	writeFact(b, "evaluated", p.EvaluatedText())
	writeFact(b, "evidence", p.DisturbedText())
}

// writeNext writes what to do. A command stays whole, to be pasted.
func (p *Policy) writeNext(b *strings.Builder) {
	b.WriteString("\nnext\n")
	for _, step := range p.Next {
		fmt.Fprintf(b, "  %s\n", humanize.Visible(step.Text))
		if step.Command != "" {
			fmt.Fprintf(b, "    %s\n", humanize.Whole(humanize.Visible(step.Command)))
		}
	}
}

// writeFact writes a text beside its name, or nothing without a text.
func writeFact(b *humanize.Page, name, text string) {
	if text != "" {
		fmt.Fprintf(b, "  %-13s  %s\n", name, humanize.Visible(text))
	}
}

// GenerationText names the generation of the stored policy file, behind the version; "" if it has none.
func (p *Policy) GenerationText() string {
	if p.Generation == 0 {
		return ""
	}
	return fmt.Sprintf(", generation %d", p.Generation)
}

// MoveText says when the policy was last moved, by which actor and why; "" if it never was.
func (p *Policy) MoveText() string {
	if p.At.IsZero() {
		return ""
	}
	text := instant(p.At)
	if p.Actor != "" {
		text += " by " + humanize.Printable(p.Actor)
	}
	if p.Reason != "" {
		text += ": " + humanize.Printable(p.Reason)
	}
	return text
}

// EvaluatedText says when the evidence was evaluated, by which instance.
func (p *Policy) EvaluatedText() string {
	if p.Leader == "" {
		return "for this report: no leader has published this version within a minute"
	}
	return seconds(p.JudgedAge) + " before this report by " + humanize.Printable(p.Leader)
}

// shownInLine is how many keys and instances fit on a screen.
const shownInLine = 5

// WriteCauses writes the probable causes of a harm, with the share of each.
func WriteCauses(b *strings.Builder, harm string, causes []Cause) {
	if len(causes) > 0 {
		fmt.Fprintf(b, "  %s, probable causes: %s\n", harm, shares(causes))
	}
}

// shares lists causes with the share of each: "burst_shape 80 %, other 20 %"; "" without any.
func shares(causes []Cause) string {
	var sum int64
	for _, c := range causes {
		sum += c.Count
	}
	texts := make([]string, len(causes))
	for i, c := range causes {
		texts[i] = c.Cause + " " + humanize.Percent(float64(c.Count)/float64(sum))
	}
	return strings.Join(texts, ", ")
}

func writeKeys(b *strings.Builder, title string, keys []evidence.KeyCount, total int64) {
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
			fmt.Fprintf(table, "  %s\t%s\t%s ago\t%s\n",
				humanize.Printable(in.ID), humanize.Visible(in.AppliedText(p)), seconds(in.AgeSeconds), in.Note(p))
		}
	}
	table.Flush()
}

// AppliedText names the version that the instance has applied; "" if it has another fingerprint, and follows none of them.
func (i *Instance) AppliedText(p *Policy) string {
	if i.Live && i.Fingerprint != p.Fingerprint {
		return ""
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
		return "silent: stopped, or cut off from Redis"
	case i.RedButton:
		return "red button pressed"
	case i.Fingerprint != p.Fingerprint && i.Idle:
		return "another fingerprint, no request yet"
	case i.Fingerprint != p.Fingerprint:
		return "another fingerprint"
	case i.Applied != p.Version():
		return "not applied yet"
	}

	return ""
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}
