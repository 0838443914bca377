package accesslog

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// quotedTexts returns the texts in quotes, unescaped. The last one may lack its closing quote, as on a line that was cut.
func quotedTexts(rest []byte) []string {
	list, text := make([]string, 0, 4), string(rest)
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '"')
		if i < 0 {
			return list
		}
		at += i + 1

		quoted, after, closed := cutQuoted(rest[at:])
		if list = append(list, unescape(text[at:at+len(quoted)])); !closed {
			return list
		}
		at = len(rest) - len(after)
	}
}

// cutQuoted cuts a text behind its opening quote at the closing one. A backslash escapes the next byte.
func cutQuoted(rest []byte) (text, after []byte, closed bool) {
	for from := 0; ; {
		i := bytes.IndexByte(rest[from:], '"')
		if i < 0 {
			return rest, nil, false
		}
		i += from

		// A quote after an even number of backslashes is not escaped: they escape each other.
		slashes := 0
		for slashes < i && rest[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return rest[:i], rest[i+1:], true
		}
		from = i + 1
	}
}

// unescape undoes what servers do to quotes, backslashes and control characters: \" and \n of Apache, \x22 of nginx.
func unescape(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}

	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}

		i++
		switch c := text[i]; c {
		case 'n', 't', 'r', 'b', 'v':
			b.WriteByte("\n\t\r\b\v"[strings.IndexByte("ntrbv", c)])
		case 'x', 'X':
			var one [1]byte
			if i+2 < len(text) {
				if _, err := hex.Decode(one[:], []byte(text[i+1:i+3])); err == nil {
					b.WriteByte(one[0])
					i += 2
					continue
				}
			}
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// words cuts a line at its spaces. A word in quotes may contain spaces.
func words(line []byte) (list []string) {
	for {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			return list
		}

		if line[0] == '"' {
			text, after, _ := cutQuoted(line[1:])
			list, line = append(list, unescape(string(text))), after
			continue
		}

		word, after, _ := bytes.Cut(line, []byte(" "))
		list, line = append(list, string(word)), after
	}
}
