package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

//go:embed page.html
var pageText string

var pageTemplate = status.Template(pageText)

// WriteHTML writes the report as one page that needs no other file, runs no script and loads nothing. Its parts are those of the status
// page. Keys stand in it as in the text: in clear, with control characters as escapes.
func (r *Report) WriteHTML(w io.Writer) error {
	v := pageView{Report: r, Style: status.Style, Security: status.FilePolicy}
	for i := range r.Policies {
		v.Policies = append(v.Policies, policyView{&r.Policies[i]})
	}
	if err := pageTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("replay: write the page: %w", err)
	}
	return nil
}

// pageView is the data of the page's template.
type pageView struct {
	*Report
	Style    template.CSS
	Security string
	Policies []policyView
}

// policyView is one policy on the page.
type policyView struct{ *PolicyReport }

// Rows are the rows of the table of ratios.
func (p policyView) Rows() any { return status.RatioRows(&p.Gate) }

// losers are the keys that have most of a harm, and its causes.
type losers struct {
	Name   string
	Of     int64
	Causes []status.Cause
	Keys   []KeyHarm
}

// Losers are those of both harms.
func (p policyView) Losers() []losers {
	return []losers{
		{"newly denied", p.NewlyDenied, p.CausesNewlyDenied, p.TopNewlyDenied},
		{"newly allowed", p.NewlyAllowed, p.CausesNewlyAllowed, p.TopNewlyAllowed},
	}
}

// Model says how far the authoritative decides as the log, where that was asked.
func (p policyView) Model() (list []string) {
	if a := p.Observed; a != nil && a.Agreement != nil {
		list = append(list, fmt.Sprintf("The model of today's limiter decides as the log for %s; it alone denies %s, and allows %s.",
			a.of(), humanize.Grouped(a.ModelDenies), humanize.Grouped(a.ModelAllows)))
	}
	return list
}

// Drawn draws each candidate by both harms.
func (r *SweepReport) Drawn() status.Chart {
	var points []status.Place
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Ratios.NewlyDenied == nil || c.Ratios.NewlyAllowed == nil {
			continue
		}
		class := evidence.NewlyDenied.String()
		if c.Dominated {
			class = "dominated"
		}
		points = append(points, status.Place{X: *c.Ratios.NewlyAllowed, Y: *c.Ratios.NewlyDenied, Class: class})
	}
	const caption = "Newly denied, upwards, by newly allowed, to the right; dominated candidates are grey"
	return status.Scatter(caption, "the tables below have its numbers", points, r.Threshold)
}
