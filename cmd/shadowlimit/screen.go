package main

import (
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Controls of a terminal. The other screen is one beside the lines that scroll, which come back when it is left.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // and hide the cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearRest   = "\x1b[J"
)

// screen fits a text, whose lines are wrapped, into a terminal. Its last line says if more would follow. It is drawn over what
// stands there: nothing is cleared before its place is written, so that nothing flickers.
func screen(text string, columns, rows int) string {
	if columns < 1 || rows < 2 {
		columns, rows = usualColumns, usualRows
	}

	var all []string
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		all = append(all, cells(strings.TrimRight(line, " \n"), columns)...)
	}
	if len(all) > rows-1 {
		all = append(all[:rows-2], fmt.Sprintf("... %d more lines", len(all)-rows+2))
	}

	var b strings.Builder
	b.WriteString(toTop)
	for _, line := range all {
		b.WriteString(line)
		if humanize.Width(line) < columns { // behind a full line the cursor stands on its last letter
			b.WriteString(clearLine)
		}
		b.WriteString("\r\n")
	}
	return b.String() + clearRest
}

// cells breaks a line that is still too wide, such as a command to paste, as the terminal would: its rows have to be counted.
func cells(line string, columns int) (lines []string) {
	if humanize.Width(line) <= columns {
		return []string{line}
	}
	rest := []rune(humanize.Plain(line))
	for len(rest) > columns {
		lines, rest = append(lines, string(rest[:columns])), rest[columns:]
	}
	return append(lines, string(rest))
}
