package policies

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// compiler reads the parts of a file that have expressions, and makes them programs
// of bounded cost. Its environment grows with the file's data and variables, so these
// are read before the policies.
type compiler struct {
	*reader
	env      *cel.Env
	scope    *scope
	elements map[string]uint64 // how many data.NAME has; of a text, its characters

	// The expression that pins keys sees the data, and no request.
	tables  []cel.EnvOption // data.NAME
	keysEnv *cel.Env        // nil before the first of them

	// brokenVariables is set once a variable has a problem: the type of what uses it is not known.
	brokenVariables bool
}

// newCompiler returns a compiler for a file. The error is a mistake of this package.
func newCompiler(r *reader) (*compiler, error) {
	env, err := newEnv(requestVariables)
	if err != nil {
		return nil, err
	}
	return &compiler{
		reader: r, env: env, scope: &scope{headers: map[string]string{}},
		elements: map[string]uint64{},
	}, nil
}

// extend adds a name to the environment, which stays as it is on an error.
func (c *compiler) extend(n *yaml.Node, option cel.EnvOption) {
	extended, err := c.env.Extend(option)
	if err != nil {
		c.fail(n, "%s: %v", n.Value, err)
		return
	}
	c.env = extended
}

// compile compiles the expression of a scalar node, which must be of one of the
// types, of any if none is given. It returns nil after noting the problems.
func (c *compiler) compile(n *yaml.Node, what string, types ...*cel.Type) *expression {
	a := c.check(n, what, types)
	if a == nil {
		return nil
	}

	// The bounds at run time depend on the estimated cost.
	options, err := c.boundCost(a)
	if err != nil {
		c.fail(n, "%s: %v", what, err)
		return nil
	}

	// Optimized, a program folds constants and compiles regular expressions once, here
	// instead of in each request.
	program, err := c.env.Program(a, append(options, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		c.fail(n, "%s: %v", what, err)
		return nil
	}

	x := &expression{
		source:  n.Value,
		result:  a.OutputType(),
		program: program,
		plain:   plainOf(a),
		endless: len(options) > 0,
		inputs:  inputsOf(a, c.scope.variables),
	}
	for name := range x.inputs.headers() {
		c.scope.headers[name] = canonicalName(name)
	}

	// Only a condition is asked of requests that a policy does not match, which are most of them.
	if x.result.IsExactType(cel.BoolType) {
		x.filters, x.onlyFilters = filtersOf(a)
		x.checked, x.env = a, c.env
	}
	return x
}

// check parses an expression and checks its types. It returns nil after noting the
// problems. Header names come last, because they are found in the tree of a correct
// expression.
func (c *compiler) check(n *yaml.Node, what string, types []*cel.Type) *cel.Ast {
	if n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
		c.fail(n, "%s: want a CEL expression", what)
		return nil
	}
	// YAML takes a ! in front of a text for a tag, and drops it: the expression would hold for the opposite requests, in silence.
	if tagged(c.reader, n) {
		c.fail(n, "%s: YAML drops a ! at the beginning: put the expression in quotes", what)
		return nil
	}

	a, issues := c.env.Compile(n.Value)
	if issues != nil && issues.Err() != nil {
		c.failIssues(n, what, issues.Errors())
		return nil
	}

	// A wrong type would otherwise fail in each request, where on_error decides in silence.
	if !oneOf(a.OutputType(), types) && !c.broken(a) {
		c.fail(n, "%s: the expression is of type %s: want %s", what, a.OutputType(), typeNames(types))
		return nil
	}

	if c.refuseUpperCase(n, what, a) || c.refuseZones(n, what, a) {
		return nil
	}
	return a
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

// tagged reports whether a tag stands in front of a scalar in the file. A node tells every tag but "!".
func tagged(r *reader, n *yaml.Node) bool {
	if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!") {
		return true
	}
	if n.Line > len(r.lines) {
		return false
	}
	line := []rune(r.lines[n.Line-1])
	return n.Style&yaml.TaggedStyle == 0 && n.Column <= len(line) && line[n.Column-1] == '!' && !strings.HasPrefix(n.Value, "!")
}

// failIssues notes what CEL has found wrong in an expression. All of it, since an author corrects it at once, but for what comes of
// another mistake.
func (c *compiler) failIssues(n *yaml.Node, what string, issues []*common.Error) {
	for i, e := range issues {
		// A value of this type is one of the other mistakes, and each loop too deep is the same one.
		if i > 0 && (strings.Contains(e.Message, "!error!") || e.Message == issues[0].Message && strings.Contains(e.Message, "nesting limit")) {
			continue
		}

		line, column := c.place(n, e.Location.Line(), e.Location.Column())
		c.failAt(line, column, "%s: %s", what, c.issueText(n.Value, e))

		// Behind what cannot be parsed, all is wrong.
		if strings.HasPrefix(e.Message, "Syntax error: ") || strings.HasPrefix(e.Message, "reserved identifier") {
			return
		}
	}
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']+)'`)
	dottedName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*`)
)

// issueText is the message of CEL, without a container, which files do not have. For a name that is not declared it is the whole
// name, of which CEL knows the part before the first dot, with the nearest one that is.
func (c *compiler) issueText(source string, issue *common.Error) string {
	m := undeclared.FindStringSubmatch(issue.Message)
	if m == nil {
		return strings.TrimSuffix(issue.Message, " (in container '')")
	}

	// A name that is called stands in front of the place, any other begins there.
	rest := lineFrom(source, issue.Location)
	if strings.HasPrefix(rest, "(") {
		var functions []string
		for name := range c.env.Functions() {
			if dottedName.FindString(name) == name { // the others are operators
				functions = append(functions, name)
			}
		}
		if meant := humanize.Nearest(m[1], functions); meant != "" {
			return fmt.Sprintf("there is no function %s: did you mean %s?", m[1], meant)
		}
		return "there is no function " + m[1]
	}
	name := m[1]
	if whole := dottedName.FindString(rest); strings.HasPrefix(whole, name) {
		name = whole
	}

	// Names of values have a dot, but for the parts of a key; those without are otherwise CEL's own, of types. What follows such
	// a name is a field or a function of the value.
	var names []string
	for _, v := range c.env.Variables() {
		if dottedName.MatchString(v.Name()) && (strings.Contains(v.Name(), ".") || v.Name() == keyName) {
			names = append(names, v.Name())
		}
	}
	slices.Sort(names)
	if parts := strings.SplitN(name, ".", 3); len(parts) > 2 {
		name = parts[0] + "." + parts[1]
	}
	if slices.Contains(names, name) { // has(request.user), which takes an entry
		return strings.TrimSuffix(issue.Message, " (in container '')")
	}
	for _, known := range names {
		if strings.HasSuffix(known, "."+name) {
			return fmt.Sprintf("there is no %s: did you mean %s?", name, known)
		}
	}
	return fmt.Sprintf("there is no %s: %s", name, humanize.Remedy(name, names))
}

// lineFrom returns the rest of the line at a place of an expression, "" where the expression has no such place. CEL counts lines
// from 1, and columns from 0 in characters.
func lineFrom(source string, at common.Location) string {
	lines := strings.Split(source, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	return string(line[min(at.Column(), len(line)):])
}

// broken reports whether an expression has no type because it uses a variable with a problem, which is told already.
func (c *compiler) broken(a *cel.Ast) bool {
	return c.brokenVariables && a.OutputType().IsExactType(cel.DynType)
}

// oneOf reports whether t is among the types. Any type is, if there are none. The dynamic
// type is one of its own: a field that accepts it says so, and checks each value.
func oneOf(t *cel.Type, types []*cel.Type) bool {
	for _, want := range types {
		if t.IsExactType(want) {
			return true
		}
	}
	return len(types) == 0
}

// typeNames lists the types for a message: string or int.
func typeNames(types []*cel.Type) string {
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = t.String()
	}
	return strings.Join(list, " or ")
}

// refuseUpperCase fails for a header that an expression names as it is often
// written. Expressions see header names in lower case, so the header would always be
// absent, and nothing would say so. It reports whether there is one.
func (c *compiler) refuseUpperCase(n *yaml.Node, what string, a *cel.Ast) (found bool) {
	visit(a, func(e ast.Expr) {
		name := headerOf(e)
		if name == nil {
			return
		}

		text, lower := literal(name), strings.ToLower(literal(name))
		if text == lower {
			return
		}

		// The column of the name, not of the expression: a key may have a dozen headers.
		at := a.NativeRep().SourceInfo().GetStartLocation(name.ID())
		line, column := c.place(n, at.Line(), at.Column())
		c.failAt(line, column, "%s: expressions see header names in lower case: write %q, for %q is always absent",
			what, lower, text)
		found = true
	})
	return found
}

// headerOf returns the name's literal in request.headers[NAME], request.headers[?NAME]
// and NAME in request.headers, and likewise of the response; nil for another expression.
func headerOf(e ast.Expr) ast.Expr {
	if e.Kind() != ast.CallKind {
		return nil
	}

	var of, name ast.Expr
	switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
	case operators.Index, operators.OptIndex:
		of, name = args[0], args[1]
	case operators.In:
		of, name = args[1], args[0]
	default:
		return nil
	}

	// A name that is computed is known with the request only.
	if of.Kind() != ast.IdentKind || of.AsIdent() != "request.headers" && of.AsIdent() != "response.headers" || !isText(name) {
		return nil
	}
	return name
}

// Bounds of an expression, so that none can stall the loader or a request. The depth
// also keeps the parser's recursion from exhausting the stack. Nested loops
// cost the product of their lengths: three over the headers would take a million steps.
const (
	maxExpressionBytes = 4096
	maxExpressionDepth = 32
	maxLoopsInLoops    = 1
)

// requestVariables are the names of a request's fields. Dotted names instead of one
// map: a misspelled name is found when the file is loaded, not at the first request.
var requestVariables = []cel.EnvOption{
	cel.Variable("request.method", cel.StringType),
	cel.Variable("request.path", cel.StringType),
	cel.Variable("request.route", cel.StringType),
	cel.Variable("request.host", cel.StringType),
	cel.Variable("request.query", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("request.headers", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("request.ip", cel.StringType),
	cel.Variable("request.user", cel.StringType),
	cel.Variable("request.claims", cel.MapType(cel.StringType, cel.DynType)),
	cel.Variable("request.domain", cel.StringType),
	cel.Variable("request.descriptors", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("request.cost", cel.IntType),
	cel.Variable("request.size", cel.IntType),
	cel.Variable("request.time", cel.TimestampType),
}

// newEnv returns an environment of these names, in which expressions are compiled. The
// error is a mistake of this package.
func newEnv(names []cel.EnvOption) (*cel.Env, error) {
	return cel.NewEnv(append([]cel.EnvOption{
		// A field of the request may be absent: headers[?"x"].orValue("none").
		cel.OptionalTypes(),

		ext.Strings(),
		ext.Math(),
		ext.Network(),
		ipGroup,

		cel.ParserExpressionSizeLimit(maxExpressionBytes),
		cel.ParserRecursionLimit(maxExpressionDepth),
		// A literal can be checked now: a bad regular expression would otherwise
		// fail in each request.
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
			cel.ValidateComprehensionNestingLimit(maxLoopsInLoops+1), // CEL counts the outer one, too
		),
	}, names...)...)
}

// Lengths, in bits, of the prefixes that one client is taken to have: one IPv4
// address, and of IPv6 a /64, the size of one subnet (RFC 4291, 2.5.1).
const (
	clientBits4 = 32
	clientBits6 = 64
)

// ipGroup is the function ipGroup(ip) or ipGroup(ip, bits4, bits6): the network of an
// address that one client has. A client of an IPv6 network can take any address of
// it, and would have a budget for each. An IPv4 address in an IPv6 one is an IPv4
// address; a text that is no address stays as it is.
var ipGroup = cel.Function("ipGroup",
	cel.Overload("ip_group",
		[]*cel.Type{cel.StringType}, cel.StringType,
		cel.UnaryBinding(func(ip ref.Val) ref.Val { return groupOf(ip, clientBits4, clientBits6) }),
	),
	cel.Overload("ip_group_bits",
		[]*cel.Type{cel.StringType, cel.IntType, cel.IntType}, cel.StringType,
		cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			return groupOf(args[0], int(args[1].(types.Int)), int(args[2].(types.Int)))
		}),
	),
)

// groupOf returns the network of an address. A text that is no address stands for itself: a key of it must not fail, because a
// request whose key fails escapes the limit.
func groupOf(ip ref.Val, bits4, bits6 int) ref.Val {
	addr, err := netip.ParseAddr(string(ip.(types.String)))
	if err != nil {
		return ip
	}

	// A zone names an interface of this host, and not a client.
	addr = addr.Unmap().WithZone("")
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}

	// The lengths may come from the request, so they are checked here.
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return types.NewErr("ipGroup: %d bits of %s", bits, addr)
	}
	// Without /32 the key of an IPv4 client is the same as with request.ip.
	if prefix.IsSingleIP() {
		return types.String(addr.String())
	}
	return types.String(prefix.String())
}

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

// boundCost estimates the worst cost of an expression, and refuses one that could
// delay requests. Claims have no size that is known beforehand: an expression that
// loops over them is bounded at run time, by the returned options. That makes each of
// its evaluations slower, so only such expressions pay for it.
func (c *compiler) boundCost(a *cel.Ast) ([]cel.ProgramOption, error) {
	estimate, err := c.env.EstimateCost(a, sizes{c.elements})
	if err != nil {
		return nil, fmt.Errorf("estimate the cost: %w", err)
	}

	// The estimate of a loop over claims has no bound, so it says nothing about the expression's usual cost.
	if estimate.Max > endlessCost {
		return []cel.ProgramOption{cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery)}, nil
	}
	if estimate.Max > maxCost {
		return nil, fmt.Errorf("it may cost %d units a request, at most %d are allowed: compare with startsWith or ==, "+
			"or match less text, such as the route, without counts such as {1,64}", estimate.Max, maxCost)
	}
	return nil, nil
}

// maxCost is what an expression may cost at worst, in CEL's units: about a
// millisecond. An attacker chooses the request, so the worst case counts, and not the
// usual one.
const maxCost = 10_000

// checkEvery is how many steps a loop over claims takes between looks at the clock. Only
// these loops look at it: every other expression ends within maxCost.
const checkEvery = 100

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

// number returns a reader of a whole number from least on, or an expression of
// type int. What an expression yields is checked for each request.
func (c *compiler) number(what string, into *number, least int64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && wholeNumber.MatchString(n.Value) {
			c.count(what, &into.constant, least)(n)
			return
		}

		if _, err := strconv.ParseFloat(n.Value, 64); err == nil || n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
			c.fail(n, "%s: want a whole number, such as 100, or an expression of type int", what)
			return
		}
		into.expression = c.compile(n, what, cel.IntType)
	}
}
