package gate

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Verdicts of the gate.
const (
	Pass = "pass" // all conditions are met
	Wait = "wait" // some are not
	Fail = "fail" // it is proved that a ratio is above its threshold
)

// Verdicts are all of them.
var Verdicts = [...]string{Pass, Wait, Fail}

// Condition is one condition of a step. A step may be taken when all are met.
type Condition struct {
	Name string `json:"name"`
	Met  bool   `json:"met"`
	// Have is what there is, and Need what the step needs.
	Have string `json:"have"`
	Need string `json:"need"`
	// Due is when it is met at the earliest; nil where that is not known.
	Due *time.Time `json:"due"`
	// Reason is a sentence that says what is missing; "" if the condition is met.
	Reason string `json:"-"`
}

// Result is the verdict on a candidate, with what it rests on. Its JSON form is the
// command line's contract.
type Result struct {
	Verdict string `json:"verdict"`
	// Step is the step that the verdict is for.
	Step string `json:"step"`
	// Reason is one sentence: the unmet condition that matters most, or what is proved.
	Reason     string      `json:"reason"`
	Conditions []Condition `json:"conditions"`
	// NotBefore is an instant before which the step cannot be taken; nil if there is none.
	NotBefore *time.Time `json:"not_before"`
	Quality
	// Harm is the alarm of protected keys, and Regression that of the regression scores, where the candidate is enforced.
	Harm       Alarm `json:"-"`
	Regression Alarm `json:"-"`
	RatioResults
	// ByCost are the ratios by cost, which have the same thresholds; nil where all checks have cost 1.
	ByCost *CostResults `json:"by_cost,omitempty"`
}

// Quality says how far the evidence can be relied on. In JSON its parts are fields of the Result.
type Quality struct {
	// Coverage is the share of the last day's evaluations that could be compared; nil without any.
	Coverage *float64 `json:"coverage"`
	// UndisturbedHours is how much of the last day's time with a live instance counts for the candidate.
	UndisturbedHours float64 `json:"undisturbed_hours"`
	// Disturbed is the share of that time that does not count; nil without any.
	Disturbed *float64 `json:"disturbed_share"`
	// DisturbedBy says what has disturbed it; "" if nothing has.
	DisturbedBy string `json:"disturbed_by"`
}

// RatioResults are the parts of the ratios. In JSON they are fields of the Result.
type RatioResults struct {
	Divergence   RatioResult `json:"divergence"`
	NewlyDenied  RatioResult `json:"newly_denied"`
	NewlyAllowed RatioResult `json:"newly_allowed"`
	ExtraLoad    RatioResult `json:"extra_load"`
}

// CostResults are the parts of the ratios by cost.
type CostResults struct {
	NewlyDenied  RatioResult `json:"newly_denied"`
	NewlyAllowed RatioResult `json:"newly_allowed"`
	ExtraLoad    RatioResult `json:"extra_load"`
}

// RatioResult is the part of one ratio in a Result.
type RatioResult struct {
	// Ratio is over all undisturbed time, a fraction; nil without a denominator.
	Ratio *float64 `json:"ratio"`
	// Threshold is a fraction; 0 if the ratio is shown and not judged.
	Threshold float64 `json:"threshold"`
	// Score is the evidence that the ratio is below its threshold, from 0.
	Score float64 `json:"score"`
	// Regression is the evidence that the ratio has risen above it, from 0.
	Regression float64 `json:"regression"`
	// LowerBound and UpperBound are a 95 % range of the ratio; nil before the first hour has ended.
	LowerBound *float64 `json:"lower_bound"`
	UpperBound *float64 `json:"upper_bound"`
}

// Range writes the range of the ratio: 0.21 to 0.71 %, or "-" before the first hour has ended.
func (r *RatioResult) Range() string {
	if r.LowerBound == nil || r.UpperBound == nil {
		return "-"
	}
	if *r.LowerBound == 0 {
		return "below " + humanize.Percent(*r.UpperBound)
	}
	return strings.TrimSuffix(humanize.Percent(*r.LowerBound), " %") + " to " + humanize.Percent(*r.UpperBound)
}

// Ratio returns the part of a ratio; nil for one by cost where all checks have cost 1.
func (g *Result) Ratio(r evidence.Ratio) *RatioResult {
	if r.ByCost() {
		if g.ByCost == nil {
			return nil
		}
		return [...]*RatioResult{&g.ByCost.NewlyDenied, &g.ByCost.NewlyAllowed, &g.ByCost.ExtraLoad}[r-evidence.AllowsCost]
	}
	return [...]*RatioResult{
		evidence.OfComparisons: &g.Divergence,
		evidence.OfAllows:      &g.NewlyDenied,
		evidence.OfDenials:     &g.NewlyAllowed,
		evidence.ExtraLoad:     &g.ExtraLoad,
	}[r]
}

// Met returns how many of the conditions are met.
func (g *Result) Met() (n int) {
	for i := range g.Conditions {
		if g.Conditions[i].Met {
			n++
		}
	}
	return n
}

// Worst returns the ratio that is highest in relation to its threshold, of those that are judged and measured, and
// whether there is one.
func (g *Result) Worst() (worst evidence.Ratio, ok bool) {
	height := 0.0
	for _, r := range byHarm {
		if part := g.Ratio(r); part != nil && part.Threshold > 0 && part.Ratio != nil && (!ok || *part.Ratio/part.Threshold > height) {
			worst, ok, height = r, true, *part.Ratio/part.Threshold
		}
	}
	return worst, ok
}

// LeastScore returns the least score of the ratios that are judged, 0 if none is. It is an e-value for the hypothesis that some
// ratio is at its threshold or above, for it is at most that ratio's own score.
func (g *Result) LeastScore() float64 {
	least := math.Inf(1)
	for _, r := range evidence.AllRatios {
		if part := g.Ratio(r); part != nil && part.Threshold > 0 {
			least = math.Min(least, part.Score)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// Add appends a condition that other packages find, which judge no evidence. One that is not met takes back a pass, and
// its reason comes first.
func (g *Result) Add(c Condition) {
	g.Conditions = append(g.Conditions, c)
	if g.NotBefore == nil || c.Due != nil && c.Due.After(*g.NotBefore) {
		g.NotBefore = c.Due
	}
	if !c.Met && g.Verdict != Fail {
		g.Verdict, g.Reason = Wait, c.Reason
	}
}

// Brief returns the verdict and its numbers in one line, as the audit trail keeps them.
func (g *Result) Brief() string {
	text := fmt.Sprintf("%s, %d of %d conditions met", g.Verdict, g.Met(), len(g.Conditions))
	for _, r := range evidence.AllRatios {
		if part := g.Ratio(r); part != nil && part.Threshold > 0 {
			text += fmt.Sprintf("; %s %s of %s, score %s",
				r, optional(part.Ratio), humanize.Percent(part.Threshold), ScoreText(part.Score))
		}
	}
	return text
}

// WriteText writes the verdict, its ratios and its conditions.
func (g *Result) WriteText(out io.Writer) error {
	w := humanize.PageFor(out)
	fmt.Fprintf(w, "gate%s: %s, %d of %d conditions met\n", g.stepText(), Colored(w.Colors, g.Verdict), g.Met(), len(g.Conditions))
	fmt.Fprintf(w, "  %s\n", humanize.Visible(g.Reason))

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  \tratio\t95 % range\tthreshold\tscore\tregression\t")
	row := func(name string, part *RatioResult) {
		if part.Threshold == 0 {
			fmt.Fprintf(table, "  %s\t%s\t\tnot judged\t\t\t\n", name, optional(part.Ratio))
			return
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", name, optional(part.Ratio), part.Range(),
			humanize.Percent(part.Threshold), ScoreText(part.Score), ScoreText(part.Regression))
	}
	for _, r := range evidence.AllRatios[:evidence.AllowsCost] {
		row(r.String(), g.Ratio(r))
		for by := evidence.AllowsCost; g.ByCost != nil && int(by) < len(evidence.AllRatios); by++ {
			if by.OfRequests() == r {
				row("by cost", g.Ratio(by))
			}
		}
	}
	table.Flush() // a page never fails

	var conditions strings.Builder
	table = tabwriter.NewWriter(&conditions, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  condition\tmet\thave\tneed")
	for i := range g.Conditions {
		c := &g.Conditions[i]
		met := "no"
		if c.Met {
			met = "yes"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", humanize.Visible(c.Name), met, humanize.Visible(c.Have), humanize.Visible(c.Need))
	}
	table.Flush()
	w.WriteString(g.marked(w.Colors, conditions.String()))
	if g.NotBefore != nil {
		fmt.Fprintf(w, "  not before %s\n", dated(*g.NotBefore))
	}
	return w.Show(out)
}

// marked gives the names of unmet conditions their colour. The table of them is aligned already, by letters alone.
func (g *Result) marked(colors humanize.Colors, table string) string {
	lines := strings.SplitAfter(table, "\n")
	for i := range g.Conditions {
		if c := &g.Conditions[i]; !c.Met {
			name := humanize.Visible(c.Name)
			lines[i+1] = strings.Replace(lines[i+1], name, colors.Unsure(name), 1)
		}
	}
	return strings.Join(lines, "")
}

// Colored is a verdict in its colour.
func Colored(colors humanize.Colors, verdict string) string {
	text := humanize.Visible(verdict)
	switch verdict {
	case Pass:
		return colors.Good(text)
	case Wait:
		return colors.Unsure(text)
	case Fail:
		return colors.Bad(text)
	}
	return text
}

// stepText names the step that the verdict is for; "" if no step was asked for.
func (g *Result) stepText() string {
	if g.Step == "" {
		return ""
	}
	return " for " + humanize.Visible(g.Step)
}

// ScoreText writes a score with as many digits as a person compares.
func ScoreText(score float64) string {
	switch {
	case score > 9_999_999:
		return ">9,999,999"
	case score >= 100:
		return humanize.Grouped(int64(score))
	}
	return fmt.Sprintf("%.3g", score)
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return humanize.Percent(*v)
}

func stamp(t time.Time) string { return t.Format("2006-01-02 15:04") }

// dated writes an instant as a sentence names it.
func dated(t time.Time) string { return t.Format("Mon 2006-01-02 15:04 MST") }

func hoursOfMinutes(n int64) string { return hours(time.Duration(n) * time.Minute) }

// hours writes hours to a tenth, and less than an hour in minutes. It rounds down: too few hours must not look like enough.
func hours(d time.Duration) string {
	const rounding = 1e-6 // a tenth of an hour has no exact form
	switch h := d.Hours(); {
	case h >= 10_000:
		return humanize.Grouped(int64(h)) + " h"
	case h > 0 && h < 1:
		return fmt.Sprintf("%d min", int64(h*60+rounding))
	default:
		return strconv.FormatFloat(math.Floor(h*10+rounding)/10, 'f', -1, 64) + " h"
	}
}
