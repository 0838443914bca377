package importer

import (
	"strconv"
	"strings"
)

// expr is a CEL expression with the level of its loosest operator, so that parts are put together without needless parentheses.
type expr struct {
	text  string
	level level
}

// level orders operators: a looser one needs parentheses inside a tighter one.
type level int

const (
	atom level = iota
	negation
	relation
	conjunction
	disjunction
	choice
)

var (
	yes = expr{"true", atom}
	no  = expr{"false", atom}
)

// mostExpression bounds an expression while it is put together. Policies take 4,096 bytes; a longer one is refused there.
const mostExpression = 8 << 10

// tooLong stands for an expression beyond the bound. It stays what it is inside any other.
var tooLong = expr{"too_long", atom}

// composed returns an expression of parts, or tooLong.
func composed(l level, parts ...string) expr {
	length := 0
	for _, part := range parts {
		length += len(part)
		if part == tooLong.text {
			return tooLong
		}
	}

	if length > mostExpression {
		return tooLong
	}

	return expr{strings.Join(parts, ""), l}
}

// in returns the text as an operand of an operator of a level.
func (e expr) in(l level) string {
	if e.level > l {
		return "(" + e.text + ")"
	}
	return e.text
}

// literal returns a text as CEL writes it: the escapes of Go are a part of CEL's.
func literal(text string) expr { return expr{strconv.Quote(text), atom} }

// call returns a method call on an expression.
func (e expr) call(method string, arguments ...string) expr {
	if e == tooLong {
		return e
	}
	return composed(atom, e.in(atom)+"."+method+"("+strings.Join(arguments, ", ")+")")
}

func equals(a, b expr) expr {
	if a == tooLong || b == tooLong {
		return tooLong
	}
	return composed(relation, a.in(atom)+" == "+b.in(atom))
}

// oneOf returns the condition that a value is one of some texts.
func oneOf(value expr, texts []string) expr {
	if len(texts) == 1 {
		return equals(value, literal(texts[0]))
	}

	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = literal(text).text
	}
	return composed(relation, value.in(atom), " in [", strings.Join(quoted, ", "), "]")
}

func hasPrefix(value expr, prefix string) expr { return value.call("startsWith", literal(prefix).text) }

func not(e expr) expr {
	switch e {
	case yes:
		return no
	case no:
		return yes
	case tooLong:
		return e
	}
	return composed(negation, "!"+e.in(negation))
}

func and(a, b expr) expr {
	switch {
	case a == no || b == no:
		return no
	case a == yes || a == b:
		return b
	case b == yes:
		return a
	}
	return composed(conjunction, a.in(conjunction), " && ", b.in(conjunction))
}

func or(a, b expr) expr {
	switch {
	case a == yes || b == yes:
		return yes
	case a == no || a == b:
		return b
	case b == no:
		return a
	}
	return composed(disjunction, a.in(disjunction), " || ", b.in(disjunction))
}

// branch is one case of a choice.
type branch struct{ when, then expr }

// choose returns the value of the first branch that holds, as routers choose. Branches that make no difference fall away, and
// conditions are written with && and ||.
func choose(branches []branch, otherwise expr) expr {
	for i := len(branches) - 1; i >= 0; i-- {
		b := branches[i]
		for ; i > 0 && branches[i-1].then == b.then; i-- {
			b.when = or(branches[i-1].when, b.when)
		}
		otherwise = oneChoice(b.when, b.then, otherwise)
	}
	return otherwise
}

func oneChoice(when, then, otherwise expr) expr {
	// Both ways are one, or only one of them is open.
	switch {
	case when == yes || then == otherwise:
		return then
	case when == no:
		return otherwise
	}

	// A choice between yes or no and something else reads better as "and" or "or".
	switch {
	case then == yes:
		return or(when, otherwise)
	case then == no:
		return and(not(when), otherwise)
	case otherwise == no:
		return and(when, then)
	case otherwise == yes:
		return or(not(when), then)
	}

	return composed(choice, when.in(disjunction), " ? ", then.in(disjunction), " : ", otherwise.text)
}
