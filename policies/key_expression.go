package policies

import (
	"context"

	"go.yaml.in/yaml/v3"
)

// KeyExpression is a key without a policy, as the command line takes it.
type KeyExpression struct {
	key   key
	scope *scope
}

// ParseKey compiles the expression of a key. The error is a *Problems; file is what
// they are said of.
func ParseKey(file, expression string) (*KeyExpression, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	d := &document{Problems: Problems{File: file, lines: []string{expression}}, scope: newScope()}
	k := &KeyExpression{scope: d.scope}
	d.key(env, &k.key)(&yaml.Node{Kind: yaml.ScalarNode, Value: expression, Line: 1, Column: 1})
	if d.Failed() {
		return nil, &d.Problems
	}
	return k, nil
}

// Of returns the key of a request.
func (k *KeyExpression) Of(r *Request) (string, error) {
	return k.key.value(r.evaluation(context.Background(), k.scope))
}
