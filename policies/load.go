package policies

import (
	"fmt"
	"os"
	"regexp"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"
)

// Version is the version of the file format.
const Version = "1"

// maxPolicies bounds the policies of a file, which become metric labels.
const maxPolicies = 1000

// Set is a policy file, read and compiled. It is immutable and safe for
// concurrent use.
type Set struct {
	// Name is the namespace in Redis and in metrics.
	Name     string
	Policies []*Policy
	// Warnings are problems that did not keep the file from being loaded.
	Warnings []Problem
	// ReadsRoutes reports whether any policy asks for request.route.
	ReadsRoutes bool

	fields   []textField
	problems *Problems // that describe them
}

// Describe writes one of the warnings as Problems do.
func (s *Set) Describe(warning Problem) string { return s.problems.Describe(warning) }

// LoadFile reads a policy file. The error is a *Problems if the file could be read.
func LoadFile(name string) (*Set, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("policies: load: %w", err)
	}
	return Load(name, text)
}

// Load reads a policy file's text; name appears in messages. The error is a
// *Problems.
func Load(name string, text []byte) (*Set, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("policies: load %s: %w", name, err)
	}
	d := &document{Problems: Problems{File: name}, scope: newScope(), identified: usesUsers.Match(text)}
	set := &Set{}
	root := d.parse(text)
	if root != nil {
		d.set(env, root, set)
	}
	d.sort()
	if d.Failed() {
		return nil, &d.Problems
	}
	set.Warnings, set.problems, set.fields = d.List, &d.Problems, fieldsOf(root)
	set.ReadsRoutes = set.reads("request.route")
	return set, nil
}

// usesUsers finds files that know users, for the warning about address-only keys.
var usesUsers = regexp.MustCompile(`request\.(user|claims)\b`)

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// ValidName reports whether a name may stand in Redis keys and metrics: 1 to 100
// letters, digits, '.', '_' or '-'.
func ValidName(name string) bool { return validName.MatchString(name) }

// name returns a reader of a name that may stand in Redis keys and metrics.
func (d *document) name(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || !validName.MatchString(n.Value) {
			d.fail(n, "%s: want 1 to 100 letters, digits, '.', '_' or '-'", what)
			return
		}
		*into = n.Value
	}
}

// set reads the root. What expressions may refer to is read before the policies,
// wherever it stands in the file.
func (d *document) set(env *cel.Env, root *yaml.Node, into *Set) {
	var version string
	nodes := map[string]*yaml.Node{}
	later := func(name string) field {
		return field{read: func(n *yaml.Node) { nodes[name] = n }, required: name == "policies"}
	}
	d.mapping(root, "the file", map[string]field{
		"version":   {read: d.choice("version", &version, Version), required: true},
		"name":      {read: d.name("name", &into.Name), required: true},
		"data":      later("data"),
		"variables": later("variables"),
		"policies":  later("policies"),
		"promotion": later("promotion"),
	})
	env = d.data(env, nodes["data"])
	env = d.variables(env, nodes["variables"])
	var promotion Promotion
	if n := nodes["promotion"]; n != nil {
		d.promotion(env, &promotion)(n)
		d.lintPromotion(promotion, n)
	}
	if n := nodes["policies"]; n != nil {
		d.policies(env, n, promotion, into)
	}
}

func (d *document) policies(env *cel.Env, n *yaml.Node, promotion Promotion, into *Set) {
	items := d.items(n, "policies")
	if len(items) > maxPolicies {
		d.fail(n, "policies: %d of them: at most %d", len(items), maxPolicies)
		return
	}
	if n.Kind == yaml.SequenceNode && len(items) == 0 {
		d.fail(n, "policies: want at least one")
	}
	seen := map[string]bool{}
	keys := make([]*yaml.Node, len(items))
	for i, item := range items {
		nodes := map[string]*yaml.Node{}
		d.note(item, nodes)
		keys[i] = nodes["key"]
		p := d.policy(env, item, promotion)
		if seen[p.Name] && p.Name != "" {
			d.fail(item, "two policies are named %q", p.Name)
		}
		seen[p.Name] = true
		into.Policies = append(into.Policies, p)
	}
	if !d.Failed() {
		d.lintAddresses(into.Policies, keys)
		d.lintShadowed(into.Policies, items)
	}
}
