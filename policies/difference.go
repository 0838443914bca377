package policies

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Change is one difference between two policy files.
type Change struct {
	// Path is the field, as in policies.checkout.candidate.limit.
	Path string `json:"path"`
	// Before and After are the field's text, "" in the file that does not have it.
	Before string `json:"before"`
	After  string `json:"after"`
	// NewEpoch reports that the change starts evidence over. If Path is a policy's name,
	// the policy compares something else now, and Before and After are its epochs. If
	// Path is the file's name, all policies start over.
	NewEpoch bool `json:"new_epoch"`
}

// String writes the change as a line.
func (c Change) String() string {
	change := c.Path + ": " + c.Before + " -> " + c.After

	switch {
	case c.NewEpoch && c.Path == "name":
		return "! " + change + ": another namespace: all counts, stages and evidence start over"
	case c.NewEpoch:
		return "! " + c.Path + ": epoch " + c.Before + " -> " + c.After + ": the evidence starts over"
	case c.Before == "":
		return "+ " + c.Path + ": " + c.After
	case c.After == "":
		return "- " + c.Path + ": " + c.Before
	}
	return "~ " + change
}

// Difference returns the changes from one set to another: fields in the order of
// their names, then the policies that both sets have and whose epoch changes. It
// compares text: two ways to write one number are a change, and so is a corrected remark
// in an expression. It returns nil for equal sets.
func Difference(before, after *Set) []Change {
	list := changedFields(before.fields, after.fields)

	for _, p := range after.Policies {
		i := slices.IndexFunc(before.Policies, func(q *Policy) bool { return q.Name == p.Name })
		if i < 0 {
			continue // all of its fields are new, and listed
		}

		if old := before.Policies[i].Epoch(); old != p.Epoch() {
			list = append(list, Change{Path: "policies." + p.Name, Before: old, After: p.Epoch(), NewEpoch: true})
		}
	}
	return list
}

// changedFields returns the differences of two lists in the order of their paths. It
// walks both at once, as a merge does, and a path that only one of them has at its head
// is missing from the other.
func changedFields(before, after []textField) (list []Change) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].path < after[0].path:
			list = append(list, Change{Path: before[0].path, Before: before[0].text})
			before = before[1:]
		case len(before) == 0 || after[0].path < before[0].path:
			list = append(list, Change{Path: after[0].path, After: after[0].text})
			after = after[1:]
		default:
			if path := before[0].path; before[0].text != after[0].text {
				list = append(list, Change{path, before[0].text, after[0].text, path == "name"})
			}
			before, after = before[1:], after[1:]
		}
	}
	return list
}

// textField is one field of a file as text.
type textField struct{ path, text string }

// fieldsOf flattens a file for Difference, in the order of the paths. Policies go
// by name, wherever they stand: moving one is no change.
//
// It is for files without errors. These have a bounded depth, so aliases of aliases
// cannot make the list grow exponentially.
func fieldsOf(root *yaml.Node) (list []textField) {
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		n = target(n)
		switch {
		case n.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(strings.TrimPrefix(path+"."+n.Content[i].Value, "."), n.Content[i+1])
			}
		case path == "policies": // the one list whose elements have names
			for _, item := range n.Content {
				walk("policies."+nameOf(target(item)), item)
			}
		default:
			list = append(list, textField{path, flow(n)})
		}
	}

	walk("", root)
	slices.SortStableFunc(list, func(a, b textField) int { return strings.Compare(a.path, b.path) })
	return list
}

// nameOf returns the name of a policy, "" if it has none.
func nameOf(policy *yaml.Node) string {
	if name := placesOf(policy)["name"]; name != nil {
		return name.Value
	}
	return ""
}

// flow writes a value on one line, whatever its style in the file.
func flow(n *yaml.Node) string {
	n = target(n)
	values := make([]string, len(n.Content))
	for i, item := range n.Content {
		values[i] = flow(item)
	}

	switch n.Kind {
	case yaml.SequenceNode:
		return "[" + strings.Join(values, ", ") + "]"
	case yaml.MappingNode:
		var entries []string
		for i := 0; i+1 < len(values); i += 2 {
			entries = append(entries, values[i]+": "+values[i+1])
		}
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return strings.Join(strings.Fields(n.Value), " ")
}
