package policies

import (
	"fmt"
	"math"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// maxCost is what an expression may cost at worst, in CEL's units: about a
// millisecond.
const maxCost = 10_000

// checkEvery is how many steps a loop over claims takes between looks at the clock.
const checkEvery = 100

// endlessCost is more than any expression costs whose sizes are known.
const endlessCost = math.MaxUint64 >> 20

// Sizes that a request has at most, as far as costs are estimated. They are those
// of most servers; Go's takes headers of 1 MB in all unless MaxHeaderBytes is set,
// and evaluation then takes longer in proportion.
const (
	longText  = 8 << 10
	shortText = 256
	manyItems = 100
)

// boundCost estimates the worst cost of an expression and refuses what is too
// dear. Where claims make it endless it is bounded at run time instead, which
// makes each evaluation dearer.
func boundCost(env *cel.Env, ast *cel.Ast) ([]cel.ProgramOption, error) {
	estimate, err := env.EstimateCost(ast, sizes{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("estimate the cost: %w", err)
	case estimate.Max > endlessCost:
		return []cel.ProgramOption{cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery)}, nil
	case estimate.Max > maxCost:
		return nil, fmt.Errorf("it may cost %d units a request, at most %d are allowed: compare with startsWith or ==, or match less text, such as the route, without counts such as {1,64}", estimate.Max, maxCost)
	}
	return nil, nil
}

// sizes estimates how large parts of a request are.
type sizes struct{}

var textSizes = map[string]uint64{
	"request.method": 32, "request.route": shortText, "request.host": shortText, "request.ip": 64, "request.user": shortText,
	"request.path": longText,
}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	switch {
	case len(path) > 0 && path[0] == "request.claims":
		return nil
	case len(path) == 0 && node.Type().Kind() == types.StringKind:
		return &checker.SizeEstimate{Max: longText} // what a function has made of a request's text
	case len(path) == 0:
		return nil
	}
	size := uint64(longText)
	if known, ok := textSizes[path[0]]; ok {
		size = known
	} else if len(path) == 1 && (path[0] == "request.headers" || path[0] == "request.query") {
		size = manyItems
	}
	return &checker.SizeEstimate{Max: size}
}

// EstimateCallCost implements checker.CostEstimator. CEL takes a regular expression
// by its length, as which (a{1,100}){1,10} is nothing: its program has a thousand
// steps, and each may be taken for each byte of the text.
func (s sizes) EstimateCallCost(_, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	switch {
	case overload == overloads.MatchesString && target != nil && len(args) == 1:
		args = []checker.AstNode{*target, args[0]}
	case overload == overloads.Matches && target == nil && len(args) == 2:
	default:
		return nil
	}
	size := uint64(longText)
	text := args[0].ComputedSize()
	if text == nil {
		text = s.EstimateSize(args[0])
	}
	if text != nil {
		size = text.Max
	}
	length := longText // of what is put together or comes with the request
	if pattern := texts(args[1].Expr()); len(pattern) == 1 {
		length = max(len(pattern[0]), steps(pattern[0]))
	}
	cost := float64(size+1) * common.StringTraversalCostFactor * float64(length) * common.RegexStringLengthCostFactor
	if text == nil && cost <= maxCost {
		return nil // a claim's, which may be longer, and is bounded at run time
	}
	return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Max: uint64(min(cost, endlessCost))}}
}

// steps is how large the program of a regular expression is, 0 if it is none.
func steps(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // which is a problem of its own
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}
