package humanize

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// units stay beside their number.
var units = regexp.MustCompile(`([0-9]) (%|h\b)`)

// Wrap breaks the lines of a text at spaces, so that none has more than width characters unless one word has. The rest of a line
// stands two columns deeper than its beginning; the second line of a YAML comment is a comment, too.
func Wrap(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		wrapLine(&b, line, width)
	}
	return b.String()
}

func wrapLine(b *strings.Builder, line string, width int) {
	if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) <= width {
		b.WriteString(line)
		return
	}

	trimmed := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(trimmed)]
	deeper := indent + "  "
	if strings.HasPrefix(trimmed, "# ") {
		deeper = indent + "#   "
	}

	// A space that no line may break at is another character meanwhile.
	const bound = "\u00a0"
	trimmed = units.ReplaceAllString(trimmed, "$1"+bound+"$2")

	// Words keep the spaces before them, because columns of a table are aligned by several.
	column, gap := len(indent), 0
	b.WriteString(indent)
	for i, word := range strings.Split(strings.TrimSuffix(trimmed, "\n"), " ") {
		gap++
		if word == "" {
			continue
		}
		if i == 0 {
			gap = 0
		}
		if n := utf8.RuneCountInString(word); column+gap+n <= width || i == 0 {
			b.WriteString(strings.Repeat(" ", gap) + strings.ReplaceAll(word, bound, " "))
			column += gap + n
		} else {
			b.WriteString("\n" + deeper + strings.ReplaceAll(word, bound, " "))
			column = len(deeper) + n
		}
		gap = 0
	}
	b.WriteString(line[len(strings.TrimSuffix(line, "\n")):])
}
