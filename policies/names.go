package policies

import (
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

var validIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// maxVariables bounds the variables and the tables of a file.
const maxVariables = 100

// data extends the environment by the file's constant tables, data.NAME.
func (d *document) data(env *cel.Env, n *yaml.Node) *cel.Env {
	if n == nil {
		return env
	}
	if len(n.Content)/2 > maxVariables {
		d.fail(n, "data: %d tables: at most %d", len(n.Content)/2, maxVariables)
		return env
	}
	for name, value := range d.pairs(n, "data") {
		if !validIdentifier.MatchString(name.Value) {
			d.fail(name, "data: %q is not a name for expressions: want letters, digits and '_'", name.Value)
			continue
		}
		constant, t := d.constant(value, "data."+name.Value)
		if t == nil {
			continue
		}
		env = d.extend(env, name, cel.Constant("data."+name.Value, t, types.DefaultTypeAdapter.NativeToValue(constant)))
	}
	return env
}

// extend adds to the environment, which stays as it is on an error.
func (d *document) extend(env *cel.Env, n *yaml.Node, option cel.EnvOption) *cel.Env {
	extended, err := env.Extend(option)
	if err != nil {
		d.fail(n, "%s: %v", n.Value, err)
		return env
	}
	return extended
}

// constant reads a scalar, a list of scalars or a table of them, all of one type.
// The type is nil where there is a problem.
func (d *document) constant(n *yaml.Node, what string) (any, *cel.Type) {
	switch n.Kind {
	case yaml.SequenceNode:
		var list []any
		t := cel.DynType
		for i, item := range d.items(n, what) {
			v, itemType := d.scalar(item, what)
			if itemType == nil || i > 0 && !itemType.IsExactType(t) {
				return d.mixed(item, what, itemType)
			}
			t, list = itemType, append(list, v)
		}
		return list, cel.ListType(t)
	case yaml.MappingNode:
		table := map[string]any{}
		t := cel.DynType
		for key, item := range d.pairs(n, what) {
			v, itemType := d.scalar(item, what)
			if itemType == nil || len(table) > 0 && !itemType.IsExactType(t) {
				return d.mixed(item, what, itemType)
			}
			if _, twice := table[key.Value]; twice {
				d.fail(key, "%s has %q twice", what, key.Value)
				return nil, nil
			}
			t, table[key.Value] = itemType, v
		}
		return table, cel.MapType(cel.StringType, t)
	}
	return d.scalar(n, what)
}

func (d *document) mixed(n *yaml.Node, what string, t *cel.Type) (any, *cel.Type) {
	if t != nil {
		d.fail(n, "%s: want values of one type", what)
	}
	return nil, nil
}

func (d *document) scalar(n *yaml.Node, what string) (any, *cel.Type) {
	var v any
	if n.Kind == yaml.ScalarNode && n.Decode(&v) == nil {
		switch v := v.(type) {
		case string:
			return v, cel.StringType
		case int:
			return int64(v), cel.IntType
		case bool:
			return v, cel.BoolType
		case float64:
			return v, cel.DoubleType
		}
	}
	d.fail(n, "%s: want text, a number, true or false", what)
	return nil, nil
}

// variables extends the environment by the file's named expressions, which see
// those before them.
func (d *document) variables(env *cel.Env, n *yaml.Node) *cel.Env {
	if n == nil {
		return env
	}
	if len(n.Content)/2 > maxVariables {
		d.fail(n, "variables: %d of them: at most %d", len(n.Content)/2, maxVariables)
		return env
	}
	for name, value := range d.pairs(n, "variables") {
		if !validIdentifier.MatchString(name.Value) {
			d.fail(name, "variables: %q is not a name for expressions: want letters, digits and '_'", name.Value)
			continue
		}
		full := "variables." + name.Value
		for _, v := range d.scope.variables {
			if v.name == full {
				d.fail(name, "variables has %q twice", name.Value)
			}
		}
		x := d.compile(env, value, full)
		if x == nil {
			env = d.extend(env, name, cel.Variable(full, cel.DynType)) // one problem is enough
			continue
		}
		d.scope.variables = append(d.scope.variables, &variable{full, x})
		env = d.extend(env, name, cel.Variable(full, x.result))
	}
	return env
}
