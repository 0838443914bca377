package status

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// writeNodes writes which nodes do not answer, above all else: of what is there, the rest of the report may know little.
func writeNodes(b *humanize.Page, r *Report) {
	for _, n := range r.Nodes {
		fmt.Fprintf(b, "%s %s\n", b.Bad("NODE UNREACHABLE"), humanize.Visible(n.Address+": "+n.Message))
	}
}

func writePolicy(b *humanize.Page, p *Policy) {
	// What Redis holds may be another program's: it must not send a terminal anything but words.
	fmt.Fprintf(b, "%s\n", humanize.Visible(p.Name))
	for _, w := range p.Warnings() {
		fmt.Fprintf(b, "  %s: %s\n", w.colored(b.Colors), humanize.Visible(w.Text))
	}
	writeFacts(b, p)
	writeNext(&b.Builder, p)

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
	writeKeys(&b.Builder, "newly denied most, by the candidate's answers", p.TopNewlyDenied, p.NewlyDenied)
	writeKeys(&b.Builder, "newly allowed most", p.TopNewlyAllowed, p.NewlyAllowed)

	writeInstances(&b.Builder, p)
}

// writeFacts writes a policy's setting and its last move, each on a line. One without a value has no line.
func writeFacts(b *humanize.Page, p *Policy) {
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
func writeNext(b *strings.Builder, p *Policy) {
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
		texts[i] = humanize.Whole(fmt.Sprintf("%s %s (%s)",
			humanize.Printable(keys[i].Key), humanize.Grouped(keys[i].Count), humanize.Percent(share)))
	}
	fmt.Fprintf(b, "  %s: %s\n", title, strings.Join(texts, ", "))
}

// writeInstances counts the instances, and lists those with a note. If there are only a few it lists all.
func writeInstances(b *strings.Builder, p *Policy) {
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

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}
