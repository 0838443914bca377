package policies

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"go.yaml.in/yaml/v3"
)

// zoned are CEL's functions of an instant, which may be given a time zone.
var zoned = []string{
	overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDayOfMonth, overloads.TimeGetDate,
	overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds, overloads.TimeGetMilliseconds,
}

// offset is a zone that CEL computes: it reads no file for one with a colon.
var offset = regexp.MustCompile(`^[+-]?[0-9]{2}:[0-9]{2}$`)

// refuseZones fails for a time zone that comes with the request, and for one that does not
// exist. CEL reads a zone from the file of that name, at every evaluation: a client would
// choose the files that the service opens. It reports whether there is one.
func (c *compiler) refuseZones(n *yaml.Node, what string, a *cel.Ast) (found bool) {
	visit(a, func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !slices.Contains(zoned, e.AsCall().FunctionName()) || len(e.AsCall().Args()) != 1 {
			return
		}

		// A zone of a table is not looked up here: it may be the one of no request.
		call := e.AsCall()
		zone := call.Args()[0]
		at := a.NativeRep().SourceInfo().GetStartLocation(zone.ID())
		line, column := c.place(n, at.Line(), at.Column())
		if !isConstant(zone) {
			c.failAt(line, column, "%s: the time zone of %s comes with the request, and a client would choose which file is opened: "+
				"write the zone as text, such as \"Europe/Berlin\" or \"+01:00\", or take it from a table in data", what, call.FunctionName())
			found = true
			return
		}

		// A typing error would fail each request, and not the file.
		if isText(zone) && !isZone(literal(zone)) {
			c.failAt(line, column, "%s: unknown time zone %q: want a name such as \"Europe/Berlin\", or an offset such as \"+01:00\"",
				what, literal(zone))
			found = true
		}
	})
	return found
}

// isZone reports whether CEL will know a zone. Where this machine has no time zones, the file
// is refused here, and not each request later.
func isZone(name string) bool {
	// CEL takes every text with a colon for hours and minutes, and looks for no file.
	if strings.Contains(name, ":") {
		return offset.MatchString(name)
	}
	_, err := time.LoadLocation(name)
	return err == nil
}

// isConstant reports whether every value of an expression stands in the file. The key of a
// table may come with the request.
func isConstant(e ast.Expr) bool {
	// A variable of the file is not followed: a constant of data does the same.
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind:
		return strings.HasPrefix(e.AsIdent(), "data.")
	case ast.SelectKind:
		return isConstant(e.AsSelect().Operand())
	case ast.CallKind:
		return isConstantCall(e.AsCall())
	}
	return false
}

// isConstantCall is isConstant of the calls that choose one of their operands. Every other
// function may make any text, as + does of two.
func isConstantCall(call ast.CallExpr) bool {
	args := call.Args()

	// The condition of a choice, and the key of an entry, may come with the request.
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex:
		return isConstant(args[0])
	case operators.Conditional:
		return isConstant(args[1]) && isConstant(args[2])
	case "orValue":
		return call.IsMemberFunction() && isConstant(call.Target()) && isConstant(args[0])
	}
	return false
}
