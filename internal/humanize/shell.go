package humanize

import (
	"regexp"
	"strings"
)

// ShellQuoted quotes a text for a shell. It may name a client's key, and the command is made to be pasted: within single
// quotes a shell carries nothing out. A single quote of the text ends them, stands behind a backslash, and begins them again.
func ShellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// plainWord is a text that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._:/@=+-]+$`)

// ShellWord returns a text as one word of a command that is made to be pasted, in quotes only where it needs them.
func ShellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return ShellQuoted(Printable(text))
}
