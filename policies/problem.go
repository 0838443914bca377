package policies

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong with a policy file.
type Problem struct {
	Severity string `json:"severity"` // "error" or "warning"
	Line     int    `json:"line"`     // from 1
	Column   int    `json:"column"`   // from 1, in characters
	Message  string `json:"message"`
}

// Severities of problems. A file with an error is not loaded.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Problems are all the problems of a file, in the order of their places. As an
// error they show each with its line and a caret. The warnings that were found
// are among them: Failed reports whether there is an error at all.
type Problems struct {
	File  string
	List  []Problem
	lines []string // of the file, to show them
}

func (p *Problems) fail(n *yaml.Node, format string, args ...any) {
	p.failAt(n.Line, n.Column, format, args...)
}

// failAt notes an error at a place. Lines and columns from before the file are those
// of its start.
func (p *Problems) failAt(line, column int, format string, args ...any) {
	p.List = append(p.List, Problem{
		Severity: SeverityError,
		Line:     max(1, line),
		Column:   max(1, column),
		Message:  fmt.Sprintf(format, args...),
	})
}

// warn notes a warning at a node, none if the file has no such node.
func (p *Problems) warn(n *yaml.Node, format string, args ...any) {
	if n == nil {
		return
	}
	p.warnAt(n.Line, n.Column, format, args...)
}

func (p *Problems) warnAt(line, column int, format string, args ...any) {
	p.List = append(p.List, Problem{
		Severity: SeverityWarning,
		Line:     line,
		Column:   column,
		Message:  fmt.Sprintf(format, args...),
	})
}

// addOnce notes a problem unless it is there: a field that policies inherit is found in
// each of them.
func (p *Problems) addOnce(problem Problem) {
	if !slices.Contains(p.List, problem) {
		p.List = append(p.List, problem)
	}
}

// errors returns how many problems are errors. A reader that asks whether its part of the file is sound compares it with the
// number of before: a warning, which an expression may have, does not make the part unsound.
func (p *Problems) errors() (count int) {
	for i := range p.List {
		if p.List[i].Severity == SeverityError {
			count++
		}
	}
	return count
}

// Failed reports whether any problem is an error.
func (p *Problems) Failed() bool {
	return slices.ContainsFunc(p.List, func(p Problem) bool { return p.Severity == SeverityError })
}

// Error implements error.
func (p *Problems) Error() string {
	list := make([]string, len(p.List))
	for i, problem := range p.List {
		list[i] = p.Describe(problem)
	}
	return strings.Join(list, "\n")
}

// Describe writes one problem as file:line:column: message, the source line and
// a caret.
func (p *Problems) Describe(problem Problem) string {
	message := problem.Message
	if problem.Severity == SeverityWarning {
		message = "warning: " + message
	}

	// A message may name what the author has written, such as a limiter: no part of it makes a line of its own.
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, problem.Line, problem.Column, strings.Map(printable, message))
	if problem.Line < 1 || problem.Line > len(p.lines) {
		return s
	}

	line, column := excerpt(withoutSecret(strings.Map(printable, p.lines[problem.Line-1])), problem.Column)
	return s + "\n | " + line + "\n | " + strings.Repeat(" ", max(0, column-1)) + "^"
}

// excerpt returns what a terminal has room for of a line around a column, and where the column is in it. A line that the
// terminal breaks would not stand above its caret.
func excerpt(line string, column int) (string, int) {
	const room = 80 - len(" | ")
	runes := []rune(line)
	if len(runes) <= room {
		return line, column
	}
	if from := min(column-room/2, len(runes)-room); from > 0 {
		runes, column = runes[from:], column-from
		runes[0] = '…'
	}
	if len(runes) > room {
		runes = append(runes[:room-1], '…')
	}
	return string(runes), column
}

// No policy file has a secret, but authors try: the address of Redis, with its password, is an option of the program.
var (
	secretField = regexp.MustCompile(`(?i)^([ -]*"?[\w-]*(?:password|passwd|secret|credential|api_?key)[\w-]*"?\s*:\s*).*$`)
	secretInURL = regexp.MustCompile(`://[^/\s]*@`)
)

// withoutSecret returns a line without the value of a field that is named as a secret, and without the password of an address.
// Problems are shown in logs of builds, which keep them.
func withoutSecret(line string) string {
	return secretInURL.ReplaceAllString(secretField.ReplaceAllString(line, "${1}..."), "://...@")
}

// sort puts the problems into the order of their places. It keeps the order of those at
// one place, in which they were found.
func (p *Problems) sort() {
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
}

// printable replaces each character that would move a terminal's cursor by a space,
// so that the caret stays below its place and a file cannot write to the terminal.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
