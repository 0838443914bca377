package policies

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
)

// maxCost is what an expression may cost at worst, in CEL's units: about a
// millisecond.
const maxCost = 10_000

// endlessCost is more than any expression costs whose sizes are known.
const endlessCost = math.MaxUint64 >> 20

// Sizes that a request has at most, as far as costs are estimated: those of an
// HTTP server with its defaults, and of short things.
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
		return []cel.ProgramOption{cel.CostLimit(maxCost)}, nil
	case estimate.Max > maxCost:
		return nil, fmt.Errorf("it may cost %d units a request, at most %d are allowed: compare with startsWith or ==, or match less text", estimate.Max, maxCost)
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

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
