package humanize

import (
	"regexp"
	"strings"
)

var (
	// units stay beside their number.
	units = regexp.MustCompile(`([0-9]) (%|h\b)`)
	// gaps are between cells.
	gaps = regexp.MustCompile(`[^ ]  +[^ ]`)
	// commands are to be pasted: at the beginning of a line, or behind a colon up to the end.
	commands = regexp.MustCompile(`(?:^|: )(?:shadowlimit [a-z]|ACL SETUSER )(?:[^,;]|[,;][^ ])*$`)
)

// A space that no line may break at is another character until Wrap has done its work.
const bound = "\u00a0"

// Whole returns a text that Wrap leaves on one line, such as a command to paste.
func Whole(text string) string { return strings.ReplaceAll(text, " ", bound) }

// Wrap breaks the lines of a text at spaces, so that none has more than width columns unless one word has. The rest of a line
// stands below its last cell, if one begins in the first half of the width behind two spaces or more, else two columns deeper than
// its beginning; the second line of a YAML comment is a comment, too. A command stays whole.
func Wrap(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		wrapLine(&b, line, width)
	}
	return b.String()
}

func wrapLine(b *strings.Builder, line string, width int) {
	text, end := strings.TrimSuffix(line, "\n"), ""
	if text != line {
		end = "\n"
	}
	if Width(text) <= width {
		b.WriteString(strings.ReplaceAll(line, bound, " "))
		return
	}

	trimmed := strings.TrimLeft(text, " ")
	indent := text[:len(text)-len(trimmed)]
	deeper := indent + "  "
	for _, gap := range gaps.FindAllStringIndex(text, -1) {
		if at := Width(text[:gap[1]-1]); at <= width/2 && gap[0] >= len(indent) {
			deeper = strings.Repeat(" ", at)
		}
	}
	if strings.HasPrefix(trimmed, "# ") {
		deeper = indent + "#   "
	}

	trimmed = units.ReplaceAllString(trimmed, "$1"+bound+"$2")
	trimmed = commands.ReplaceAllStringFunc(trimmed, func(command string) string {
		if rest, behind := strings.CutPrefix(command, ": "); behind {
			return ": " + Whole(rest)
		}
		return Whole(command)
	})

	// Words keep the spaces before them, because columns of a table are aligned by several.
	column, gap := len(indent), 0
	b.WriteString(indent)
	for i, word := range strings.Split(trimmed, " ") {
		gap++
		if word == "" {
			continue
		}
		if i == 0 {
			gap = 0
		}
		if n := Width(word); column+gap+n <= width || i == 0 {
			b.WriteString(strings.Repeat(" ", gap) + strings.ReplaceAll(word, bound, " "))
			column += gap + n
		} else {
			b.WriteString("\n" + deeper + strings.ReplaceAll(word, bound, " "))
			column = len(deeper) + n
		}
		gap = 0
	}
	b.WriteString(end)
}
