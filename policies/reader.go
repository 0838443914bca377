package policies

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// maxFileBytes bounds a policy file, so that the tree of a wrong or hostile file stays
// small. 1,000 policies of 1 KiB each fit.
const maxFileBytes = 1 << 20

// reader turns the YAML nodes of a file into values, and collects the problems with
// their places. It knows no expressions and no policies.
//
// Its methods that return a func(*yaml.Node) make the reader of one value: tables
// of them, by the name of the field, describe the mappings of a file.
type reader struct{ Problems }

// lineBreak is what ends a line for YAML, whose line numbers are the problems' (in
// YAML 1.1 a carriage return, a next line and a line separator end lines, too).
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// parse returns the root of a file's one document, nil if there is none to read. Every such file has the fields.
func (r *reader) parse(text []byte, fields string) *yaml.Node {
	r.lines = lineBreak.Split(string(text), -1)
	if len(text) > maxFileBytes {
		r.failAt(1, 1, "the file has %d bytes: at most %d are read", len(text), maxFileBytes)
		return nil
	}

	// The line of such a file has nothing that people read.
	if bytes.HasPrefix(text, []byte("\x1f\x8b")) {
		r.lines = nil
		r.failAt(1, 1, "the file is compressed by gzip: unpack it first, by gunzip")
		return nil
	}

	// Into nodes, not into structs: only nodes have places.
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil {
		r.failYAML(err, fields)
		return nil
	}

	// A second document would be ignored in silence, with the policies in it.
	err := decoder.Decode(&second)
	switch {
	case errors.Is(err, io.EOF):
		// What a tag has changed would be reported once more, as another mistake.
		if (&tags{reader: r}).refuse(root.Content[0]); r.Failed() {
			return nil
		}
		return root.Content[0]
	case err != nil:
		r.failYAML(err, fields)
	default:
		r.fail(&second, "a second document: put all policies into one")
	}
	return nil
}

// field is one key of a mapping: how its value is read, and whether the key must be
// there.
type field struct {
	read     func(*yaml.Node)
	required bool
}

// mapping reads a mapping by its table of fields. Unknown and duplicate fields are
// errors: a misspelled field would otherwise be ignored in silence.
func (r *reader) mapping(n *yaml.Node, what string, fields map[string]field) {
	seen, meant := map[string]bool{}, map[string]bool{}
	sent, next := map[string]bool{}, false // said of fields of other sections, and of an item without its sign
	for key, value := range r.pairs(n, what) {
		f, known := fields[key.Value]
		home := homeOf(key.Value)
		switch {
		// All fields of a section that was not indented are one mistake.
		case !known && home != "":
			if !sent[home] {
				r.fail(key, "%s has no field %q: %s", what, key.Value, home)
			}
			sent[home] = true
		case !known:
			r.fail(key, "%s has no field %q: %s", what, key.Value, remedyOfField(key.Value, fieldNames(fields)))
			meant[humanize.Nearest(key.Value, fieldNames(fields))] = true
		// The first field again begins another item, whose fields are all there again.
		case seen[key.Value] && key.Value == n.Content[0].Value && strings.HasPrefix(what, "a "):
			r.fail(key, "%s has %q twice: is a - missing in front of it, where the next one begins?", what, key.Value)
			next = true
		case seen[key.Value] && !next:
			r.fail(key, "%s has %q twice", what, key.Value)
		case seen[key.Value]:
		default:
			f.read(value)
		}
		seen[key.Value] = true
	}

	// A node that is no mapping has its problem already.
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, name := range fieldNames(fields) {
		if fields[name].required && !seen[name] && !meant[name] {
			r.fail(n, "%s needs %q%s", what, name, sampleOf[name])
		}
	}
}

// homes are the sections of a file with those of their fields that authors most often write into another section.
var homes = []struct {
	section, says string
	fields        []string
}{
	{
		"the file", "it is a field of the file: write it without indentation",
		[]string{"data", "generation", "policies", "retry_jitter", "variables"},
	},
	{
		"a policy", "it is a field of a policy: write it beside the policy's name",
		[]string{"authoritative", "candidate", "cost", "group", "key", "on_error", "on_store_failure", "promotion", "when"},
	},
	{
		"role", "it is a field of a side: write it into authoritative or candidate",
		[]string{"adaptive", "algorithm", "burst", "limit", "limiter", "store", "window"},
	},
	{"store", "it is a field of a side's store: store: { sync: 100ms }", []string{"sync"}},
	{
		"promotion", "it is a field of a promotion: write it into promotion, of the file or of a policy",
		[]string{"canary", "client_harm", "dwell", "expected", "mode", "protect", "soak"},
	},
}

// fieldsElsewhere are fields as other programs name them. A name that is near to a field of ours needs no row: humanize.Remedy finds it.
var fieldsElsewhere = map[string]string{
	// Of a side.
	"algo": "algorithm", "type": "algorithm", "strategy": "algorithm",
	"rate": "limit", "max": "limit", "requests": "limit", "quota": "limit",
	"period": "window", "interval": "window", "per": "window", "duration": "window",
	"capacity": "burst", "bucket": "burst",

	// Of a policy.
	"if": "when", "include": "when", "where": "when", "match": "when", "condition": "when",
	"by": "key", "client": "key", "weight": "cost",
}

// remedyOfField says which field is meant by one that no section has.
func remedyOfField(name string, known []string) string {
	front, _, colon := strings.Cut(name, ":")

	// The sure mistakes come first: the nearest name is a guess.
	switch {
	case name == "<<":
		return "YAML's merge is not read: write the fields out, or name all of a section by its alias"
	case fieldsElsewhere[name] != "" && slices.Contains(known, fieldsElsewhere[name]):
		return "did you mean " + fieldsElsewhere[name] + "?"
	case homeOf(fieldsElsewhere[name]) != "":
		return "did you mean " + fieldsElsewhere[name] + "? " + homeOf(fieldsElsewhere[name])
	case strings.Contains(name, "\u00a0"):
		return "it has a no-break space in it, which looks like a space: replace it by a space"
	case wholeNumber.MatchString(name):
		return "a number has no comma in it"
	case colon && slices.Contains(known, front):
		return "a space is missing behind the colon"
	}
	return humanize.Remedy(name, known)
}

// homeOf says where a field of one of these names belongs, "" for another name.
func homeOf(name string) string {
	for i := range homes {
		if slices.Contains(homes[i].fields, name) {
			return homes[i].says
		}
	}
	return ""
}

// sampleOf shows how a missing field is written, where one line says it.
var sampleOf = map[string]string{
	"version": ", such as version: 1",
	"key":     ", such as key: request.ip",
	"signal":  ", such as signal: latency_p99",
	"name":    ", such as name: checkout",

	"authoritative": ", today's limiter, such as authoritative: { algorithm: fixed_window, limit: 100, window: 1m }",
	"policies":      ", a list of them, each with name, key and authoritative",
}

// listOf shows what a list looks like where a file has something else in its place.
var listOf = map[string]string{
	"policies": ", such as - name: per-client, each with its - in front of the first field",
	"expected": ", such as [{ when: request.user == \"a\", direction: newly_denied, until: 2999-12-31, owner: api }]",
	"canary":   ", such as [1%, 10%, 50%]",
	"days":     ", such as [mon, tue]",
	"charges":  ", such as [{ policy: per-client }]",
	"sequence": ", such as - { at: 0s, request: { method: GET } }",
	"tests":    ", such as - name: a plain request is charged",
}

// exampleOf shows what a section looks like where a file has something else in its place.
var exampleOf = map[string]string{
	"authoritative": ", such as { algorithm: fixed_window, limit: 100, window: 1m }",
	"candidate":     ", such as { algorithm: token_bucket, limit: 100, window: 1m, burst: 20 }",
	"promotion":     ", such as { mode: manual }",
	"adaptive":      ", such as { signal: latency_p99 }",
}

// pairs yields the keys and values of a mapping.
func (r *reader) pairs(n *yaml.Node, what string) func(func(k, v *yaml.Node) bool) {
	n = target(n)

	return func(yield func(k, v *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			r.fail(n, "%s: want a mapping of names to values%s", what, exampleOf[what])
			return
		}

		// A mapping's nodes are names and values in turn. A value may be an alias, a name is read as it is written.
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], target(n.Content[i+1])) {
				return
			}
		}
	}
}

// items returns the elements of a list, none for another node.
func (r *reader) items(n *yaml.Node, what string) []*yaml.Node {
	if n = target(n); n.Kind != yaml.SequenceNode {
		r.fail(n, "%s: want a list%s", what, listOf[what])
		return nil
	}

	// An element may be an alias: a file writes what two lists share once.
	list := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		list[i] = target(item)
	}
	return list
}

// target returns the node that an alias stands for. One step is enough: in YAML an alias
// has no anchor of its own, so no alias stands for another.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// fieldNames returns the names in order, so that messages do not depend on the order
// of a Go map.
func fieldNames(fields map[string]field) []string {
	list := make([]string, 0, len(fields))
	for name := range fields {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// places are the values of a mapping's fields by name, for messages about a field
// after it was read.
type places map[string]*yaml.Node

// orNone returns the place of a field, a node without fields if the field is not there.
func (p places) orNone(name string) *yaml.Node {
	if n := p[name]; n != nil {
		return target(n)
	}
	return &yaml.Node{}
}

// placesOf returns the places of a mapping, none for another node. Of a field that stands there twice it is the last; the reader of the
// mapping refuses it.
func placesOf(n *yaml.Node) places {
	list := places{}
	if n.Kind != yaml.MappingNode {
		return list
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		list[n.Content[i].Value] = n.Content[i+1]
	}
	return list
}
