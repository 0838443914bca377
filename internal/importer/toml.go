package importer

import (
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlReader makes a tree of the expressions of a TOML file: only this parser of go-toml says where each of them stands.
type tomlReader struct {
	file, text string
	parser     unstable.Parser
	at         uint32 // of the last place
	line       int    // there, from 1
	left       int    // values that may still be made
}

func tomlValue(name, text string) (*value, error) {
	r := &tomlReader{file: name, text: text, line: 1, left: mostValues}
	root := &value{Place: Place{name, 1}, kind: mappingKind}
	table := root
	r.parser.Reset([]byte(text))
	for r.parser.NextExpression() {
		e := r.parser.Expression()
		keys, at := r.keys(e)
		var err error
		switch e.Kind {
		case unstable.Table:
			table, err = r.child(root, keys, at, mappingKind)
		case unstable.ArrayTable:
			var list *value
			if list, err = r.child(root, keys, at, listKind); err == nil {
				table = &value{Place: at, kind: mappingKind}
				list.list = append(list.list, table)
			}
		case unstable.KeyValue:
			err = r.set(table, e, 0)
		}
		if err != nil {
			return nil, err
		}
	}

	err := r.parser.Error()
	if err == nil {
		return root, nil
	}
	at := Place{name, 1}
	var p *unstable.ParserError
	if errors.As(err, &p) && len(p.Highlight) > 0 {
		at = r.place(r.parser.Range(p.Highlight).Offset)
	}
	return nil, &Error{at, "not TOML: " + shown(err.Error())}
}

// place returns the place of an offset. Most are asked for in their order.
func (r *tomlReader) place(offset uint32) Place {
	if offset < r.at {
		r.at, r.line = 0, 1
	}
	r.line += strings.Count(r.text[r.at:offset], "\n")
	r.at = offset
	return Place{r.file, r.line}
}

// keys returns the parts of a dotted key, and its place.
func (r *tomlReader) keys(n *unstable.Node) (keys []string, at Place) {
	at = Place{r.file, 1}
	for it := n.Key(); it.Next(); {
		if len(keys) == 0 {
			at = r.place(it.Node().Raw.Offset)
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, at
}

// child returns what a dotted key names inside a table. The tables on the way are made, and of an array of tables the last one counts.
func (r *tomlReader) child(v *value, keys []string, at Place, last kind) (*value, error) {
	for i, key := range keys {
		want := mappingKind
		if i == len(keys)-1 {
			want = last
		}
		found := slices.IndexFunc(v.fields, func(f field) bool { return f.key == key })
		if found < 0 {
			next := &value{Place: at, kind: want}
			if err := r.add(v, key, next); err != nil {
				return nil, err
			}
			v = next
			continue
		}

		switch v = v.fields[found].value; {
		case v.kind == want:
		case v.kind == listKind && len(v.list) > 0:
			v = v.list[len(v.list)-1]
		default:
			return nil, &Error{at, "the key " + shown(key) + " stands here twice"}
		}
	}
	return v, nil
}

// add adds a field to a table.
func (r *tomlReader) add(v *value, key string, one *value) error {
	if r.left--; r.left < 0 || len(v.fields) >= mostItems {
		return &Error{one.Place, "too many values"}
	}
	if slices.ContainsFunc(v.fields, func(f field) bool { return f.key == key }) {
		return &Error{one.Place, "the key " + shown(key) + " stands here twice"}
	}
	v.fields = append(v.fields, field{key, one.Place, one})
	return nil
}

// set reads a key with its value into a table.
func (r *tomlReader) set(v *value, n *unstable.Node, depth int) error {
	keys, at := r.keys(n)
	one, err := r.value(n.Value(), at, depth)
	if err != nil {
		return err
	}
	if v, err = r.child(v, keys[:len(keys)-1], at, mappingKind); err != nil {
		return err
	}
	return r.add(v, keys[len(keys)-1], one)
}

// value reads a value. Those inside an array stand at the line of its key.
func (r *tomlReader) value(n *unstable.Node, at Place, depth int) (*value, error) {
	if r.left--; r.left < 0 || depth > mostDepth {
		return nil, &Error{at, "too many values"}
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
