package policies

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// placing is an expression that says of keys whether they have a place. It reads nothing but
// the parts of the key and the file's data, so that two requests of one key have one place.
type placing struct{ *expression }

// placing returns a reader of an expression that places keys.
func (c *compiler) placing(what string, into **placing) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's expression replaces the file's
		env, err := c.placingEnv()
		if err != nil {
			c.fail(n, "%s: %v", what, err)
			return
		}

		// The same compiler with other names: bounds and messages are those of all expressions.
		keys := *c
		keys.env = env
		x := keys.compile(n, what, cel.BoolType)
		if x == nil {
			return
		}
		*into = &placing{x}
	}
}

// placingEnv returns the environment of expressions that place keys. Most files have none, and
// pay for none.
func (c *compiler) placingEnv() (*cel.Env, error) {
	if c.keysEnv != nil {
		return c.keysEnv, nil
	}

	names := append([]cel.EnvOption{cel.Variable(keyName, cel.ListType(cel.StringType))}, c.tables...)
	env, err := newEnv(names)
	c.keysEnv = env
	return env, err
}

// constant reports whether the expression has one value for all keys, and which. A key that
// cannot be read is an error to every part that asks for it, and "&&" and "||" ignore
// an error that does not matter.
func (x *placing) constant() (value, ok bool) {
	if x == nil {
		return false, false
	}
	v, _, err := x.program.Eval(&keyOnly{types.NewErr("the key is not known")})
	return v == types.True, err == nil
}

// keyName is what expressions call the parts of a key, in clear.
const keyName = "key"

// keyOnly is all that expressions which place keys can read.
type keyOnly struct{ parts ref.Val }

var _ cel.Activation = (*keyOnly)(nil)

// Parent implements cel.Activation.
func (*keyOnly) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (k *keyOnly) ResolveName(name string) (any, bool) { return k.parts, name == keyName }

// Declares reports whether the section has an expression for a place.
func (p *Promotion) Declares(place algorithms.Place) bool {
	return place == algorithms.First && p.first != nil || place == algorithms.Last && p.last != nil
}

// Places reports whether the policy declares places for any keys. If not, its keys need not be
// asked for theirs.
func (p *Policy) Places() bool { return p.Promotion.first != nil || p.Promotion.last != nil }

// Place returns the place of a request's key, which must be one that the policy charges. The
// key alone decides: no other request of the key, and no other instance with this file, finds
// another place. On an error the place is algorithms.ByHash.
func (p *Policy) Place(ctx context.Context, r *Request) (algorithms.Place, error) {
	if !p.Places() {
		return algorithms.ByHash, nil
	}

	// A key of more than 256 bytes is charged under its hash, and placed by what it was.
	parts, err := p.key.parts(r.evaluation(ctx, p.scope))
	if err != nil {
		return algorithms.ByHash, err
	}
	return p.Promotion.placeOf(parts)
}

// PlaceOfKey is Place of a key as commands show it. The error may also say that the key is none
// of this policy, or that nothing but its hash is known.
func (p *Policy) PlaceOfKey(key string) (algorithms.Place, error) {
	if !p.Places() {
		return algorithms.ByHash, nil
	}

	parts, err := p.key.partsOf(key)
	if err != nil {
		return algorithms.ByHash, err
	}
	return p.Promotion.placeOf(parts)
}

// keyOf returns a key for expressions. They read one list of CEL's values: CEL would make them at each access.
func keyOf(parts []string) *keyOnly {
	values := make([]ref.Val, len(parts))
	for i, part := range parts {
		values[i] = types.String(part)
	}
	return &keyOnly{types.NewRefValList(types.DefaultTypeAdapter, values)}
}

// placeOf asks last before first. Where last fails, first is not asked: the key may be one that
// is to come last.
func (p *Promotion) placeOf(parts []string) (algorithms.Place, error) {
	key := keyOf(parts)
	for _, declared := range []struct {
		x     *placing
		place algorithms.Place
	}{{p.last, algorithms.Last}, {p.first, algorithms.First}} {
		if declared.x == nil {
			continue
		}

		// Without claims nothing in it is endless, so it needs no deadline.
		v, _, err := declared.x.program.Eval(key)
		if err != nil {
			return algorithms.ByHash, fmt.Errorf("policies: %s %s: %w", declared.place, declared.x.source, err)
		}
		if v == types.True {
			return declared.place, nil
		}
	}
	return algorithms.ByHash, nil
}
