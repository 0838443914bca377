package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal returns the file behind a writer if it is a terminal that can be drawn on.
func terminal(out io.Writer) (*os.File, bool) {
	file, ok := out.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// Controls of a terminal.
const (
	toTop      = "\x1b[?25l\x1b[H" // and hide the cursor
	clearLine  = "\x1b[K"
	clearRest  = "\x1b[J"
	showCursor = "\x1b[?25h"
)

// screen fits a text into a terminal. Its last line says if more would follow. A serial console
// or a container may report no size, and gets the usual one.
func screen(text string, width, height int) string {
	if width < 1 || height < 2 {
		width, height = 80, 24
	}

	var all []string
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		all = append(all, wrapped([]rune(strings.TrimRight(line, " \n")), width)...)
	}
	if len(all) > height-1 {
		all = append(all[:height-2], fmt.Sprintf("... %d more lines", len(all)-height+2))
	}

	var b strings.Builder
	b.WriteString(toTop)
	for _, line := range all {
		b.WriteString(line + clearLine + "\r\n")
	}
	return b.String() + clearRest
}

// wrapped breaks a line, at a space if there is one in the last half of the width.
func wrapped(line []rune, width int) (lines []string) {
	for len(line) > width && width > 0 {
		end := width
		for end > width/2 && line[end] != ' ' {
			end--
		}
		if line[end] != ' ' {
			end = width
		}

		lines = append(lines, string(line[:end]))
		line = []rune(strings.TrimLeft(string(line[end:]), " "))
	}
	return append(lines, string(line))
}
