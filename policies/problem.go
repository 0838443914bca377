package policies

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong with a policy file.
type Problem struct {
	Severity string `json:"severity"` // "error" or "warning"
	Line     int    `json:"line"`     // from 1
	Column   int    `json:"column"`   // from 1, in characters
	Message  string `json:"message"`
}

// Severities of problems.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Problems are all the problems of a file, in the order of their places. As an
// error they show each with its line and a caret.
type Problems struct {
	File  string
	List  []Problem
	lines []string
}

// Failed reports whether any problem is an error.
func (p *Problems) Failed() bool {
	return slices.ContainsFunc(p.List, func(p Problem) bool { return p.Severity == SeverityError })
}

// Error implements error.
func (p *Problems) Error() string {
	var b strings.Builder
	for i, problem := range p.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Describe(problem))
	}
	return b.String()
}

// Describe writes one problem as file:line:column: message, the source line and
// a caret.
func (p *Problems) Describe(problem Problem) string {
	message := problem.Message
	if problem.Severity == SeverityWarning {
		message = "warning: " + message
	}
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, problem.Line, problem.Column, message)
	if problem.Line < 1 || problem.Line > len(p.lines) {
		return s
	}
	line := strings.Map(printable, p.lines[problem.Line-1])
	return s + "\n | " + line + "\n | " + strings.Repeat(" ", max(0, problem.Column-1)) + "^"
}

func (p *Problems) sort() {
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// printable keeps one place for each character, and what would move a terminal's
// cursor out of it.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
