package importer

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// directive is a directive of nginx with its block.
type directive struct {
	Place
	name  string
	args  []string
	block []*directive
}

// text returns the directive as the configuration has it, without its block.
func (d *directive) text() string { return strings.Join(append([]string{d.name}, d.args...), " ") }

// nginxParser makes a tree of a file and of the files that it includes.
type nginxParser struct {
	disk *disk
	in   *Import
	root string   // the folder of the main file, to which nginx takes names of files as relative
	open []string // the files that are being read, each included by the one before
	all  int      // directives so far
}

// mostDirectives bounds the directives of all files, and the lines of a file of HAProxy.
const mostDirectives = 200_000

func (p *nginxParser) file(name string) ([]*directive, error) {
	text, err := p.disk.script(name)
	if err != nil {
		return nil, err
	}

	p.open = append(p.open, name)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	return p.block(&nginxLexer{file: name, text: text, line: 1}, 0)
}

// block parses directives up to the closing brace of a block, or the end of a file at depth 0.
func (p *nginxParser) block(l *nginxLexer, depth int) (list []*directive, err error) {
	if depth > mostDepth {
		return nil, l.errorf(l.line, "more than %d blocks one inside the other", mostDepth)
	}

	for {
		first, err := l.next()
		switch {
		case err != nil:
			return nil, err
		case first.kind == 0 && depth > 0:
			return nil, l.errorf(first.line, "the end of the file is inside a block: a } is missing")
		case first.kind == 0 || first.kind == '}' && depth > 0:
			return list, nil
		case first.kind != 'w':
			return nil, l.errorf(first.line, "unexpected %q", string(first.kind))
		}

		d, err := p.directive(l, first, depth)
		if err != nil {
			return nil, err
		}
		if d.name != "include" || len(d.args) != 1 {
			list = append(list, d)
			continue
		}
		included, err := p.include(d)
		if err != nil {
			return nil, err
		}
		list = append(list, included...)
	}
}

// directive parses what follows its first word.
func (p *nginxParser) directive(l *nginxLexer, first nginxToken, depth int) (*directive, error) {
	if p.all++; p.all > mostDirectives {
		return nil, l.errorf(first.line, "more than %d directives", mostDirectives)
	}

	d := &directive{Place: Place{l.file, first.line}, name: first.text}
	for {
		token, err := l.next()
		if err != nil {
			return nil, err
		}
		switch token.kind {
		case 'w':
			d.args = append(d.args, token.text)
		case ';':
			return d, nil
		case '{':
			// A block of Lua is no text of nginx.
			if strings.HasSuffix(d.name, "_by_lua_block") {
				return d, l.skipCode()
			}
			d.block, err = p.block(l, depth+1)
			return d, err
		default:
			return nil, l.errorf(first.line, "%s is not ended by ; or {: is the file a configuration of nginx?", d.name)
		}
	}
}

// include reads the files that an include names. A file that is missing here is often no part of what limits, such as mime.types,
// so the rest is read without it.
func (p *nginxParser) include(d *directive) (list []*directive, err error) {
	if len(p.open) > mostIncludes {
		return nil, &Error{d.Place, "files include one another more than 16 deep"}
	}

	names := p.named(d.args[0], filepath.Dir(d.File))
	if len(names) == 0 && !strings.ContainsAny(d.args[0], "*?[") {
		p.in.leave(d.Place, d.text(), "no such file here: what it has is not read")
	}

	for _, name := range names {
		if slices.Contains(p.open, name) {
			return nil, &Error{d.Place, "the file includes itself: " + name}
		}
		part, err := p.file(name)
		var refused *Error
		if errors.As(err, &refused) {
			return nil, err
		}
		if err != nil {
			p.in.leave(d.Place, d.text(), "cannot be read (%v): what it has is not read", err)
		}
		list = append(list, part...)
	}
	return list, nil
}

// named returns the files that a pattern names: relative to the folder of the main file, as nginx has it, or to that of the
// file with the include, for a part of a configuration that lies elsewhere than on its server.
func (p *nginxParser) named(pattern, here string) []string {
	if filepath.IsAbs(pattern) {
		return p.disk.matching(pattern)
	}
	if names := p.disk.matching(filepath.Join(p.root, pattern)); len(names) > 0 {
		return names
	}
	return p.disk.matching(filepath.Join(here, pattern))
}

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

func (l *nginxLexer) next() (nginxToken, error) {
	l.skipSpace()
	if l.at == len(l.text) {
		return nginxToken{line: l.line}, nil
	}

	first := l.line
	switch c := l.text[l.at]; c {
	case ';', '{', '}':
		l.at++
		return nginxToken{kind: c, line: first}, nil
	case '"', '\'':
		l.at++
		text := l.until(func() bool { return l.text[l.at] == c })
		if l.at == len(l.text) {
			return nginxToken{}, l.errorf(first, "the quote is not closed")
		}
		l.at++
		return nginxToken{'w', text, first}, nil
	}

	// A brace ends a word, but for one behind a $, as in ${name}.
	start := l.at
	text := l.until(func() bool {
		c := l.text[l.at]
		return strings.IndexByte(" \t\r\n;", c) >= 0 || c == '{' && (l.at == start || l.text[l.at-1] != '$')
	})
	return nginxToken{'w', text, first}, nil
}

// skipSpace goes to the next token. A comment begins where a word could.
func (l *nginxLexer) skipSpace() {
	for comment := false; l.at < len(l.text); l.at++ {
		switch c := l.text[l.at]; {
		case c == '\n':
			l.line++
			comment = false
		case comment || c == ' ' || c == '\t' || c == '\r':
		case c == '#':
			comment = true
		default:
			return
		}
	}
}

// until returns the text up to its end. A backslash keeps the character behind it from ending the text, and only goes itself
// before quotes and backslashes.
func (l *nginxLexer) until(ends func() bool) string {
	var b strings.Builder
	for ; l.at < len(l.text) && !ends(); l.at++ {
		if l.text[l.at] == '\\' && l.at+1 < len(l.text) {
			l.at++
			if strings.IndexByte(`"'\`, l.text[l.at]) < 0 {
				b.WriteByte('\\')
			}
		}
		if l.text[l.at] == '\n' {
			l.line++
		}
		b.WriteByte(l.text[l.at])
	}
	return b.String()
}

// skipCode skips the body of a block in another language up to its closing brace. Braces in its texts and comments are counted, too:
// this knows no language but nginx's.
func (l *nginxLexer) skipCode() error {
	first := l.line
	for depth := 1; l.at < len(l.text); l.at++ {
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
