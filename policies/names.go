package policies

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"
)

// maxVariables bounds the variables and the tables of a file: an evaluation searches
// the variables one by one, and keeps a value for each.
const maxVariables = 100

// readData extends the environment by the file's constant tables, data.NAME.
func readData(c *compiler, n *yaml.Node) {
	if n == nil {
		return
	}
	// A mapping has a name and a value for each table.
	if len(n.Content)/2 > maxVariables {
		c.fail(n, "data: %d tables: at most %d", len(n.Content)/2, maxVariables)
		return
	}

	for name, value := range c.pairs(n, "data") {
		if !c.identifier(name, "data") {
			continue
		}
		readTable(c, name, value)
	}
}

// readTable adds one constant.
func readTable(c *compiler, name, n *yaml.Node) {
	// A table with a problem is known all the same: its users would add one each.
	full := "data." + name.Value
	constant, t := readConstant(c.reader, n, full)
	if t == nil {
		c.extend(name, cel.Variable(full, cel.DynType))
		return
	}

	value := types.DefaultTypeAdapter.NativeToValue(constant)
	if sized, ok := value.(traits.Sizer); ok {
		c.elements[full] = uint64(sized.Size().(types.Int))
	}
	c.tables = append(c.tables, cel.Constant(full, t, value))
	c.extend(name, cel.Constant(full, t, value))
}

// readConstant reads a scalar, a list of scalars or a table of them, all of one type.
// The type is nil where there is a problem.
func readConstant(r *reader, n *yaml.Node, what string) (any, *cel.Type) {
	switch n.Kind {
	case yaml.SequenceNode:
		return readConstantList(r, n, what)
	case yaml.MappingNode:
		return readConstantTable(r, n, what)
	}
	return readScalar(r, n, what)
}

func readConstantList(r *reader, n *yaml.Node, what string) (any, *cel.Type) {
	var list []any
	elements := cel.DynType // of an empty list
	for i, item := range r.items(n, what) {
		v, t := readScalar(r, item, what)
		if t == nil || i > 0 && !sameType(r, item, what, t, elements) {
			return nil, nil
		}

		elements, list = t, append(list, v)
	}
	return list, cel.ListType(elements)
}

// readConstantTable reads a table of scalars by text.
func readConstantTable(r *reader, n *yaml.Node, what string) (any, *cel.Type) {
	table := map[string]any{}
	values := cel.DynType // of an empty table
	for key, item := range r.pairs(n, what) {
		v, t := readScalar(r, item, what)
		if t == nil || len(table) > 0 && !sameType(r, item, what, t, values) {
			return nil, nil
		}

		// YAML takes the last of two, and the author may mean the first.
		if _, twice := table[key.Value]; twice {
			r.fail(key, "%s has %q twice", what, key.Value)
			return nil, nil
		}
		values, table[key.Value] = t, v
	}
	return table, cel.MapType(cel.StringType, values)
}

// sameType reports whether a value has the type of those before it: CEL's lists and maps
// have one, and the checker finds more mistakes than with values of any type.
func sameType(r *reader, n *yaml.Node, what string, t, want *cel.Type) bool {
	if t.IsExactType(want) {
		return true
	}
	r.fail(n, "%s: want values of one type", what)
	return false
}

// readScalar reads a constant with the type that YAML gives it: "7" is text, 7 a number. A
// date without quotes is an instant for YAML, and an empty value null: both are refused,
// because their authors mostly mean text.
func readScalar(r *reader, n *yaml.Node, what string) (any, *cel.Type) {
	// Package yaml decides by the form of the text. Decode makes int of whole numbers, which CEL has with 64 bits.
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

	r.fail(n, "%s: want text, a number, true or false", what)
	return nil, nil
}

// readVariables extends the environment by the file's named expressions. Each sees only
// those above it, so they cannot form a circle.
func readVariables(c *compiler, n *yaml.Node) {
	if n == nil {
		return
	}
	if len(n.Content)/2 > maxVariables {
		c.fail(n, "variables: %d of them: at most %d", len(n.Content)/2, maxVariables)
		return
	}

	// In the order of the file: each one that is read is known to the next.
	for name, value := range c.pairs(n, "variables") {
		if c.identifier(name, "variables") {
			readVariable(c, name, value)
		}
	}
}

// readVariable compiles a named expression, of any type.
func readVariable(c *compiler, name, value *yaml.Node) {
	// Two of one name would have one value.
	full := "variables." + name.Value
	if variableNamed(full, c.scope.variables) != nil {
		c.fail(name, "variables has %q twice", name.Value)
	}

	// A variable with a problem is known all the same: its users would add one each.
	x := c.compile(value, full)
	if x == nil {
		c.brokenVariables = true
		c.extend(name, cel.Variable(full, cel.DynType))
		return
	}
	c.scope.variables = append(c.scope.variables, &variable{full, x})
	c.extend(name, cel.Variable(full, x.result))
}
