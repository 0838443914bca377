package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a value of a YAML, JSON or TOML file with its place. A nil value is one that is not there, and may be asked like any other.
type value struct {
	Place
	text   string // of a scalar
	list   []*value
	fields []field
	kind   kind
	size   int // of it and all inside, an alias counted as what it names
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
		if v == nil {
			return nil
		}

		i := slices.IndexFunc(v.fields, func(f field) bool { return strings.EqualFold(f.key, name) })
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

// entries returns the fields of a mapping.
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

// unknown names the fields of a mapping that an importer does not know.
func (in *Import) unknown(v *value, what string, known ...string) {
	for _, f := range v.entries() {
		same := func(name string) bool { return strings.EqualFold(name, f.key) }
		if !slices.ContainsFunc(known, same) {
			in.leave(f.at, what+" "+f.key, "unknown to the importer: if it limits requests, or decides which are limited, no policy has that")
		}
	}
}

// mostDocuments bounds the documents of a file.
const mostDocuments = 1000

// documents reads a file of YAML, of JSON, which is YAML, or of TOML.
func (d *disk) documents(name string) ([]*value, error) {
	text, err := d.read(name)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(name), ".toml") {
		v, err := tomlValue(name, text)
		return []*value{v}, err
	}

	// Tabs are in no string of JSON, and YAML does not take them.
	if json.Valid([]byte(text)) {
		text = strings.ReplaceAll(text, "\t", " ")
	}
	return yamlValues(name, text)
}

func yamlValues(name, text string) (list []*value, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for len(list) < mostDocuments {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, yamlError(name, err)
		}

		c := conversion{file: name, made: map[*yaml.Node]*value{}}
		v, err := c.value(root.Content[0], 0)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return nil, &Error{Place{name, 1}, fmt.Sprintf("more than %d documents", mostDocuments)}
}

// yamlError finds the line in an error of package yaml.
func yamlError(name string, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, found := strings.CutPrefix(message, "line "); found {
		number, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, message = max(1, n), after
		}
	}
	return &Error{Place{name, line}, "not YAML: " + shown(message)}
}

// mostValues bounds the values of a document as an importer meets them: a few aliases of aliases stand for millions.
const mostValues = 200_000

// conversion makes values of YAML's nodes. An alias is the value that it names, and no copy of it.
type conversion struct {
	file string
	made map[*yaml.Node]*value
}

func (c *conversion) value(n *yaml.Node, depth int) (*value, error) {
	at := Place{c.file, max(1, n.Line)}
	if depth > mostDepth {
		return nil, &Error{at, fmt.Sprintf("more than %d values one inside the other", mostDepth)}
	}
	if n.Kind == yaml.AliasNode {
		v := c.made[n.Alias]
		if v == nil {
			return nil, &Error{at, "an alias of a value that it is inside of"}
		}
		return v, nil
	}

	v := &value{Place: at, text: n.Value}
	switch n.Kind {
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
		if err := c.fields(v, n, depth); err != nil {
			return nil, err
		}
	case yaml.ScalarNode:
		v.kind = scalarKind
		if n.Tag == "!!null" {
			v.kind, v.text = none, ""
		}
	}

	if err := v.measure(); err != nil {
		return nil, err
	}
	c.made[n] = v
	return v, nil
}

// measure notes the size of a value of which the parts have theirs.
func (v *value) measure() error {
	v.size = 1
	for _, item := range v.list {
		v.size += item.size
	}
	for _, f := range v.fields {
		v.size += f.value.size
	}

	if v.size > mostValues {
		return &Error{v.Place, fmt.Sprintf("more than %d values", mostValues)}
	}
	return nil
}

// mostFields bounds the fields that merges bring into a mapping: a file of a few kilobytes can merge millions.
const mostFields = 10_000

// fields converts a mapping. Fields that << merges come behind its own, which get finds first.
func (c *conversion) fields(v *value, n *yaml.Node, depth int) error {
	var merged []field
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
			if len(merged) > mostFields {
				return &Error{v.Place, fmt.Sprintf("more than %d fields are merged", mostFields)}
			}
			continue
		}

		v.fields = append(v.fields, field{key.Value, Place{c.file, max(1, key.Line)}, one})
	}
	v.fields = append(v.fields, merged...)
	return nil
}
