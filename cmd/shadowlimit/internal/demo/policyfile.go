package demo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// policyFile returns the policy file of a rehearsal: the user's with one policy, automatic, in one store, and with a candidate
// that denies all requests with brokenHeader. The user's file must be one that package policies has loaded.
func (r *Rehearsal) policyFile() ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(r.Text, &document); err != nil {
		return nil, err
	}

	// What an alias stands for may be in a policy that goes, or in two places of which one changes.
	left := mostNodes
	root := plain(document.Content[0], &left)
	if left < 0 {
		return nil, fmt.Errorf("%s: its aliases stand for more than %d values: write them out", r.File, mostNodes)
	}

	list := valueOf(root, "policies")
	if list == nil {
		return nil, errors.New("no policies")
	}
	list.Content = slices.DeleteFunc(list.Content, func(p *yaml.Node) bool { return !r.concerns(p) })
	for _, p := range list.Content {
		r.automatic(p)
		oneStore(p)
		breakable(valueOf(p, "candidate"))
	}

	r.automatic(root)
	promotion := valueOf(root, "promotion")
	if promotion == nil {
		promotion = &yaml.Node{Kind: yaml.MappingNode}
		root.Content = append(root.Content, text("promotion"), promotion)
	}
	set(promotion, "mode", "automatic")
	for _, name := range slices.Sorted(maps.Keys(r.Promotion)) {
		set(promotion, name, r.Promotion[name])
	}
	return yaml.Marshal(root)
}

// mostNodes bounds a file that is written without aliases.
const mostNodes = 1_000_000

// plain returns a copy of a node without aliases and anchors. It takes the number of nodes off left, and ends below 0.
func plain(n *yaml.Node, left *int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	twin := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	for _, inner := range n.Content {
		if *left--; *left < 0 {
			return twin
		}
		twin.Content = append(twin.Content, plain(inner, left))
	}
	return twin
}

// concerns reports whether a policy is the one to rehearse, or a member of the group that is.
func (r *Rehearsal) concerns(p *yaml.Node) bool {
	name := valueOf(p, "name")
	if group := valueOf(p, "group"); group != nil {
		name = valueOf(group, "name")
	}
	return name != nil && name.Value == r.Policy
}

// automatic takes out of a promotion what would keep a step from being taken, and what the flags overrule.
func (r *Rehearsal) automatic(of *yaml.Node) {
	promotion := valueOf(of, "promotion")
	if promotion == nil {
		return
	}
	remove(promotion, "mode")
	remove(promotion, "change_window")
	for name := range r.Promotion {
		remove(promotion, name)
	}
	if len(promotion.Content) == 0 {
		remove(of, "promotion")
	}
}

// oneStore moves both sides of a policy into one store, where they decide as in two.
func oneStore(p *yaml.Node) {
	for _, role := range []string{"authoritative", "candidate"} {
		side := valueOf(p, role)
		if side == nil || valueOf(side, "store") == nil {
			continue
		}

		// In one store two sides with one algorithm need ids.
		remove(side, "store")
		if valueOf(side, "id") == nil {
			set(side, "id", role)
		}
	}
}

// breakable makes a limit 0 for requests with brokenHeader. A limit of 0 denies always.
func breakable(candidate *yaml.Node) {
	if limit := valueOf(candidate, "limit"); limit != nil {
		*limit = *text(fmt.Sprintf("%s in request.headers ? 0 : (%s)", strconv.Quote(brokenHeaderRead), limit.Value))
	}
}

// brokenHeaderRead is brokenHeader as expressions see it.
const brokenHeaderRead = "x-shadowlimit-rehearsal"

func text(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// valueOf returns the value of a key of a mapping; nil for none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func set(mapping *yaml.Node, key, value string) {
	remove(mapping, key)
	mapping.Content = append(mapping.Content, text(key), text(value))
}

func remove(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}
