package policies

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// maxKeyParts bounds the expressions of a key.
const maxKeyParts = 16

// key makes the key of a charge from one expression or several.
type key []*expression

var keyTypes = []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.BoolType, cel.DynType}

// key returns a reader of an expression or a list of them.
func (d *document) key(env *cel.Env, into *key) func(*yaml.Node) {
	return func(n *yaml.Node) {
		parts := []*yaml.Node{n}
		if n.Kind == yaml.SequenceNode {
			parts = d.items(n, "key")
		}
		if len(parts) > maxKeyParts {
			d.fail(n, "key: %d expressions: at most %d", len(parts), maxKeyParts)
			return
		}
		if len(parts) == 0 {
			d.fail(n, "key: want at least one expression")
		}
		for _, part := range parts {
			if x := d.compile(env, part, "key", keyTypes...); x != nil {
				*into = append(*into, x)
			}
		}
	}
}

// value returns the key for a request. Parts are joined by '|', with '|' and '\'
// escaped by '\', so distinct lists make distinct keys.
func (k key) value(w *evaluation) (string, error) {
	if len(k) == 1 {
		part, err := k[0].part(w)
		return algorithms.BoundedKey(part), err
	}
	parts := make([]string, len(k))
	for i, x := range k {
		part, err := x.part(w)
		if err != nil {
			return "", err
		}
		parts[i] = escaper.Replace(part)
	}
	return algorithms.BoundedKey(strings.Join(parts, "|")), nil
}

// part returns one part of a key.
func (x *expression) part(w *evaluation) (string, error) {
	v, err := x.eval(w)
	if err != nil {
		return "", err
	}
	text, err := keyText(v)
	if err != nil {
		return "", fmt.Errorf("policies: key %s: %w", x.source, err)
	}
	return text, nil
}

var escaper = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

func keyText(v ref.Val) (string, error) {
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	case types.Bool:
		return strconv.FormatBool(bool(v)), nil
	}
	return "", fmt.Errorf("got a %s: want a string, a whole number or a bool", v.Type().TypeName())
}

func (k key) text() string {
	sources := make([]string, len(k))
	for i, x := range k {
		sources[i] = x.source
	}
	return strings.Join(sources, "\x00")
}
