package policies

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// keyCondition is a condition on keys. It reads nothing but the parts of the key and the file's data, so that two requests of
// one key have one answer.
type keyCondition struct{ *expression }

// first returns a reader of the condition that pins keys.
func (c *compiler) first(into **keyCondition) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's expression replaces the file's
		env, err := c.keyEnv()
		if err != nil {
			c.fail(n, "first: %v", err)
			return
		}

		// The same compiler with other names: bounds and messages are those of all expressions.
		keys := *c
		keys.env = env
		x := keys.compile(n, "first", cel.BoolType)
		if x == nil {
			return
		}
		*into = &keyCondition{x}
	}
}

// keyEnv returns the environment of conditions on keys. Most files have none, and
// pay for none.
func (c *compiler) keyEnv() (*cel.Env, error) {
	if c.keysEnv != nil {
		return c.keysEnv, nil
	}

	names := append([]cel.EnvOption{cel.Variable(keyName, cel.ListType(cel.StringType))}, c.tables...)
	env, err := newEnv(names)
	c.keysEnv = env
	return env, err
}

// keyName is what expressions call the parts of a key, in clear.
const keyName = "key"

// keyOnly is all that conditions on keys can read.
type keyOnly struct{ parts ref.Val }

var _ cel.Activation = (*keyOnly)(nil)

// Parent implements cel.Activation.
func (*keyOnly) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (k *keyOnly) ResolveName(name string) (any, bool) { return k.parts, name == keyName }

// DeclaresFirst reports whether the policy may pin keys. If not, its keys need not be asked.
func (p *Policy) DeclaresFirst() bool { return p.Promotion.first != nil }

// First reports whether a request's key, which must be one that the policy charges, is pinned: in a canary from its first step.
// The key alone decides: no other request of the key, and no other instance with this file, finds another answer. With an
// error it is not.
func (p *Policy) First(ctx context.Context, r *Request) (bool, error) {
	if !p.DeclaresFirst() {
		return false, nil
	}

	// A key of more than 256 bytes is charged under its hash, and asked for by what it was.
	parts, err := p.key.parts(p.evaluation(ctx, r))
	if err != nil {
		return false, err
	}
	return p.Promotion.isFirst(parts)
}

// FirstKey is First of a key as commands show it. The error may also say that the key is none
// of this policy, or that nothing but its hash is known.
func (p *Policy) FirstKey(key string) (bool, error) {
	if !p.DeclaresFirst() {
		return false, nil
	}

	parts, err := p.key.partsOf(key)
	if err != nil {
		return false, err
	}
	return p.Promotion.isFirst(parts)
}

func (p *Promotion) isFirst(parts []string) (bool, error) {
	// Without claims nothing in it is endless, so it needs no deadline.
	v, _, err := p.first.program.Eval(keyOf(parts))
	if err != nil {
		return false, fmt.Errorf("policies: first %s: %w", p.first.source, err)
	}
	return v == types.True, nil
}

// keyOf returns a key for expressions. They read one list of CEL's values: CEL would make them at each access.
func keyOf(parts []string) *keyOnly {
	values := make([]ref.Val, len(parts))
	for i, part := range parts {
		values[i] = types.String(part)
	}
	return &keyOnly{types.NewRefValList(types.DefaultTypeAdapter, values)}
}
