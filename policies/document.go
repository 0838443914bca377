package policies

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// maxFileBytes bounds a policy file.
const maxFileBytes = 1 << 20

// document is a file while it is read: it knows where each node stands and
// collects what is wrong.
type document struct {
	Problems
	scope      *scope // so far
	identified bool   // the file's expressions know users
}

// fail notes an error at a node.
func (d *document) fail(n *yaml.Node, format string, args ...any) {
	d.failAt(n.Line, n.Column, format, args...)
}

func (d *document) failAt(line, column int, format string, args ...any) {
	d.List = append(d.List, Problem{SeverityError, max(1, line), max(1, column), fmt.Sprintf(format, args...)})
}

// lineBreak is what ends a line for YAML, whose line numbers are the problems'.
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// parse returns the document's root, nil if there is none to read.
func (d *document) parse(text []byte) *yaml.Node {
	d.lines = lineBreak.Split(string(text), -1)
	if len(text) > maxFileBytes {
		d.failAt(1, 1, "the file has %d bytes: at most %d are read", len(text), maxFileBytes)
		return nil
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil {
		d.failYAML(err)
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			d.failYAML(err)
			return nil
		}
		d.fail(&second, "a second document: put all policies into one")
		return nil
	}
	return root.Content[0]
}

func (d *document) failYAML(err error) {
	if errors.Is(err, io.EOF) {
		d.failAt(1, 1, "the file is empty: want version, name and policies")
		return
	}
	line, message := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(strings.SplitN(message, "\n", 2)[0]); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	d.failAt(line, 1, "not YAML: %s", message)
}

// field is one key of a mapping: how its value is read, and whether it must be there.
type field struct {
	read     func(*yaml.Node)
	required bool
}

// mapping reads a mapping by its table of fields. Unknown and duplicate fields
// are errors.
func (d *document) mapping(n *yaml.Node, what string, fields map[string]field) {
	seen := map[string]bool{}
	for key, value := range d.pairs(n, what) {
		f, known := fields[key.Value]
		switch {
		case !known:
			d.fail(key, "%s has no field %q: %s", what, key.Value, remedy(key.Value, sorted(fields)))
		case seen[key.Value]:
			d.fail(key, "%s has %q twice", what, key.Value)
		default:
			f.read(value)
		}
		seen[key.Value] = true
	}
	for _, name := range sorted(fields) {
		if fields[name].required && !seen[name] && n.Kind == yaml.MappingNode {
			d.fail(n, "%s needs %q", what, name)
		}
	}
}

// pairs yields the keys and values of a mapping.
func (d *document) pairs(n *yaml.Node, what string) func(func(k, v *yaml.Node) bool) {
	n = target(n)
	return func(yield func(k, v *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			d.fail(n, "%s: want a mapping of names to values", what)
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], target(n.Content[i+1])) {
				return
			}
		}
	}
}

// items yields the elements of a list.
func (d *document) items(n *yaml.Node, what string) []*yaml.Node {
	if n = target(n); n.Kind != yaml.SequenceNode {
		d.fail(n, "%s: want a list", what)
		return nil
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		list[i] = target(item)
	}
	return list
}

func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func sorted(fields map[string]field) []string {
	list := make([]string, 0, len(fields))
	for name := range fields {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// remedy says what was probably meant, or what there is.
func remedy(name string, known []string) string {
	if meant := nearest(name, known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// text returns a reader that stores a scalar's text.
func (d *document) text(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			d.fail(n, "%s: want text", what)
			return
		}
		*into = n.Value
	}
}

// choice returns a reader of one of a few words.
func (d *document) choice(what string, into *string, words ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
			d.fail(n, "%s: want %s", what, strings.Join(words, " or "))
			return
		}
		*into = n.Value
	}
}

// count returns a reader of a whole number from least on.
func (d *document) count(what string, into *int64, least int64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v < least {
			d.fail(n, "%s: want a whole number, at least %d", what, least)
			return
		}
		*into = v
	}
}

// span returns a reader of a duration.
func (d *document) span(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := algorithms.ParseWindow(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v <= 0 {
			d.fail(n, "%s: want a duration above 0 in ms, s, m, h or d, such as 1m or 1h30m", what)
			return
		}
		*into = v
	}
}

// fraction returns a reader of a percentage, stored as a fraction.
func (d *document) fraction(what string, into *float64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if v, ok := percentage(n); ok && v < 100 {
			*into = v / 100
			return
		}
		d.fail(n, "%s: want a percentage above 0%% and below 100%%, such as 2%%", what)
	}
}

// percentage reads a number above 0 and up to 100 with a percent sign.
func percentage(n *yaml.Node) (float64, bool) {
	number, found := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(number, 64)
	return v, n.Kind == yaml.ScalarNode && found && err == nil && v > 0 && v <= 100
}

// unbuilt returns a reader that refuses a field which is known but not built yet.
func (d *document) unbuilt(what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			return
		}
		d.fail(n, "%s is not available in this version: leave it out", what)
	}
}
