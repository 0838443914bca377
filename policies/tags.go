package policies

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// tags finds texts with a tag of their own, as in "when: ! variables.internal": package yaml would drop the negation in silence.
// A policy would then charge the requests that its author leaves out, and the others not, without a message and without a trace
// in the evidence, which compares the two limiters for whatever is charged.
type tags struct {
	*reader
	line  int    // the one that was looked at last, 0 before the first
	runes []rune // of it
}

// refuse notes the tags of a node and of all below it. Package yaml refuses files of more than 10,000 levels, which bounds the depth
// of the calls.
func (t *tags) refuse(n *yaml.Node) {
	// A node does not tell the tag "!", so the text does. Tags of YAML itself, such as !!str, do what they say.
	here := t.at(n)
	switch {
	case strings.HasPrefix(here, "!in") && strings.HasPrefix(string(t.runes[n.Column-1:]), "!include"):
		t.fail(n, "no other file is included: write its contents here")
	case strings.HasPrefix(here, "!") && !strings.HasPrefix(here, "!!"):
		t.fail(n, "%s", dropsTag)
	}

	// An alias is not followed: what it stands for is in the tree.
	for _, child := range n.Content {
		t.refuse(child)
	}
}

// at returns the first three characters of a node, "" for a node without a place. Nodes of one line follow each other, so a line of
// many nodes is read once.
func (t *tags) at(n *yaml.Node) string {
	if n.Line < 1 || n.Line > len(t.lines) {
		return ""
	}
	if n.Line != t.line {
		t.line, t.runes = n.Line, []rune(t.lines[n.Line-1])
	}

	begin := min(max(n.Column-1, 0), len(t.runes))
	return string(t.runes[begin:min(begin+3, len(t.runes))])
}
