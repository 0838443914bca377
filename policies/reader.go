package policies

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// reader turns the YAML nodes of a file into values, and collects the problems with
// their places. It knows no expressions and no policies.
//
// Its methods that return a func(*yaml.Node) make the reader of one value: tables
// of them, by the name of the field, describe the mappings of a file.
type reader struct{ Problems }

// lineBreak is what ends a line for YAML, whose line numbers are the problems' (in
// YAML 1.1 a carriage return, a next line and a line separator end lines, too).
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// parse returns the root of a file's one document, nil if there is none to read.
func (r *reader) parse(text []byte) *yaml.Node {
	if len(text) > maxFileBytes {
		r.failAt(1, 1, "the file has more than %d bytes", maxFileBytes)
		return nil
	}
	r.lines = lineBreak.Split(string(text), -1)

	// Into nodes, not into structs: only nodes have places.
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil {
		r.failYAML(err)
		return nil
	}

	// A second document would be ignored in silence, with the policies in it.
	err := decoder.Decode(&second)
	switch {
	case errors.Is(err, io.EOF):
		return root.Content[0]
	case err != nil:
		r.failYAML(err)
	default:
		r.fail(&second, "a second document: put all policies into one")
	}
	return nil
}

// yamlError takes the line apart from the message of an error of package yaml, which has no other form for it. Its parser, which
// has the messages of yamlParser, counts lines from 0, and its scanner from 1.
var (
	yamlError  = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)
	yamlParser = regexp.MustCompile(`^did not find expected (<|node|'-' ind|key|',')|^found (undefined tag handle|duplicate|incompatible)`)
)

// failYAML notes an error of the decoder, which names a line or none, and no column.
func (r *reader) failYAML(err error) {
	if errors.Is(err, io.EOF) {
		r.failAt(1, 1, "the file is empty")
		return
	}

	line, message := 1, err.Error()
	if m := yamlError.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1]) // 0 where the error names no line: failAt takes it as 1
		message = m[2]
	}
	if line > 0 && yamlParser.MatchString(message) {
		line++
	}
	r.failAt(line, 1, "not YAML: %s", message)
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
	names := slices.Sorted(maps.Keys(fields)) // messages must not depend on the order of a Go map
	seen, meant := map[string]bool{}, map[string]bool{}
	for key, value := range r.pairs(n, what) {
		f, known := fields[key.Value]
		switch {
		case !known:
			r.fail(key, "%s has no field %q: %s", what, key.Value, humanize.Remedy(key.Value, names))
			meant[humanize.Nearest(key.Value, names)] = true
		case seen[key.Value]:
			r.fail(key, "%s has %q twice", what, key.Value)
		default:
			f.read(value)
		}
		seen[key.Value] = true
	}

	// A node that is no mapping has its problem already.
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, name := range names {
		if fields[name].required && !seen[name] && !meant[name] {
			r.fail(n, "%s needs %q", what, name)
		}
	}
}

// pairs yields the keys and values of a mapping.
func (r *reader) pairs(n *yaml.Node, what string) func(func(k, v *yaml.Node) bool) {
	n = target(n)

	return func(yield func(k, v *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			r.fail(n, "%s: want a mapping of names to values", what)
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
		r.fail(n, "%s: want a list", what)
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

// place turns a place in an expression, line from 1 and column from 0, into a
// place in the file. Where YAML has changed the text on the way (joined lines,
// replaced escapes), it is the place of the expression as a whole: a place that is
// merely near sends the eye to the wrong character.
func (r *reader) place(n *yaml.Node, line, column int) (int, int) {
	if line < 1 || column < 0 {
		return n.Line, n.Column // CEL means the expression as a whole
	}

	// A place beyond the line's end shows that YAML has changed more than the style tells,
	// such as a line separator within a plain text.
	line, column = r.placeByStyle(n, line, column)
	if line > len(r.lines) || column > 1+utf8.RuneCountInString(r.lines[line-1]) {
		return n.Line, n.Column
	}
	return line, column
}

// placeByStyle is place as far as the scalar's style tells.
func (r *reader) placeByStyle(n *yaml.Node, line, column int) (int, int) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle

	// Where YAML has changed the text, no column of it is one of the file: the scalar's own beginning is then the best place.
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		return n.Line + line, r.indentation(n.Line) + column + 1
	case n.Style&yaml.FoldedStyle != 0 || line > 1:
		return n.Line, n.Column // YAML has joined the lines
	case n.Style&yaml.DoubleQuotedStyle != 0 && r.hasEscape(n, `\`),
		n.Style&yaml.SingleQuotedStyle != 0 && r.hasEscape(n, "''"):
		return n.Line, n.Column // an escape takes more columns than its character
	case n.Style&quoted != 0:
		return n.Line, n.Column + 1 + column
	}
	return n.Line, n.Column + column
}

// indentation returns the spaces before a literal block that begins below a line:
// those of its first line that is not blank, as YAML detects them.
func (r *reader) indentation(line int) int {
	for _, text := range r.lines[min(line, len(r.lines)):] {
		if content := strings.TrimLeft(text, " "); content != "" {
			return len(text) - len(content)
		}
	}
	return 0
}

// hasEscape reports whether a quoted scalar's line has an escape after its quote.
func (r *reader) hasEscape(n *yaml.Node, escape string) bool {
	if n.Line > len(r.lines) {
		return false
	}

	text := []rune(r.lines[n.Line-1])
	return n.Column <= len(text) && strings.Contains(string(text[n.Column:]), escape)
}

// mostText bounds a text of a policy file, in bytes. It travels with every announcement of a policy, and a terminal shows it.
const mostText = 1000

// text returns a reader that stores a scalar's text of up to mostText bytes. A field without a value is none. A text that
// stands in Redis keys or metrics has the reader name.
func (r *reader) text(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.fail(n, "%s: want text", what)
			return
		}
		if len(n.Value) > mostText {
			r.fail(n, "%s: a text of %d bytes: want at most %d", what, len(n.Value), mostText)
			return
		}
		*into = n.Value
	}
}

// choice returns a reader of one of a few words, which it names where there is another.
func (r *reader) choice(what string, into *string, words ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
			r.fail(n, "%s: want %s", what, strings.Join(words, " or "))
			return
		}
		*into = n.Value
	}
}

// truth returns a reader of true or false.
func (r *reader) truth(what string, into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var word string
		r.choice(what, &word, "true", "false")(n)
		*into = word == "true"
	}
}

// identifier reports whether a node is a name that expressions can have: with a hyphen it
// would be read as a difference of two names.
func (r *reader) identifier(n *yaml.Node, what string) bool {
	if validIdentifier.MatchString(n.Value) {
		return true
	}
	r.fail(n, "%s: %q is not a name for expressions: want letters, digits and '_'", what, n.Value)
	return false
}

// validIdentifier is a name that an expression can have without quotes.
var validIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// A colon separates names in Redis keys, braces enclose their hash tag, and metric
// labels are unlimited: hence few characters, and at most 100 of them.
var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// ValidName reports whether a name may stand in Redis keys and metrics: 1 to 100
// letters, digits, '.', '_' or '-'.
func ValidName(name string) bool { return validName.MatchString(name) }

// name returns a reader of a name that may stand in Redis keys and metrics.
func (r *reader) name(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || !ValidName(n.Value) {
			r.fail(n, "%s: want 1 to 100 letters, digits, '.', '_' or '-'", what)
			return
		}
		*into = n.Value
	}
}

func (r *reader) count(what string, into *int64, least int64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			r.fail(n, "%s: %s is too large", what, n.Value)
			return
		}
		if n.Kind != yaml.ScalarNode || err != nil || v < least {
			r.fail(n, "%s: want a whole number, at least %d", what, least)
			return
		}
		*into = v
	}
}

// duration returns a reader of a duration above 0, in the units of a window.
func (r *reader) duration(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := algorithms.ParseWindow(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v <= 0 {
			r.fail(n, "%s: want %s", what, aDuration)
			return
		}
		*into = v
	}
}

// aDuration describes one in a message.
const aDuration = "a duration above 0 in us, ms, s, m, h or d, such as 1m or 1h30m"

// minutes returns a reader of a duration of whole minutes, the unit of the ledger.
func (r *reader) minutes(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// One problem is enough: a bad duration has no minutes.
		before := r.errors()
		r.duration(what, into)(n)
		if r.errors() == before && *into%time.Minute != 0 {
			r.fail(n, "%s: want whole minutes, the resolution of the evidence", what)
			*into = 0 // the gate would say the same once more
		}
	}
}

// fraction returns a reader of a percentage, stored as a fraction. 100 % is refused: no
// ratio is above such a threshold.
func (r *reader) fraction(what string, into *float64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, ok := percentage(n)
		if !ok || v >= 100 {
			r.fail(n, "%s: want a percentage above 0%% and below 100%%, such as 2%%", what)
			return
		}
		*into = v / 100
	}
}

// percentage reads a number above 0 and up to 100. The sign is required: 0.02 could
// mean 2 % or 0.02 %.
func percentage(n *yaml.Node) (float64, bool) {
	number, found := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(number, 64)
	return v, n.Kind == yaml.ScalarNode && found && err == nil && v > 0 && v <= 100
}
