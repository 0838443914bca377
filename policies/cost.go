package policies

import (
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// endlessCost is more than any expression costs whose sizes are known. CEL's estimates
// without a bound end at the largest number, or not far below it after a factor.
const endlessCost = math.MaxUint64 >> 20

// Sizes that a request has at most, as far as costs are estimated. They are the
// limits of most servers; Go's accepts headers of 1 MB in all unless MaxHeaderBytes
// is set, and evaluation then takes longer in proportion. They are assumptions of the
// estimate only: no larger text is cut off or refused.
const (
	longText  = 8 << 10 // bytes
	shortText = 256     // bytes
	manyItems = 100
)

// sizes estimates how large the fields of a request are. elements are how many the file's
// tables have, by data.NAME.
type sizes struct{ elements map[string]uint64 }

// textSizes are those of the texts that are shorter than longText, but for the path:
// it is here so that the table names every text.
var textSizes = map[string]uint64{
	"request.method": 32,
	"request.route":  shortText,
	"request.host":   shortText,
	"request.ip":     64,
	"request.user":   shortText,
	"request.domain": shortText,
	"request.path":   longText,
}

// textMaps are the fields that are maps of texts.
var textMaps = []string{"request.headers", "request.query", "request.descriptors", "response.headers"}

// EstimateSize implements checker.CostEstimator. Nil means that the size is not known:
// CEL then takes its own, or the largest number.
func (s sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	switch {
	case len(path) > 0 && path[0] == "request.claims":
		return nil // unknown: the cost is bounded at run time
	case len(path) == 0 && node.Type().Kind() == types.StringKind:
		return &checker.SizeEstimate{Max: longText} // a function has made it of a request's text
	case len(path) == 0:
		return nil
	case len(path) == 1 && strings.HasPrefix(path[0], "data."):
		return &checker.SizeEstimate{Max: min(s.elements[path[0]], longText)}
	case len(path) == 1 && path[0] == keyName:
		return &checker.SizeEstimate{Max: maxKeyElements} // the list, and not one of its texts
	}

	// Every text of a field has the bound of the field.
	if known, ok := textSizes[path[0]]; ok {
		return &checker.SizeEstimate{Max: known}
	}
	if len(path) == 1 && slices.Contains(textMaps, path[0]) {
		return &checker.SizeEstimate{Max: manyItems} // the map, and not one of its texts
	}
	return &checker.SizeEstimate{Max: longText}
}

// EstimateCallCost implements checker.CostEstimator, for regular expressions. CEL
// estimates their cost by their length, and so takes (a{1,100}){1,10} for nothing: its
// program has a thousand steps, and each may be taken for each byte of the text.
func (s sizes) EstimateCallCost(
	_, overload string, target *checker.AstNode, args []checker.AstNode,
) *checker.CallEstimate {
	// text.matches(pattern) and matches(text, pattern) are the same, in two forms.
	switch {
	case overload == overloads.MatchesString && target != nil && len(args) == 1:
		args = []checker.AstNode{*target, args[0]}
	case overload == overloads.Matches && target == nil && len(args) == 2:
	default:
		return nil
	}

	// CEL knows the size of a text that is written out or put together; the size of a
	// field is ours to say.
	text := args[0].ComputedSize()
	if text == nil {
		text = s.EstimateSize(args[0])
	}
	size := uint64(longText)
	if text != nil {
		size = text.Max
	}

	// The same formula as CEL's, by the steps of the program instead of the length.
	cost := float64(size+1) * common.StringTraversalCostFactor *
		float64(patternSize(args[1].Expr())) * common.RegexStringLengthCostFactor
	if text == nil && cost <= maxCost {
		return nil // a claim, which may be longer, and is bounded at run time
	}
	return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Max: uint64(min(cost, endlessCost))}}
}

// patternSize returns what a regular expression counts for. One that is put together,
// or comes with the request, can be anything that a request has room for. Every text of a
// request but the method is then above maxCost: no client chooses a pattern for a long text.
func patternSize(pattern ast.Expr) int {
	if !isText(pattern) {
		return longText
	}
	return max(len(literal(pattern)), steps(literal(pattern)))
}

// steps returns the size of a regular expression's program, 0 if it has none: the
// compiler reports that as a problem of its own.
func steps(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}

	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}
