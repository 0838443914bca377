package importer

import (
	"errors"
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

const mostDirectives = 200_000

// file parses one file.
func (p *nginxParser) file(name string) ([]*directive, error) {
	text, err := p.disk.read(name)
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
		p.in.leave(d.Place, d.text(), "no such file here: what it has is not carried over")
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
			p.in.leave(d.Place, d.text(), "cannot be read (%v): what it has is not carried over", err)
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
