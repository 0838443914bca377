package status

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

//go:embed parts.html
var partsText string

//go:embed page.css
var pageStyle string

// Style is the style of every page.
var Style = template.CSS(pageStyle)

// FilePolicy is the content security policy of a page that stands in a file: it allows nothing but Style, and images that the page
// holds. The file needs nothing from elsewhere, and runs no script, whatever a client has written into it.
var FilePolicy = "default-src 'none'; style-src 'sha256-" + hashOf(pageStyle) + "'; img-src data:; base-uri 'none'; form-action 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Template parses a page, which may use the parts that all pages share: ratios, conditions, outcomes, chart and harm. It panics
// if the text is no template, so it is for texts of the program.
func Template(text string) *template.Template {
	parts := template.Must(template.New("parts").Funcs(pageFuncs).Parse(partsText))
	return template.Must(parts.New("page").Parse(text))
}

// RatioRows are the rows of the part ratios.
func RatioRows(g *gate.Result) (rows []ratioView) {
	for _, r := range evidence.AllRatios {
		if g.Ratio(r) != nil {
			rows = append(rows, ratioViewOf(r, g))
		}
	}
	return rows
}
