package importer

import (
	"fmt"
	"strings"
)

// haLine is a line of HAProxy in words.
type haLine struct {
	Place
	words []string
}

// text returns the line as one text.
func (l *haLine) text() string { return strings.Join(l.words, " ") }

// word returns a word, "" behind the last one.
func (l *haLine) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

// haLines takes a file apart. Quotes and backslashes keep spaces in a word (parse_line in src/tools.c).
func haLines(file, text string) (list []haLine, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, bad := haWords(strings.TrimRight(line, "\r\n"))
		if bad != "" {
			return nil, &Error{Place{file, number}, bad}
		}

		// Lines of a comment alone are none. A file is hostile, so their number is bounded.
		if len(words) > 0 {
			list = append(list, haLine{Place{file, number}, words})
		}
		if len(list) > mostDirectives {
			return nil, &Error{Place{file, number}, fmt.Sprintf("more than %d lines", mostDirectives)}
		}
	}
	return list, nil
}

// haWords takes a line apart.
func haWords(line string) (words []string, bad string) {
	var b strings.Builder
	inside, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			if inside {
				words = append(words, b.String())
			}
			b.Reset()
			inside = false
			continue
		case quote == 0 && c == '#':
			i = len(line)
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote, inside = c, true
			continue
		case quote == c:
			quote = 0
			continue
		case c == '\\' && quote != '\'':
			// A regular expression keeps a backslash, unless a sign of the configuration follows.
			if i++; i == len(line) {
				return nil, "a backslash ends the line"
			}
			if strings.IndexByte(" #\\\"'$", line[i]) < 0 {
				b.WriteByte('\\')
			}
			c = line[i]
		}
		b.WriteByte(c)
		inside = true
	}

	if quote != 0 {
		return nil, "the quote is not closed"
	}
	if inside {
		words = append(words, b.String())
	}
	return words, ""
}
