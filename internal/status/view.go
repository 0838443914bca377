package status

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// view is the data of the page's template.
type view struct {
	Name     string
	Age      string // of the report
	Failure  string // why there is no newer report; "" if there is one
	Known    bool   // there is a report
	Here     *Here  // what the instance knows by itself; nil if the page belongs to none
	Style    template.CSS
	Policies []policyView
	// HereFirst has what the instance knows stand above the fleet's report, which may look healthy in an outage.
	HereFirst bool
}

// policyView is one policy on the page.
type policyView struct {
	*Policy
	Track  []step
	Ratios []ratioView
	Listed []Instance // the instances shown, those with a note first
	Harms  []harm
}

// step is one stage or percentage of a migration.
type step struct {
	Name, Class string
	Current     bool
}

// ratioView is the row of one ratio.
type ratioView struct {
	Name, Score string
	*gate.RatioResult
	AtOrAbove bool // the ratio is at or above its threshold
	Met       bool // the score is enough for the step
	Risen     bool // the regression score is too high for it
}

// harm is one of the two harms: its probable causes, and the keys that have most of it.
type harm struct {
	Name   string
	Total  int64 // requests that have it
	Of     int64 // the same, at least 1
	Keyed  int64 // keys that have it
	Causes []Cause
	Sum    int64 // of the causes' counts
	Keys   []evidence.KeyCount
}

// listedInstances bounds the instances on the page.
const listedInstances = 20

// viewOf arranges an answer as it is shown at an instant, the most urgent policies first.
func viewOf(now answer, at time.Time) view {
	v := view{
		Name:  now.report.Name,
		Known: !now.at.IsZero(),
		Age:   age(at.Sub(now.at)),
		Here:  now.here,
		Style: Style,
	}
	if now.err != nil {
		v.Failure = why(now.err)
	}
	v.HereFirst = now.err != nil || now.here != nil && now.here.Urgent()

	for _, p := range byUrgency(&now.report) {
		v.Policies = append(v.Policies, policyViewOf(p))
	}
	return v
}

func policyViewOf(p *Policy) policyView {
	v := policyView{Policy: p, Track: trackOf(p)}
	v.Ratios = RatioRows(&p.Gate)
	v.Harms = []harm{
		harmOf("newly denied", p.NewlyDenied, p.KeysNewlyDenied, p.CausesNewlyDenied, p.TopNewlyDenied),
		harmOf("newly allowed", p.NewlyAllowed, p.KeysNewlyAllowed, p.CausesNewlyAllowed, p.TopNewlyAllowed),
	}
	v.Listed = listedOf(p)

	return v
}

func ratioViewOf(r evidence.Ratio, g *gate.Result) ratioView {
	part := g.Ratio(r)
	is := func(name string, met bool) bool {
		return slices.ContainsFunc(g.Conditions, func(c gate.Condition) bool { return c.Name == name+" of "+r.String() && c.Met == met })
	}
	return ratioView{
		Name:        spaced(r.String()),
		Score:       gate.ScoreText(part.Score),
		RatioResult: part,
		AtOrAbove:   part.Ratio != nil && part.Threshold > 0 && *part.Ratio >= part.Threshold,
		Met:         is("evidence", true),
		Risen:       is("no regression", false),
	}
}

func harmOf(name string, of, keyed int64, causes []Cause, keys []evidence.KeyCount) harm {
	h := harm{Name: name, Total: of, Of: max(of, 1), Keyed: keyed, Causes: causes, Keys: keys}

	// The lists are kept by the day, so right after a resume they have keys of the evidence before it.
	if of == 0 {
		h.Keys = nil
	}
	for _, c := range causes {
		h.Sum += c.Count
	}

	return h
}

// listedOf returns the instances to show.
func listedOf(p *Policy) []Instance {
	list := slices.Clone(p.Instances)
	noted := func(i Instance) int {
		if i.Note(p) != "" {
			return 1
		}
		return 0
	}

	// The list is bounded, so instances that need attention come first.
	slices.SortStableFunc(list, func(a, b Instance) int { return noted(b) - noted(a) })
	return list[:min(len(list), listedInstances)]
}

// trackOf returns the steps of the migration with the current one marked. A percentage that is no step of the policy,
// because an operator chose it or the file has changed, is inserted.
func trackOf(p *Policy) []step {
	steps := slices.Clone(p.Canary)
	if p.Stage == stages.Canary && !slices.Contains(steps, p.Percent) {
		steps = append(steps, p.Percent)
		slices.Sort(steps)
	}

	// A policy that was rolled back has no current step among these: it gets one at the end.
	list := []step{{Name: "shadow"}}
	current := 0
	for _, percent := range steps {
		if p.Stage == stages.Canary && percent == p.Percent {
			current = len(list)
		}
		list = append(list, step{Name: "canary " + strconv.FormatFloat(percent, 'g', -1, 64) + " %"})
	}
	list = append(list, step{Name: "promoted"}, step{Name: "completed"})

	switch p.Stage {
	case stages.Promoted:
		current = len(list) - 2
	case stages.Completed:
		current = len(list) - 1
	case stages.RolledBack:
		return append(list, step{Name: "rolled back", Class: "back", Current: true})
	}

	for i := range list[:current] {
		list[i].Class = "done"
	}
	list[current].Class = "here"
	list[current].Current = true

	return list
}

// pageFuncs are the functions of the page's template. Texts that clients and operators wrote must pass printable or
// visible, which show control characters instead of sending them.
var pageFuncs = template.FuncMap{
	"counted":   humanize.Counted,
	"grouped":   humanize.Grouped,
	"percent":   humanize.Percent,
	"printable": humanize.Printable,
	"applied":   func(i Instance, p Policy) string { return i.AppliedText(&p) },
	"visible":   func(text any) string { return humanize.Visible(fmt.Sprint(text)) }, // a stage has a type of its own
	"optional": func(v *float64) string {
		if v == nil {
			return "–"
		}
		return humanize.Percent(*v)
	},
	"share":   func(n, of int64) string { return humanize.Percent(min(1, float64(n)/float64(max(of, 1)))) },
	"len64":   func(list []Instance) int64 { return int64(len(list)) },
	"minus":   func(a, b int) int { return a - b },
	"round":   func(v float64) string { return fmt.Sprintf("%.4g", v) },
	"seconds": seconds,
	"score":   gate.ScoreText,
	"instant": instant,
	"spaced":  spaced,
	"note":    func(i Instance, p *Policy) string { return i.Note(p) },
	"word":    func(entry string) string { return glossary + "#" + strings.ReplaceAll(entry, " ", "-") },
	"words":   func() string { return glossary },
}

// glossary is the document that explains the words of the page.
const glossary = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/glossary.md"

func spaced(name string) string { return strings.ReplaceAll(name, "_", " ") }

func instant(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04 MST") }

// age writes a duration with two digits or so: 4 s, 12 min, 31 h, 6 days.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 72*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}

	return fmt.Sprintf("%d days", int(d.Hours()/evidence.HoursPerDay))
}
