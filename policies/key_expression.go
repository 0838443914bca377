package policies

import (
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// KeyExpression is a key without a policy, as the command line takes it. It is immutable
// and safe for concurrent use. It sees the request, but no data and no variables.
type KeyExpression struct {
	key   key
	scope *scope
}

// ParseKey compiles the expression of a key. The error is a *Problems; file is the
// name that its messages lead with.
func ParseKey(file, expression string) (*KeyExpression, error) {
	// The expression is read as the one value of a file of one line, so its errors have the places of any other file's.
	r := &reader{Problems{File: file, lines: []string{expression}}}
	c, err := newCompiler(r)
	if err != nil {
		return nil, fmt.Errorf("policies: parse key: %w", err)
	}

	k := &KeyExpression{scope: c.scope}
	c.key(&k.key)(&yaml.Node{Kind: yaml.ScalarNode, Value: expression, Line: 1, Column: 1})
	if r.Failed() {
		return nil, &r.Problems
	}
	return k, nil
}

// Of returns the key of a request. No deadline ends it: it is for logs, where every
// line counts and nothing waits. The key is at most 256 bytes long, as one of a policy. The
// error says why there is no key for this request; others may have one.
func (k *KeyExpression) Of(r *Request) (string, error) {
	return k.key.value(r.evaluation(context.Background(), k.scope))
}
