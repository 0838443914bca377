package importer

import (
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlReader makes a tree of the expressions of a TOML file.
type tomlReader struct {
	file   string
	text   string
	lines  []int // where each line begins
	parser unstable.Parser
	values int
}

// tomlValue reads a TOML file.
func tomlValue(name, text string) (*value, error) {
	r := &tomlReader{file: name, text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}

	root := &value{Place: Place{name, 1}, kind: mappingKind}
	table := root
	r.parser.Reset([]byte(text))
	for r.parser.NextExpression() {
		e := r.parser.Expression()
		var err error
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table, err = r.open(root, e)
		case unstable.KeyValue:
			err = r.set(table, e, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.parser.Error(); err != nil {
		return nil, r.refused(err)
	}
	return root, nil
}

// refused returns the parser's error with its line.
func (r *tomlReader) refused(err error) error {
	line := 1
	var p *unstable.ParserError
	if errors.As(err, &p) && len(p.Highlight) > 0 {
		line = r.line(r.parser.Range(p.Highlight).Offset)
	}
	return &Error{Place{r.file, line}, "not TOML: " + shown(err.Error())}
}

func (r *tomlReader) line(offset uint32) int {
	return sort.SearchInts(r.lines, int(offset)+1)
}

// keys returns the parts of a dotted key, and its place.
func (r *tomlReader) keys(n *unstable.Node) (keys []string, at Place) {
	at = Place{r.file, 1}
	for it := n.Key(); it.Next(); {
		if len(keys) == 0 {
			at.Line = r.line(it.Node().Raw.Offset)
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, at
}

// open returns the table that a head names. The tables on the way are made, and of an array of tables the last one counts.
func (r *tomlReader) open(root *value, head *unstable.Node) (*value, error) {
	keys, at := r.keys(head)
	v := root
	for i, key := range keys {
		if i == len(keys)-1 && head.Kind == unstable.ArrayTable {
			list, err := r.child(v, key, at, listKind)
			if err != nil {
				return nil, err
			}
			v = &value{Place: at, kind: mappingKind}
			list.list = append(list.list, v)
			return v, nil
		}

		next, err := r.child(v, key, at, mappingKind)
		if err != nil {
			return nil, err
		}
		if v = next; next.kind == listKind && len(next.list) > 0 {
			v = next.list[len(next.list)-1]
		}
	}
	return v, nil
}

// child returns a field of a table, which it makes if there is none.
func (r *tomlReader) child(v *value, key string, at Place, want kind) (*value, error) {
	if r.values++; r.values > mostValues || len(v.fields) > mostFields {
		return nil, &Error{at, "too many values"}
	}

	i := slices.IndexFunc(v.fields, func(f field) bool { return f.key == key })
	if i < 0 {
		made := &value{Place: at, kind: want}
		v.fields = append(v.fields, field{key, at, made})
		return made, nil
	}
	if found := v.fields[i].value; found.kind == want || found.kind == listKind && len(found.list) > 0 {
		return found, nil
	}
	return nil, &Error{at, "the key " + shown(key) + " is a value and a table"}
}

// set reads a key with its value into a table.
func (r *tomlReader) set(v *value, n *unstable.Node, depth int) error {
	keys, at := r.keys(n)
	if depth > mostDepth || len(keys) > mostDepth {
		return &Error{at, "too many values one inside the other"}
	}
	for _, key := range keys[:max(0, len(keys)-1)] {
		next, err := r.child(v, key, at, mappingKind)
		if err != nil {
			return err
		}
		v = next
	}

	one, err := r.value(n.Value(), at, depth)
	if err != nil {
		return err
	}
	if r.values++; r.values > mostValues || len(v.fields) > mostFields {
		return &Error{at, "too many values"}
	}
	v.fields = append(v.fields, field{keys[len(keys)-1], at, one})
	return nil
}

// value reads a value. Those inside an array stand at the line of its key.
func (r *tomlReader) value(n *unstable.Node, at Place, depth int) (*value, error) {
	if depth > mostDepth {
		return nil, &Error{at, "too many values one inside the other"}
	}

	v := &value{Place: at, kind: scalarKind, text: string(n.Data)}
	switch n.Kind {
	case unstable.Array:
		v.kind, v.text = listKind, ""
		for it := n.Children(); it.Next(); {
			item, err := r.value(it.Node(), at, depth+1)
			if err != nil {
				return nil, err
			}
			v.list = append(v.list, item)
		}
	case unstable.InlineTable:
		v.kind, v.text = mappingKind, ""
		for it := n.Children(); it.Next(); {
			if err := r.set(v, it.Node(), depth+1); err != nil {
				return nil, err
			}
		}
	case unstable.Integer:
		v.text = strings.ReplaceAll(v.text, "_", "")
	}
	return v, nil
}
