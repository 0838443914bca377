package policies

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Package yaml stops at the first character that fits nowhere, which is often far behind the mistake: quotes in quotes end the text
// early, and the rest of the line looks like a field that stands in the wrong column. So the commonest mistakes are looked for
// in the text of the file, and any other is told in the words of the package.
var (
	// yamlLine takes the line apart from the message of an error of package yaml, which
	// has no other form for it.
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	// yamlLineBefore are the messages of its parser, which counts lines from 0. Its scanner
	// counts them from 1.
	yamlLineBefore = regexp.MustCompile(`^did not find expected (<|node|'-' ind|key|',')|` +
		`^found (undefined tag handle|duplicate|incompatible)`)
	// unknownAlias is what it says of an alias, without a line.
	unknownAlias = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)
	// unreadable is what it says of bytes that are no text, without a line.
	unreadable = regexp.MustCompile(`UTF-8|control characters`)

	// indentedByTab is a line that YAML refuses for its indentation.
	indentedByTab = regexp.MustCompile(`^ *\t`)
	// quotedEarly is a line whose value is in quotes, which end before the line does. In single quotes a quote is written twice, in
	// double quotes behind a backslash. A comment may follow, or what closes a list.
	quotedEarly = regexp.MustCompile(`^((?: *-)* *(?:[^:'"]+: +)?(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*") *)[^ #,\]}:]`)
	// quoteBegins is a line whose value begins with a quote.
	quoteBegins = regexp.MustCompile(`^(?: *-)* *[^:'"#]+: +(['"])`)
	// secondColon is a line with a second "name: value", as in limit: 10 window: 1m.
	secondColon = regexp.MustCompile(`^(?: *-)* *[^:]+: +.*?(:)(?: |$)`)
)

// failYAML notes an error of the decoder, with the fields that a whole file has. The error names a line and no column.
func (r *reader) failYAML(err error, fields string) {
	if errors.Is(err, io.EOF) {
		r.failAt(1, 1, "the file is empty: want %s", fields)
		return
	}

	line, message := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(strings.SplitN(message, "\n", 2)[0]); m != nil {
		line, _ = strconv.Atoi(m[1]) // 0 where the error names no line: failAt takes it as 1
		message = m[2]
	}
	if line > 0 && yamlLineBefore.MatchString(message) {
		line++
	}

	// What people get wrong most often is found in the text, because package yaml tells where the broken part begins, and not where the
	// mistake is.
	for _, find := range []func(line int, message string) (at, column int, mistake string){
		r.tab, r.unreadable, r.noBreakSpace, r.alias, r.flow, r.openQuote, r.quotesEndEarly, r.dashWithoutSpace, r.misindented, r.tooDeep,
		r.colonInText, r.badStart,
	} {
		if at, column, mistake := find(max(1, line), message); column > 0 {
			r.failAt(at, column, "not YAML: %s", mistake)
			return
		}
	}
	r.failAt(line, 1, "not YAML: %s%s", message, remedyOfYAML(message))
}

// remediesOfYAML say what to do about a message of package yaml, which names the line on which the broken part begins.
var remediesOfYAML = []struct{ part, remedy string }{
	{"could not find expected ':'", "a field is written name: value, with a space behind the colon"},
	{"did not find expected ',' or", "the { or [ of this line is not closed"},
	{"did not find expected '-' indicator", "in the list that begins here a line stands in another column than its siblings"},
	{"did not find expected key", "among the fields that begin here a line stands in another column than its siblings"},
	{"mapping values are not allowed", "the line stands further to the right than its siblings"},
	{"cannot start any token", "a text that begins with such a character needs quotes"},
	{"did not find expected whitespace or line break", dropsTag},
}

// dropsTag says what YAML makes of an expression that begins with a negation.
const dropsTag = "YAML takes a ! at the beginning for a tag, and drops it: put the expression in quotes, such as '!(...)'"

// remedyOfYAML returns the remedy, "" for other messages.
func remedyOfYAML(message string) string {
	for _, known := range remediesOfYAML {
		if strings.Contains(message, known.part) {
			return ": " + known.remedy
		}
	}
	return ""
}

// tab finds a tab in the indentation, which an editor shows as spaces. The error names the line of the tab, or the line above
// it on which the interrupted value begins. Column 0: the error is about something else.
func (r *reader) tab(line int, message string) (at, column int, mistake string) {
	last := line
	switch {
	case strings.Contains(message, "a tab character"):
		last = len(r.lines)
	case !strings.Contains(message, "cannot start any token"):
		return 0, 0, ""
	}

	// The first line that is indented by a tab is the one, for package yaml stops there.
	for at := line; at <= min(last, len(r.lines)); at++ {
		if tab := indentedByTab.FindString(r.lines[at-1]); tab != "" {
			return at, len(tab), "a tab in the indentation: replace it by spaces"
		}
	}
	return 0, 0, ""
}

// unreadable finds the first byte that is no text.
func (r *reader) unreadable(_ int, message string) (at, column int, mistake string) {
	if !unreadable.MatchString(message) {
		return 0, 0, ""
	}

	// A byte that is not UTF-8 is a RuneError of one byte: the character of that name, which a file may have, has three.
	for i, line := range r.lines {
		for at, c := range line {
			switch _, size := utf8.DecodeRuneInString(line[at:]); {
			case c == utf8.RuneError && size == 1:
				return i + 1, at + 1, "a byte that is not UTF-8: save the file as UTF-8"
			case c < ' ' && c != '\t' || c == 0x7f:
				return i + 1, at + 1, "a control character: remove it"
			}
		}
	}
	return 0, 0, ""
}

// noBreakSpaceBehind is a no-break space that stands in no text and in no comment. Word processors and web pages write it.
var noBreakSpaceBehind = regexp.MustCompile("^[^#'\"]*?\u00a0")

// noBreakSpace finds a space that YAML takes for a letter.
func (r *reader) noBreakSpace(_ int, _ string) (at, column int, mistake string) {
	// The space may be the reason for an error anywhere below it, so every line is looked at.
	for i, line := range r.lines {
		if before := noBreakSpaceBehind.FindString(line); before != "" {
			return i + 1, utf8.RuneCountInString(before), "a no-break space, which looks like a space and is a letter to YAML: replace it by a space"
		}
	}
	return 0, 0, ""
}

// alias finds a text that begins with an asterisk, as in host: *.example.com. The error names no line, so the first one with that text
// is taken.
func (r *reader) alias(_ int, message string) (at, column int, mistake string) {
	m := unknownAlias.FindStringSubmatch(message)
	if m == nil {
		return 0, 0, ""
	}

	for i, line := range r.lines {
		if column := strings.Index(line, "*"+m[1]) + 1; column > 0 {
			return i + 1, column, "YAML takes *" + m[1] + " for an alias, and there is no &" + m[1] + ": put a text that begins with * in quotes"
		}
	}
	return 0, 0, ""
}

// quotesEndEarly finds an expression in quotes that are those of a text in it. The error names the line, or the one on which the
// mapping begins.
func (r *reader) quotesEndEarly(line int, message string) (at, column int, mistake string) {
	last := len(r.lines)
	switch {
	// An & behind the quotes is an anchor, and a colon there begins another field.
	case strings.Contains(message, "alphabetic or numeric"), strings.Contains(message, "mapping values are not allowed"):
		last = line
	case !strings.Contains(message, "did not find expected key"), strings.Contains(message, "'-' indicator"):
		return 0, 0, ""
	}

	for at := line; at <= min(last, len(r.lines)); at++ {
		if m := quotedEarly.FindStringSubmatch(r.lines[at-1]); m != nil {
			return at, len(m[1]) + 1, "the quotes end before the text does: put all of an expression in single quotes, " +
				"and texts in it in double ones, such as '" + `"a" in b` + "'"
		}
	}
	return 0, 0, ""
}

// openQuote finds a quote that is not closed on its line, and ends with the quote that begins another value. A text of several lines
// in quotes is rare, and as well written as any other until the file goes on behind it.
func (r *reader) openQuote(_ int, message string) (at, column int, mistake string) {
	if strings.Contains(message, "unexpected end of stream") {
		return r.lastQuote()
	}
	if !strings.Contains(message, "did not find expected key") && !strings.Contains(message, "mapping values are not allowed") {
		return 0, 0, ""
	}

	for at := 1; at < len(r.lines); at++ {
		m := quoteBegins.FindStringSubmatchIndex(r.lines[at-1])
		if m == nil {
			continue
		}
		quote := r.lines[at-1][m[2]:m[3]]
		if strings.Contains(r.lines[at-1][m[3]:], quote) {
			continue
		}

		// The quote ends on the first line below that has another one.
		for next := at + 1; next <= len(r.lines); next++ {
			if strings.Contains(r.lines[next-1], quote) {
				if quoteBegins.MatchString(r.lines[next-1]) {
					return at, m[2] + 1, "the quote that begins here is not closed on its line"
				}
				break
			}
		}
	}
	return 0, 0, ""
}

// lastQuote finds the quote that is open at the end of the file: it is alone on its line. Package yaml names the last line, which may be
// pages below.
func (r *reader) lastQuote() (at, column int, mistake string) {
	for i, line := range r.lines {
		m := quoteBegins.FindStringSubmatchIndex(line)
		if m != nil && !strings.Contains(line[m[3]:], line[m[2]:m[3]]) {
			return i + 1, columnOf(line, m[2]), "the quote that begins here is not closed"
		}
	}
	return 0, 0, ""
}

// dashOfItem is an item of a list without the space behind its sign, as in -name: checkout. A negative number has no letter there.
var dashOfItem = regexp.MustCompile(`^ *-[A-Za-z_]\w*:(?: |$)`)

// dashWithoutSpace finds such an item, which is a field with a strange name to YAML. The error names a line below it.
func (r *reader) dashWithoutSpace(line int, _ string) (at, column int, mistake string) {
	for at := 1; at <= min(line, len(r.lines)); at++ {
		if text := r.lines[at-1]; dashOfItem.MatchString(text) {
			return at, strings.Index(text, "-") + 1, "a space is missing behind the dash: - name: ..."
		}
	}
	return 0, 0, ""
}

// fieldBegins is the begin of a line up to its field.
var fieldBegins = regexp.MustCompile(`^ *(?:- +)*`)

// hasValue is a line whose field has a value on the line.
var hasValue = regexp.MustCompile(`^ *(?:- +)*[\w-]+: +[^ |>#&]`)

// tooDeep finds a field that stands further to the right than the one above it, which has a value already.
func (r *reader) tooDeep(line int, message string) (at, column int, mistake string) {
	if !strings.Contains(message, "mapping values are not allowed") || line < 2 || line > len(r.lines) {
		return 0, 0, ""
	}

	here, above := len(fieldBegins.FindString(r.lines[line-1])), len(fieldBegins.FindString(r.lines[line-2]))
	if here <= above || !hasValue.MatchString(r.lines[line-2]) {
		return 0, 0, ""
	}
	return line, here + 1,
		fmt.Sprintf("this line begins in column %d, and the field above it in column %d: indent them alike", here+1, above+1)
}

// reserved is a value that begins with a sign that YAML keeps for itself, as in key: @user.
var reserved = regexp.MustCompile("(?::|-|\\[|\\{|,) +([@`%])")

// badStart finds a text that needs quotes for its first character.
func (r *reader) badStart(line int, message string) (at, column int, mistake string) {
	if !strings.Contains(message, "cannot start any token") || line > len(r.lines) {
		return 0, 0, ""
	}

	m := reserved.FindStringSubmatchIndex(r.lines[line-1])
	if m == nil {
		return 0, 0, ""
	}
	return line, columnOf(r.lines[line-1], m[2]), "a text that begins with " + r.lines[line-1][m[2]:m[3]] + " needs quotes"
}

// colonInText finds a second colon of a line.
func (r *reader) colonInText(line int, message string) (at, column int, mistake string) {
	if !strings.Contains(message, "mapping values are not allowed") || line > len(r.lines) {
		return 0, 0, ""
	}

	m := secondColon.FindStringSubmatchIndex(r.lines[line-1])
	if m == nil {
		return 0, 0, ""
	}
	return line, m[2] + 1, "a second colon with a space behind it: put a text or an expression with one in quotes, " +
		"and a second field on a line of its own or both into { }"
}
