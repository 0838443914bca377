package importer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a value of a YAML, JSON or TOML file with its place. A nil value is one that is not there, and may be asked like any other.
type value struct {
	Place
	text   string // of a scalar
	block  bool   // the text stands in the lines behind Place, one below the other
	list   []*value
	fields []field
	kind   kind
}

// field is an entry of a mapping.
type field struct {
	key string
	at  Place
	*value
}

type kind int

const (
	none kind = iota // null
	scalarKind
	listKind
	mappingKind
)

// get returns the value of a field, nil if there is none. Peers compare names of fields exactly or without case: no file has both.
func (v *value) get(names ...string) *value {
	for _, name := range names {
		i := slices.IndexFunc(v.entries(), func(f field) bool { return strings.EqualFold(f.key, name) })
		if i < 0 {
			return nil
		}
		v = v.fields[i].value
	}
	return v
}

// str returns the text of a field, "" if there is none.
func (v *value) str(name string) string {
	f := v.get(name)
	if f == nil {
		return ""
	}
	return f.text
}

// items returns the values of a list.
func (v *value) items() []*value {
	if v == nil {
		return nil
	}
	return v.list
}

// texts returns a list of texts; one text is a list of one.
func (v *value) texts() (list []string) {
	if v != nil && v.kind == scalarKind {
		return []string{v.text}
	}
	for _, item := range v.items() {
		list = append(list, item.text)
	}
	return list
}

func (v *value) entries() []field {
	if v == nil {
		return nil
	}
	return v.fields
}

// whole returns a number that is not negative.
func (v *value) whole() (n int64, ok bool) {
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil && n >= 0
}

// on reports whether a field is true.
func (v *value) on(name string) bool { return strings.EqualFold(v.str(name), "true") }

// place returns the place of a value, or another one if it is not there.
func (v *value) place(otherwise Place) Place {
	if v == nil {
		return otherwise
	}
	return v.Place
}

// described lists some fields of a value with what they say.
func (v *value) described(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		if f := v.get(name); f != nil && f.kind != none {
			b.WriteString(", " + name + " ")
			f.brief(&b)
		}
	}
	return b.String()
}

// brief writes a value as one line of YAML, or the beginning of it.
func (v *value) brief(b *strings.Builder) {
	switch v.kind {
	case listKind:
		b.WriteByte('[')
		for i, item := range v.list[:min(len(v.list), mostWhere)] {
			b.WriteString(strings.Repeat(", ", min(i, 1)))
			item.brief(b)
		}
		b.WriteByte(']')
	case mappingKind:
		b.WriteByte('{')
		for i, f := range v.fields[:min(len(v.fields), mostWhere)] {
			b.WriteString(strings.Repeat(", ", min(i, 1)) + f.key + ": ")
			f.brief(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(v.text)
	}
}

// inside returns the objects of a List, and the configurations in the data of a ConfigMap; of anything else the value itself.
func (c *conversion) inside(v *value) (list []*value, err error) {
	switch kind := v.str("kind"); {
	case kind == "List" && v.get("items") != nil:
		for _, item := range v.get("items").items() {
			one, err := c.inside(item)
			if err != nil {
				return nil, err
			}
			list = append(list, one...)
		}
		return list, nil
	case kind != "ConfigMap":
		return []*value{v}, nil
	}

	for _, f := range v.get("data").entries() {
		c.begin, c.lines = Place{f.File, f.Line}, f.block
		values, err := c.values(f.text)
		if err != nil {
			return nil, err
		}
		for _, one := range values {
			if one.kind == mappingKind || one.kind == listKind {
				list = append(list, one)
			}
		}
	}
	if len(list) == 0 {
		return nil, &Error{v.Place, "a ConfigMap of Kubernetes without a configuration in its data"}
	}
	return list, nil
}

// values reads the documents of a text.
func (c *conversion) values(text string) (list []*value, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, c.wrong(err)
		}
		if len(root.Content) == 0 {
			continue
		}

		v, err := c.value(root.Content[0], 0)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

// wrong finds the line in an error of package yaml.
func (c *conversion) wrong(err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, found := strings.CutPrefix(message, "line "); found {
		number, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, message = max(1, n), after
		}
	}
	return &Error{c.at(line), "not YAML: " + shown(message)}
}

// mostValues bounds the values of a file, where an alias is as many as what it names: a few aliases of aliases stand for millions.
const mostValues = 200_000

// conversion makes values of YAML's nodes.
type conversion struct {
	begin Place // before the first line of the text
	left  int   // values that may still be made
	lines bool  // the lines of the text are lines of the file
}

func (c *conversion) at(line int) Place {
	if !c.lines {
		return c.begin
	}
	return Place{c.begin.File, c.begin.Line + max(1, line)}
}

func (c *conversion) value(n *yaml.Node, depth int) (*value, error) {
	at := c.at(n.Line)
	if c.left--; c.left < 0 {
		return nil, &Error{at, fmt.Sprintf("more than %d values", mostValues)}
	}
	if depth > mostDepth {
		return nil, &Error{at, fmt.Sprintf("more than %d values one inside the other", mostDepth)}
	}

	v := &value{Place: at, text: n.Value, kind: scalarKind, block: n.Style&yaml.LiteralStyle != 0}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		v.kind = listKind
		for _, item := range n.Content {
			one, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			v.list = append(v.list, one)
		}
	case yaml.MappingNode:
		v.kind = mappingKind
		return v, c.fields(v, n, depth)
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			v.kind, v.text = none, ""
		}
	}
	return v, nil
}

// fields converts a mapping. Fields that << merges come behind its own, which get finds first.
func (c *conversion) fields(v *value, n *yaml.Node, depth int) error {
	var merged []field
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		one, err := c.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if key.Tag == "!!merge" {
			merged = append(merged, one.fields...)
			for _, item := range one.list {
				merged = append(merged, item.fields...)
			}
			continue
		}

		at := c.at(key.Line)
		if seen[key.Value] {
			return &Error{at, "the field " + shown(key.Value) + " stands here twice"}
		}
		seen[key.Value] = true
		v.fields = append(v.fields, field{key.Value, at, one})
	}
	v.fields = append(v.fields, merged...)
	return nil
}
