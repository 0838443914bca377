package importer

import (
	"fmt"
	"strings"
)

// nginxLexer takes a file of nginx apart into words, as ngx_conf_read_token does.
type nginxLexer struct {
	file string
	text string
	at   int
	line int
}

// nginxToken is a word, or one of ; { } and the end.
type nginxToken struct {
	kind byte // 'w', ';', '{', '}', 0 for the end
	text string
	line int
}

func (l *nginxLexer) errorf(line int, format string, args ...any) error {
	return &Error{Place{l.file, line}, fmt.Sprintf(format, args...)}
}

// next returns the next token.
func (l *nginxLexer) next() (nginxToken, error) {
	l.skipSpace()
	if l.at == len(l.text) {
		return nginxToken{line: l.line}, nil
	}

	switch c := l.text[l.at]; c {
	case ';', '{', '}':
		l.at++
		return nginxToken{kind: c, line: l.line}, nil
	case '"', '\'':
		return l.quoted(c)
	}
	return l.word(), nil
}

// skipSpace goes to the next token. A comment begins where a word could.
func (l *nginxLexer) skipSpace() {
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case '\n':
			l.line++
			l.at++
		case ' ', '\t', '\r':
			l.at++

		// The last line of a file may be a comment, and end without a line feed.
		case '#':
			end := strings.IndexByte(l.text[l.at:], '\n')
			if end < 0 {
				l.at = len(l.text)
				return
			}
			l.at += end
		default:
			return
		}
	}
}

// word returns a word without quotes. A brace ends it, but for one behind a $, as in ${name}.
func (l *nginxLexer) word() nginxToken {
	start := l.at
	var b strings.Builder

	for l.at < len(l.text) {
		c := l.text[l.at]
		if strings.IndexByte(" \t\r\n;", c) >= 0 || c == '{' && (l.at == start || l.text[l.at-1] != '$') {
			break
		}
		if c == '\\' {
			b.WriteString(l.escape())
			continue
		}
		b.WriteByte(c)
		l.at++
	}
	return nginxToken{'w', b.String(), l.line}
}

// quoted returns a word in quotes.
func (l *nginxLexer) quoted(quote byte) (nginxToken, error) {
	first := l.line
	var b strings.Builder

	for l.at++; l.at < len(l.text); {
		switch c := l.text[l.at]; c {
		case quote:
			l.at++
			return nginxToken{'w', b.String(), first}, nil
		case '\\':
			b.WriteString(l.escape())
		default:
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
			l.at++
		}
	}
	return nginxToken{}, l.errorf(first, "the quote is not closed")
}

// escape returns what a backslash and the character behind it stand for: nginx keeps the backslash before most characters.
func (l *nginxLexer) escape() string {
	if l.at+1 == len(l.text) {
		l.at++
		return `\`
	}

	c := l.text[l.at+1]
	l.at += 2
	switch c {
	case '"', '\'', '\\':
		return string(c)
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	}

	// What follows may be a part of a longer character, or the line's end.
	l.at--
	if c == '\n' {
		l.at++
		l.line++
		return "\\\n"
	}
	if strings.IndexByte(" ;{}", c) >= 0 {
		l.at++
		return `\` + string(c)
	}
	return `\`
}

// skipCode skips the body of a block in another language up to its closing brace.
func (l *nginxLexer) skipCode() error {
	// Braces in its texts and comments are counted, too: this knows no language but nginx's.
	first := l.line
	depth := 1

	for ; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case '\n':
			l.line++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				l.at++
				return nil
			}
		}
	}
	return l.errorf(first, "the block of code is not closed")
}
