package humanize

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Page is a text for people while it is written. It knows the place where it will be read.
type Page struct {
	strings.Builder
	columns int
	Colors
}

// UsualColumns is the width of a terminal as it is opened.
const UsualColumns = 80

// PageFor returns an empty page that is as wide and as coloured as w says by its methods Columns and Colored. Without
// these it has 80 columns and no colour.
func PageFor(w io.Writer) *Page {
	p := &Page{columns: UsualColumns}
	if sized, ok := w.(interface{ Columns() int }); ok {
		p.columns = sized.Columns()
	}
	if colored, ok := w.(interface{ Colored() bool }); ok {
		p.Colors = Colors(colored.Colored())
	}
	return p
}

// Columns is how wide the page is.
func (p *Page) Columns() int { return p.columns }

// Show writes the page with its lines wrapped.
func (p *Page) Show(out io.Writer) error {
	_, err := io.WriteString(out, Wrap(p.String(), p.columns))
	return err
}

// Colors gives words a colour, or leaves them alone where it is false. It never changes a word: a colour is no statement.
// Words of others must have been made Printable or Visible before, so that they bring no colour of their own.
type Colors bool

// Colored reports whether words get a colour.
func (c Colors) Colored() bool { return bool(c) }

// Good is for what is as it should be.
func (c Colors) Good(text string) string { return c.in("32", text) }

// Unsure is for what is not there yet.
func (c Colors) Unsure(text string) string { return c.in("33", text) }

// Bad is for what hurts, or has ended badly.
func (c Colors) Bad(text string) string { return c.in("31", text) }

func (c Colors) in(color, text string) string {
	if !c || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

var colorCode = regexp.MustCompile("\x1b\\[[0-9]*m")

// Plain returns a text without its colours.
func Plain(text string) string { return colorCode.ReplaceAllString(text, "") }

// Width is how many columns a text takes. Its colours take none.
func Width(text string) int { return utf8.RuneCountInString(Plain(text)) }
