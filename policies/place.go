package policies

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// place turns a place in an expression, line from 1 and column from 0, into a
// place in the file. Where YAML has changed the text on the way (joined lines,
// replaced escapes), it is the place of the expression as a whole: a place that is
// merely near sends the eye to the wrong character.
func (r *reader) place(n *yaml.Node, line, column int) (int, int) {
	if line < 1 || column < 0 {
		return n.Line, n.Column // CEL means the expression as a whole
	}

	// A place beyond the line's end shows that YAML has changed more than the style tells,
	// such as a line separator within a plain text.
	line, column = r.placeByStyle(n, line, column)
	if line > len(r.lines) || column > 1+utf8.RuneCountInString(r.lines[line-1]) {
		return n.Line, n.Column
	}
	return line, column
}

// placeByStyle is place as far as the scalar's style tells.
func (r *reader) placeByStyle(n *yaml.Node, line, column int) (int, int) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle

	// Where YAML has changed the text, no column of it is one of the file: the scalar's own beginning is then the best place.
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		return n.Line + line, r.indentation(n.Line) + column + 1
	case n.Style&yaml.FoldedStyle != 0 || line > 1:
		return n.Line, n.Column // YAML has joined the lines
	case n.Style&yaml.DoubleQuotedStyle != 0 && r.hasEscape(n, `\`),
		n.Style&yaml.SingleQuotedStyle != 0 && r.hasEscape(n, "''"):
		return n.Line, n.Column // an escape takes more columns than its character
	case n.Style&quoted != 0:
		return n.Line, n.Column + 1 + column
	}
	return n.Line, n.Column + column
}

// indentation returns the spaces before a literal block that begins below a line:
// those of its first line that is not blank, as YAML detects them.
func (r *reader) indentation(line int) int {
	for _, text := range r.lines[min(line, len(r.lines)):] {
		if content := strings.TrimLeft(text, " "); content != "" {
			return len(text) - len(content)
		}
	}
	return 0
}

// hasEscape reports whether a quoted scalar's line has an escape after its quote.
func (r *reader) hasEscape(n *yaml.Node, escape string) bool {
	if n.Line > len(r.lines) {
		return false
	}

	text := []rune(r.lines[n.Line-1])
	return n.Column <= len(text) && strings.Contains(string(text[n.Column:]), escape)
}
