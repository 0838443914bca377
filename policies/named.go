package policies

import (
	"maps"
	"slices"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// named are the keys that a condition about keys can be true for, as far as its text says: the file's lists and constants that it
// compares parts of a key with. Of a key that it is true for, each part that is in parts has one of these texts.
type named struct {
	parts map[int64]texts
	// never reports that it is true for no key.
	never bool
	// exact reports that it is true for every such key, too.
	exact bool
}

// texts is a set of them.
type texts map[string]bool

// anyKey is what a condition names that this package does not understand.
var anyKey = named{}

// namedBy reads "key[N] == text", "key[N] in texts", and what "&&" and "||" make of them.
func (c *compiler) namedBy(e ast.Expr) named {
	// A constant condition is true for all keys or for none, which needs no list.
	if e.Kind() == ast.LiteralKind {
		value := e.AsLiteral() == types.True
		return named{never: !value, exact: true}
	}
	if e.Kind() != ast.CallKind {
		return anyKey
	}

	// Any other function may be true for any key: a warning must not come from a guess.
	args := e.AsCall().Args()
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd:
		return both(c.namedBy(args[0]), c.namedBy(args[1]))
	case operators.LogicalOr:
		return either(c.namedBy(args[0]), c.namedBy(args[1]))
	case operators.In:
		return c.among(args[0], args[1])
	case operators.Equals:
		if partOf(args[1]) >= 0 { // text == key[N]
			args = []ast.Expr{args[1], args[0]}
		}
		return c.among(args[0], args[1])
	}
	return anyKey
}

// among is the condition that a part of the key is one of the texts of a constant.
func (c *compiler) among(part, constant ast.Expr) named {
	// Nothing is among the elements of an empty list, whatever the part is.
	if constant.Kind() == ast.IdentKind && c.isEmpty(constant.AsIdent()) ||
		constant.Kind() == ast.ListKind && len(constant.AsList().Elements()) == 0 {
		return named{never: true, exact: true}
	}

	// A condition of anything but a part of the key, or beside texts that are not known, may hold for any key.
	n := partOf(part)
	list, known := c.textsOfConstant(constant)
	if n < 0 || !known {
		return anyKey
	}
	return named{parts: map[int64]texts{n: list}, exact: true}
}

// textsOfConstant returns the texts of a literal, of a list of literals, or of one of the file's tables.
func (c *compiler) textsOfConstant(e ast.Expr) (list texts, known bool) {
	list = texts{}

	// A list that has anything but texts is not known: a key may equal what it yields.
	switch {
	case isText(e):
		list[literal(e)] = true
	case e.Kind() == ast.IdentKind:
		for _, text := range c.constants[e.AsIdent()] {
			list[text] = true
		}
	case e.Kind() == ast.ListKind:
		for _, element := range e.AsList().Elements() {
			if !isText(element) {
				return nil, false
			}
			list[literal(element)] = true
		}
	}
	return list, len(list) > 0
}

// partOf returns N of key[N], -1 for another expression: key by itself, or the field of a request.
func partOf(e ast.Expr) int64 {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
		return -1
	}
	return indexOfKey(e.AsCall().Args())
}

// both is the conjunction: a part must have a text that both name.
func both(a, b named) named {
	// A part that only one of the two bounds keeps that bound.
	sum := named{parts: maps.Clone(a.parts), never: a.never || b.never, exact: a.exact && b.exact}
	if sum.parts == nil {
		sum.parts = map[int64]texts{}
	}

	for n, list := range b.parts {
		// A copy: the lists belong to the conditions that this one is made of.
		if mine, bounded := sum.parts[n]; bounded {
			list = maps.Clone(list)
			maps.DeleteFunc(list, func(text string, _ bool) bool { return !mine[text] })
		}
		sum.parts[n] = list
		sum.never = sum.never || len(list) == 0
	}
	return sum
}

// either is the disjunction: a part has a bound only if both have one.
func either(a, b named) named {
	// A part that is never true adds no key.
	switch {
	case a.never:
		return b
	case b.never:
		return a
	}

	sum := named{parts: map[int64]texts{}}
	for n, list := range a.parts {
		// The union, in a copy, as in both.
		if others, bounded := b.parts[n]; bounded {
			list = maps.Clone(list)
			maps.Copy(list, others)
			sum.parts[n] = list
		}
	}

	// Two lists of one part are one list. Those of two parts name other keys than their combinations.
	sum.exact = a.exact && b.exact && len(a.parts) == 1 && len(b.parts) == 1 && len(sum.parts) == 1
	return sum
}

// mostLooked bounds the work of counting: comparisons of a key with an element of a list. It is some ten milliseconds, in
// a service that reloads its file, too.
const mostLooked = 1 << 21

// looksOf returns how many elements one evaluation may compare a key with.
func (c *compiler) looksOf(a *cel.Ast) int {
	looks := 1
	visit(a, func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && a.NativeRep().GetType(e.ID()).Kind() == types.ListKind {
			looks += int(min(c.elements[e.AsIdent()], mostLooked))
		}
	})
	return looks
}

// namedKeys returns how many of a policy's keys an expression is true for, as far as its lists and constants say. A part that
// they do not bound counts as one text. known is false where that would be no more than a guess: 0 is known only
// where all parts are bounded.
func (x *placing) namedKeys(k key) (n int, known bool) {
	lists, bounded, combinations := make([][]string, len(k)), 0, 1
	for i := range k {
		list, found := x.named.parts[int64(i)]
		if !found {
			continue
		}

		// A text that the part's type never has, such as "x" for a number, names no key.
		for text := range list {
			if k[i].yields(text) {
				lists[i] = append(lists[i], text)
			}
		}
		if len(lists[i]) == 0 {
			return 0, true
		}

		// Many lists have a product above the largest int, so it is capped.
		slices.Sort(lists[i])
		bounded++
		combinations = min(combinations*len(lists[i]), mostLooked)
	}

	// Combinations are only counted one by one where the text alone does not say that all of them match.
	switch {
	case bounded == 0:
		return 0, false
	case x.named.exact:
		return combinations, true
	case combinations*x.looks > mostLooked:
		return 0, false
	}
	n = x.count(lists)
	return n, n > 0 || bounded == len(k)
}

// count evaluates the expression for all combinations of texts. A part without texts is an error to what asks for it, so
// what counts is true whatever it is.
func (x *placing) count(lists [][]string) (n int) {
	parts := make([]ref.Val, len(lists))
	unknown := types.NewErr("the part is not known")

	var next func(i int)
	next = func(i int) {
		if i == len(lists) {
			v, _, err := x.program.Eval(&keyOnly{types.NewRefValList(types.DefaultTypeAdapter, parts)})
			if err == nil && v == types.True {
				n++
			}
			return
		}

		// An error stands for a part that has no list: "&&" and "||" pass over it where the other side decides.
		if lists[i] == nil {
			parts[i] = unknown
			next(i + 1)
		}
		for _, text := range lists[i] {
			parts[i] = types.String(text)
			next(i + 1)
		}
	}

	next(0)
	return n
}

// yields reports whether a part of a key can have a text, by the type of its expression.
func (x *expression) yields(text string) bool {
	// A key's part is the text of a value, so a number has one form only: "01" is no key of an integer.
	switch x.result.Kind() {
	case types.BoolKind:
		return text == "true" || text == "false"
	case types.IntKind:
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && strconv.FormatInt(n, 10) == text
	case types.UintKind:
		n, err := strconv.ParseUint(text, 10, 64)
		return err == nil && strconv.FormatUint(n, 10) == text
	}
	return true
}
