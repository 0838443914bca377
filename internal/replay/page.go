package replay

import (
	_ "embed"
	"fmt"
	"html/template"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

//go:embed page.html
var pageText string

var pageTemplate = status.Template(pageText)

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
