package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Explanation is what one request would be charged, and why not more. Its JSON
// form is the command line's contract.
type Explanation struct {
	// Checks and Skipped have each policy once, in the order of the file.
	Checks  []ExplainedCheck `json:"charges"`
	Skipped []Skipped        `json:"skipped"`
}

// ExplainedCheck is the check of one policy.
type ExplainedCheck struct {
	// Policy is its name in the file.
	Policy string `json:"policy"`
	// Key is in clear, or a hash if it is too long to be stored as it is.
	Key string `json:"key"`
	// Cost is in units of both limits, at least 0; 0 is a peek.
	Cost int64 `json:"cost"`
	// Protected says that protect names the key: a difference that is declared as expected is a loss of it all the same.
	Protected bool `json:"protected"`
	// Together are the other policies that are charged together with this one: all are charged, or none.
	Together []string `json:"together,omitempty"`
	// Settle is the expression of the final cost, which is known after the answer; "" where Cost is final.
	Settle string `json:"settle,omitempty"`
	// Labels are those of the policy; nil without any.
	Labels map[string]string `json:"labels,omitempty"`
	// OnStoreFailure is what decides the request while the store of the enforced side does not answer.
	OnStoreFailure string `json:"on_store_failure"`
	// Candidate is nil where the policy has no candidate.
	Authoritative ExplainedSide  `json:"authoritative"`
	Candidate     *ExplainedSide `json:"candidate"`
}

// ExplainedSide is a side with its limit for the request.
type ExplainedSide struct {
	// Algorithm is the name of the algorithm or of the custom limiter, or none, which has no other fields in JSON.
	Algorithm string `json:"algorithm"`
	// Limit is in units of cost, 0 for a custom limiter without one.
	Limit int64 `json:"limit"`
	// Window is as in a policy file, such as "1m"; "" for a custom limiter without one.
	Window string `json:"window"`
	// Burst is 0 unless the file names one.
	Burst int64 `json:"burst"`
	// Adaptive is the rule by which the limit gives way, and what holds at the least; "" where the whole always holds. Limit and
	// Burst are the whole.
	Adaptive string `json:"adaptive,omitempty"`
	// Sync is how often the process exchanges what it has admitted, such as "100ms"; "" for a side that is not decided in it.
	Sync string `json:"sync,omitempty"`
	// PerProcess says that each instance has such a budget of its own.
	PerProcess bool `json:"per_process,omitempty"`
	// Error tells why there is no limit for the request; "" if there is one.
	Error string `json:"error,omitempty"`
}

// MarshalJSON implements json.Marshaler. A limit of 0 would say that none denies everything.
func (e ExplainedSide) MarshalJSON() ([]byte, error) {
	if e.Algorithm == none {
		return []byte(`{"algorithm":"` + none + `"}`), nil
	}
	type fields ExplainedSide
	return json.Marshal(fields(e))
}

// Skipped is a policy that does not charge the request, because its condition is false
// or an expression fails.
type Skipped struct {
	// Policy is its name in the file.
	Policy string `json:"policy"`
	// Reason is a sentence: which condition is false, or what failed and what on_error then does.
	Reason string `json:"reason"`
}

func explainPolicy(p *Policy, c *algorithms.Check, r *Request) ExplainedCheck {
	w := p.evaluation(context.Background(), r)

	e := ExplainedCheck{Policy: c.Policy, Key: c.Key, Cost: c.Cost, Protected: slices.Contains(p.Promotion.Protect, c.Key), Labels: p.Labels, OnStoreFailure: p.OnStoreFailure}
	if p.settle != nil {
		e.Settle = strings.TrimSpace(p.settle.source)
	}
	e.Authoritative = explainSide(p.Sides[algorithms.Authoritative], c.Sides[algorithms.Authoritative].Limit, w)
	if candidate := p.Sides[algorithms.Candidate]; candidate != nil {
		side := explainSide(candidate, c.Sides[algorithms.Candidate].Limit, w)
		e.Candidate = &side
	}
	return e
}

// explainSide describes the side with the limit that it was charged with. A check does
// not carry the reason of a missing limit, so the limit is computed again.
func explainSide(s *Side, charged algorithms.Limit, w *evaluation) ExplainedSide {
	e := ExplainedSide{Algorithm: s.Name(), Limit: charged.Requests, Burst: charged.Burst, PerProcess: s.PerProcess}

	// A limiter of the user's own has no window.
	if charged.Window > 0 {
		e.Window = algorithms.FormatWindow(charged.Window)
	}

	// The limit above is the whole one: it says what holds at the least, because the level of the moment is the fleet's.
	if s.adaptive != nil {
		least := s.AtLevel(s.adaptive.rule.Least())
		e.Adaptive = fmt.Sprintf("%s; at least %d per %s", s.adaptive, least.Requests, algorithms.FormatWindow(least.Window))
	}
	if s.Sync > 0 {
		e.Sync = algorithms.FormatWindow(s.Sync)
	}

	// An expression that fails has left the side out of the check, and the author wants to know why.
	if _, err := s.limitOf(w); err != nil {
		e.Error = strings.TrimPrefix(err.Error(), "policies: ")
	}
	return e
}

// Part is one of the parts of a policy's condition that && joins. It tells the reason why a condition is false.
type Part struct {
	Text    string // as CEL writes it
	program cel.Program
	scope   *scope
}

// Holds reports whether the part is true for a request. A part that fails does not hold.
func (p *Part) Holds(ctx context.Context, r *Request) bool {
	v, _, err := p.program.Eval(r.evaluation(ctx, p.scope))
	return err == nil && v == types.True
}

// inputsIn returns what any of the expressions reads, each once.
func inputsIn(list []*expression) []string {
	all := inputs{}
	for _, x := range list {
		for name := range x.inputs {
			all[name] = true
		}
	}
	return all.sorted()
}
