package policies

import (
	"maps"
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
	// NewFingerprint reports that the evidence so far is of something else. If Path is a policy's name,
	// the policy compares something else now, and Before and After are its fingerprints. If
	// Path is the file's name, all policies start over.
	NewFingerprint bool `json:"new_fingerprint"`
}

// String writes the change as a line.
func (c Change) String() string {
	change := c.Path + ": " + c.Before + " -> " + c.After

	// The first sign is what a reviewer scans for: ! costs evidence, + and - add and remove, ~ changes.
	switch {
	case c.NewFingerprint && c.Path == "name":
		return "! " + change + ": another namespace: all counts, stages and evidence start over"
	case c.NewFingerprint:
		return "! " + c.Path + ": fingerprint " + c.Before + " -> " + c.After +
			": where " + c.After + " takes over, by a larger generation or by adopt, its evidence starts in shadow"
	case c.Before == "":
		return "+ " + c.Path + ": " + c.After
	case c.After == "":
		return "- " + c.Path + ": " + c.Before
	}
	return "~ " + change
}

// Difference returns the changes from one set to another: fields in the order of
// their names, then the policies that both sets have and whose fingerprint changes. It
// compares text: two ways to write one number are a change, and so is a corrected remark
// in an expression. It returns nil for equal sets.
func Difference(before, after *Set) []Change {
	list := changedFields(before.text.fields, after.text.fields)

	for _, p := range after.Policies {
		i := slices.IndexFunc(before.Policies, func(q *Policy) bool { return q.Name == p.Name })
		if i < 0 {
			continue // all of its fields are new, and listed
		}

		// A field that changes does not say by itself that the evidence starts over.
		if old := before.Policies[i].Fingerprint(); old != p.Fingerprint() {
			list = append(list, Change{Path: "policies." + p.Name, Before: old, After: p.Fingerprint(), NewFingerprint: true})
		}
	}
	return list
}

// changedFields returns the differences of two files' fields in the order of their paths.
func changedFields(before, after map[string]string) (list []Change) {
	paths := maps.Clone(before)
	maps.Copy(paths, after)

	for _, path := range slices.Sorted(maps.Keys(paths)) {
		old, had := before[path]
		now, has := after[path]
		// A field that only one file has is a change, too, if its text is empty.
		if had != has || old != now {
			list = append(list, Change{Path: path, Before: old, After: now, NewFingerprint: had && has && path == "name"})
		}
	}
	return list
}

// fieldsOf flattens a file for Difference: the texts of its fields by their paths. Policies go
// by name, wherever they stand: moving one is no change.
//
// It is for files without errors. These have a bounded depth, so aliases of aliases
// cannot make the list grow exponentially.
func fieldsOf(root *yaml.Node) map[string]string {
	fields := map[string]string{}
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
			fields[path] = flow(n)
		}
	}

	// A list that grows by one element is one change and not as many as it has elements, so other lists are not walked.
	walk("", root)
	return fields
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

	// The order of entries is the file's: to sort them would hide that a table was rewritten.
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
