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
	// Before and After are the field's text, "" where there was or is none.
	Before string `json:"before"`
	After  string `json:"after"`
	// NewEpoch reports that the field is a policy's name, that the policy compares
	// something else now, and that its evidence begins anew; or that it is the file's
	// name, and all policies begin anew.
	NewEpoch bool `json:"new_epoch"`
}

// String writes the change as a line.
func (c Change) String() string {
	switch {
	case c.NewEpoch && c.Path == "name":
		return "! name: " + c.Before + " -> " + c.After + ": another namespace: all counts, stages and evidence begin anew"
	case c.NewEpoch:
		return "! " + c.Path + ": epoch " + c.Before + " -> " + c.After + ": the evidence begins anew"
	case c.Before == "":
		return "+ " + c.Path + ": " + c.After
	case c.After == "":
		return "- " + c.Path + ": " + c.Before
	}
	return "~ " + c.Path + ": " + c.Before + " -> " + c.After
}

// Difference returns what changes from one set to another: fields in the order of
// their names, and behind them the policies that both sets have and whose epoch
// changes.
func Difference(before, after *Set) (list []Change) {
	old, now := before.fields, after.fields
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && old[0].path < now[0].path:
			list = append(list, Change{Path: old[0].path, Before: old[0].text})
			old = old[1:]
		case len(old) == 0 || now[0].path < old[0].path:
			list = append(list, Change{Path: now[0].path, After: now[0].text})
			now = now[1:]
		default:
			if old[0].text != now[0].text {
				list = append(list, Change{Path: old[0].path, Before: old[0].text, After: now[0].text, NewEpoch: old[0].path == "name"})
			}
			old, now = old[1:], now[1:]
		}
	}
	for _, p := range after.Policies {
		i := slices.IndexFunc(before.Policies, func(q *Policy) bool { return q.Name == p.Name })
		if i >= 0 && before.Policies[i].Epoch() != p.Epoch() {
			list = append(list, Change{Path: "policies." + p.Name, Before: before.Policies[i].Epoch(), After: p.Epoch(), NewEpoch: true})
		}
	}
	return list
}

// textField is one field of a file as text.
type textField struct{ path, text string }

// fieldsOf flattens a file for Difference, in the order of the paths. Policies go
// by name, wherever they stand.
func fieldsOf(root *yaml.Node) (list []textField) {
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		n = target(n)
		switch {
		case n.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(strings.TrimPrefix(path+"."+n.Content[i].Value, "."), n.Content[i+1])
			}
		case path == "policies":
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

func nameOf(policy *yaml.Node) string {
	for i := 0; i+1 < len(policy.Content); i += 2 {
		if policy.Content[i].Value == "name" {
			return policy.Content[i+1].Value
		}
	}
	return ""
}

// flow writes a value on one line.
func flow(n *yaml.Node) string {
	n = target(n)
	parts := make([]string, len(n.Content))
	for i, item := range n.Content {
		parts[i] = flow(item)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MappingNode:
		for i := 0; i+1 < len(parts); i += 2 {
			parts[i/2] = parts[i] + ": " + parts[i+1]
		}
		return "{" + strings.Join(parts[:len(parts)/2], ", ") + "}"
	}
	return strings.Join(strings.Fields(n.Value), " ")
}
