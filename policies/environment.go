package policies

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

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
