package status

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

//go:embed change.html
var changeText string

var changeTemplate = Template(changeText)

// Change is what a change request for a policy says: what was compared, who loses, the conditions and the moves.
type Change struct {
	Service string
	Policy  Policy
	Since   time.Time // of the evidence
	Moves   []stages.State
}

// shownMoves bounds the moves of a change.
const shownMoves = 20

// Earlier says that there are moves before those that are shown; "" if not.
func (v changeView) Earlier() string {
	if v.more == 0 {
		return ""
	}
	return fmt.Sprintf("and %s before, which shadowlimit history shows", humanize.Counted(int64(v.more), "move"))
}

// changeView is the data of the page's template.
type changeView struct {
	*Change
	Style    template.CSS
	Security string
	View     policyView
	Moves    []stages.State
	more     int
}

func (c *Change) view() changeView {
	more := max(0, len(c.Moves)-shownMoves)
	return changeView{Change: c, Style: Style, Security: FilePolicy, View: policyViewOf(&c.Policy), Moves: c.Moves[more:], more: more}
}

// WriteHTML writes one page that needs no other file, runs no script and loads nothing.
func (c *Change) WriteHTML(w io.Writer) error {
	if err := changeTemplate.Execute(w, c.view()); err != nil {
		return fmt.Errorf("status: write the page: %w", err)
	}
	return nil
}

// WriteMarkdown writes the same as Markdown. What clients and operators have written stands in code, where nothing is a link, a tag or a
// mention; it is in lists, because a table would break at a bar in it.
func (c *Change) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	p, v := &c.Policy, c.view()
	fmt.Fprintf(&b, "# %s: %s\n\n", plain(c.Service), plain(p.Name))
	for _, warning := range p.Warnings() {
		fmt.Fprintf(&b, "> **%s** %s\n\n", warning.Label, plain(warning.Text))
	}
	fmt.Fprintf(&b, "From %s\nto %s\n\n", code(p.Authoritative), code(p.Candidate))
	fmt.Fprintf(&b, "- stage: %s, version %s%s, %s\n", p.Describe(), p.Version(), p.GenerationText(), p.Mode)
	if labels := p.LabelText(); labels != "" {
		fmt.Fprintf(&b, "- labels: %s\n", code(labels))
	}
	if p.StoreFailure != "" {
		fmt.Fprintf(&b, "- store failure: %s\n", plain(p.StoreFailure))
	}
	if !p.Ended() {
		fmt.Fprintf(&b, "- gate%s: **%s**, %s\n", stepText(p.Gate.Step), p.Gate.Verdict, plain(p.Gate.Reason))
	}
	for _, step := range p.Next {
		line := "- next: " + plain(step.Text)
		if step.Command != "" {
			line += ": " + code(step.Command)
		}
		b.WriteString(line + "\n")
	}

	fmt.Fprintf(&b, "\n## What was compared\n\n%s of %s, from %s to %s\n\n", humanize.Counted(p.Comparisons, "request"),
		humanize.Counted(p.Keys, "key"), instant(c.Since), instant(p.JudgedAt))
	b.WriteString("| | candidate allows | candidate denies |\n|---|---:|---:|\n")
	fmt.Fprintf(&b, "| authoritative allows | %s | %s newly denied |\n", humanize.Grouped(p.AgreeAllow), humanize.Grouped(p.NewlyDenied))
	fmt.Fprintf(&b, "| authoritative denies | %s newly allowed | %s |\n", humanize.Grouped(p.NewlyAllowed), humanize.Grouped(p.AgreeDeny))
	for _, rare := range p.Rare() {
		fmt.Fprintf(&b, "\n%s: %s\n", rare.Cause, humanize.Grouped(rare.Count))
	}
	if text := p.NotCompared(); text != "" {
		fmt.Fprintf(&b, "\n%s\n", plain(text))
	}
	if text := p.DisturbedText(); text != "" {
		fmt.Fprintf(&b, "\n%s\n", plain(text))
	}

	b.WriteString("\n## Who loses\n\n")
	for _, h := range v.View.Harms {
		h.writeMarkdown(&b)
	}
	c.writeConditions(&b, v.View.Ratios)

	b.WriteString("\n## Moves\n\n")
	for i := range v.Moves {
		s := &v.Moves[i]
		fmt.Fprintf(&b, "- %s, %s: %s → %s, by %s: %s\n", instant(s.At), s.Version, plain(s.From), s.Describe(), code(s.Actor), code(s.Reason))
	}
	if text := v.Earlier(); text != "" {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// stepText names the step that a verdict is about.
func stepText(step string) string {
	if step == "" {
		return ""
	}
	return " for " + step
}

// writeMarkdown writes who has most of a harm.
func (h *harm) writeMarkdown(b *strings.Builder) {
	if h.Total == 0 {
		fmt.Fprintf(b, "- %s: nobody\n", h.Name)
		return
	}
	fmt.Fprintf(b, "- %s: %s of %s", h.Name, humanize.Counted(h.Total, "request"), humanize.Counted(h.Keyed, "key"))
	if len(h.Causes) > 0 {
		fmt.Fprintf(b, ", probable causes: %s", plain(shares(h.Causes)))
	}
	b.WriteString("\n")
	for _, k := range h.Keys {
		share := min(1, float64(k.Count)/float64(h.Of))
		fmt.Fprintf(b, "  - %s: %s, %s\n", code(k.Key), humanize.Grouped(k.Count), humanize.Percent(share))
	}
}

// writeConditions writes the ratios, and what is not met.
func (c *Change) writeConditions(b *strings.Builder, ratios []ratioView) {
	b.WriteString("\n## Conditions\n\n| ratio | in counted time | threshold | score | regression |\n|---|---:|---:|---:|---:|\n")
	for _, r := range ratios {
		value, threshold, regression := "–", "not judged", "–"
		if r.Ratio != nil {
			value = humanize.Percent(*r.Ratio)
		}
		score := r.Score
		if r.Threshold > 0 {
			threshold, regression = humanize.Percent(r.Threshold), gate.ScoreText(r.Regression)
		} else {
			score = "–"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.Name, value, threshold, score, regression)
	}
	if c.Policy.Ended() {
		return
	}
	b.WriteString("\n| condition | met | have | need |\n|---|---|---|---|\n")
	for _, condition := range c.Policy.Gate.Conditions {
		met, need := "no", plain(condition.Need)
		if condition.Met {
			met = "yes"
		}
		if condition.Due != nil {
			need += ", not before " + instant(*condition.Due)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", plain(condition.Name), met, plain(condition.Have), need)
	}
}

// special are the characters that mean something in Markdown, wherever they stand, and what begins a link or a mention. A "_" may make
// a word cursive, and most stand within names.
var special = regexp.MustCompile("[\\\\`*\\[\\]<>|~&@#]|://|www\\.")

// plain is a text in Markdown that is nothing but a text.
func plain(text string) string {
	return special.ReplaceAllStringFunc(humanize.Visible(text), func(found string) string {
		if found == "www." {
			return `www\.`
		}
		return `\` + found
	})
}

// code is a text in Markdown as code. Its fence is longer than any in the text.
func code(text string) string {
	text = cmp.Or(humanize.Visible(text), `""`)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.Trim(text, " ") != text {
		text = " " + text + " "
	}
	return fence + text + fence
}
