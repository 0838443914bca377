package policies

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The forms { } and [ ] of YAML take brackets and commas of an expression for their own, and package yaml tells the line and nothing
// else. So the line is read here, as far as its own brackets and quotes go.
var (
	// commaMissing is a value in such a form that another field follows, as in { limit: 10 window: 1m }.
	commaMissing = regexp.MustCompile(`[{,] *\w+: +(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^,{}\[\]"' ]+) +(\w+): `)
	// bracketOfName is a bracket that belongs to a name and so to an expression, as in { key: request.headers["x"] }.
	bracketOfName = regexp.MustCompile(`[A-Za-z_][\w.]*[\[{]`)
	// beforeValue is what stands in front of a value in such a form.
	beforeValue = regexp.MustCompile(`^.*(?:[\[{,]|: ) *`)
)

// bracket is one that is open, by its place in a line.
type bracket struct {
	open rune
	at   int // in bytes
}

// openBrackets returns the brackets of a line that are not closed in it, and the place of the first that closes none, -1 if each does.
// Brackets in quotes are text.
func openBrackets(line string) (open []bracket, extra int) {
	// quote is the sign that ends the text, 0 outside of one. A doubled '' ends it and begins the next, which comes to the same.
	var quote rune

	for at, c := range line {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		// YAML takes # for a comment at the begin of a line and behind a space.
		case c == '#' && (at == 0 || line[at-1] == ' '):
			return open, -1
		case c == '{' || c == '[':
			open = append(open, bracket{c, at})
		case c == '}' || c == ']':
			if len(open) == 0 {
				return nil, at
			}
			open = open[:len(open)-1]
		}
	}
	return open, -1
}

// flow finds the mistake of a line with { } or [ ], by the message of package yaml. Its line counts from 1, and may be the one after
// the last, where a bracket is open at the end of the file.
func (r *reader) flow(line int, message string) (at, column int, mistake string) {
	if line > len(r.lines) {
		return 0, 0, ""
	}
	switch {
	case strings.Contains(message, "did not find expected ',' or"):
		return r.inFlow(line, r.lines[line-1])
	case strings.Contains(message, "did not find expected key"):
		return r.closedTwice(line)
	}
	return 0, 0, ""
}

// inFlow finds a missing comma, an expression that needs quotes, or the bracket that is not closed.
func (r *reader) inFlow(line int, text string) (at, column int, mistake string) {
	if m := commaMissing.FindStringSubmatchIndex(text); m != nil {
		return line, columnOf(text, m[2]), fmt.Sprintf("a comma is missing in front of %s", text[m[2]:m[3]])
	}

	// Within the form a bracket behind a name is an expression's. Its value begins behind the last sign of the form.
	open, _ := openBrackets(text)
	for _, m := range bracketOfName.FindAllStringIndex(text, -1) {
		if inside, _ := openBrackets(text[:m[0]]); len(inside) > 0 {
			begin := len(beforeValue.FindString(text[:m[0]]))

			// The quotes go around all of the value. Its end is not known, as package yaml stopped within it.
			return line, columnOf(text, begin), "within { } and [ ] an expression with brackets, braces or a comma needs quotes: '" +
				strings.TrimRight(text[begin:m[1]], " ") + "...'"
		}
	}
	if len(open) > 0 {
		last := open[len(open)-1]
		return line, columnOf(text, last.at), fmt.Sprintf("the %c that begins here is not closed", last.open)
	}
	return 0, 0, ""
}

// closedTwice finds a bracket too many. The error names the line on which the fields begin.
func (r *reader) closedTwice(line int) (at, column int, mistake string) {
	for at := line; at <= len(r.lines); at++ {
		text := r.lines[at-1]
		if _, extra := openBrackets(text); extra >= 0 && strings.ContainsAny(text[:extra], "{[") {
			return at, columnOf(text, extra), fmt.Sprintf("a %c too many", text[extra])
		}
	}
	return 0, 0, ""
}

// columnOf returns the column of a place in a line, in characters from 1.
func columnOf(line string, at int) int { return utf8.RuneCountInString(line[:at]) + 1 }
