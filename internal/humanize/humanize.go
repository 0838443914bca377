// Package humanize writes numbers, counts, keys and errors as an operator reads them, and says
// which name a misspelled one was probably meant to be. Reports, verdicts and commands
// share it, so that a number looks the same wherever it is shown.
package humanize

import (
	"fmt"
	"strconv"
	"strings"
)

// Percent writes a fraction as a percentage: 0.0203 is 2.03 %.
func Percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// Printable writes a key for a terminal: quoted if it has quotes or control characters, and
// cut after 300 bytes.
func Printable(key string) string {
	const most = 300
	q := strconv.Quote(key)
	if q == `"`+key+`"` && key != "" {
		q = key
	}
	if len(q) > most {
		q = strings.ToValidUTF8(q[:most], "") + "..."
	}
	return q
}

// Visible writes a sentence with its control characters and line breaks as escapes. Unlike a key, a sentence
// may contain quotes.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}

	return b.String()
}

// Counted writes a number of things: 1 key, 1,753 keys.
func Counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Grouped(n) + " " + thing
}

// Grouped writes n with commas: 1,234,567.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
