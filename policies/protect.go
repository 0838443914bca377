package policies

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// mostProtected is evidence.MostProtected, which this package does not import.
const mostProtected = 32

// protect returns a reader of a list of keys, each by the text under which a request is charged: top shows it, where the service
// has no secret.
func (r *reader) protect(into *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's keys replace the file's
		items := r.items(n, "protect")
		if len(items) == 0 && n.Kind == yaml.SequenceNode {
			r.fail(n, "protect: want at least one key, such as [acme]")
		}

		for i, item := range items {
			key, before := "", r.errors()
			r.text("protect", &key)(item)
			switch {
			case r.errors() > before:
			case key == "":
				r.fail(item, "protect: an empty key: name a client")
			case slices.Contains(*into, key):
				r.fail(item, "protect: %s is in the list already", key)
			case i >= mostProtected:
				r.fail(item, "protect: %d keys: want at most %d; more of them are a policy of their own", len(items), mostProtected)
				return
			}
			*into = append(*into, key)
		}
	}
}

// Protects reports whether the policy protects a key that it charges.
func (p *Policy) Protects(key string) bool { return slices.Contains(p.Promotion.Protect, key) }
