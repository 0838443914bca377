package policies

import (
	"context"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Explanation is what one request would be charged, and why not more. Its JSON
// form is the command line's contract.
type Explanation struct {
	Charges []ExplainedCharge `json:"charges"`
	Skipped []Skipped         `json:"skipped"`
}

// ExplainedCharge is the charge of one policy.
type ExplainedCharge struct {
	Policy        string         `json:"policy"`
	Key           string         `json:"key"`
	Cost          int64          `json:"cost"`
	Authoritative ExplainedSide  `json:"authoritative"`
	Candidate     *ExplainedSide `json:"candidate"`
}

// ExplainedSide is a side with its limit for the request.
type ExplainedSide struct {
	Algorithm string `json:"algorithm"` // or the name of the user's own limiter
	Limit     int64  `json:"limit"`
	Window    string `json:"window"`
	Burst     int64  `json:"burst"`
	// Error tells why there is no limit for the request; "" if there is one.
	Error string `json:"error,omitempty"`
}

// Skipped is a policy that does not charge the request.
type Skipped struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
}

// Explain says what the set charges a request.
func (s *Set) Explain(r *Request) Explanation {
	ctx := context.Background() // one request, for a person: the bounds of an expression suffice
	e := Explanation{Charges: []ExplainedCharge{}, Skipped: []Skipped{}}
	for _, p := range s.Policies {
		c, matches, err := p.Charge(ctx, r)
		switch {
		case err != nil:
			reason := strings.TrimPrefix(err.Error(), "policies: ")
			if p.OnError == FailDeny {
				reason += "; on_error: deny denies the request"
			}
			e.Skipped = append(e.Skipped, Skipped{p.Name, reason})
		case !matches:
			e.Skipped = append(e.Skipped, Skipped{p.Name, "when is false: " + strings.TrimSpace(p.when.source)})
		default:
			charge := ExplainedCharge{Policy: c.Policy, Key: c.Key, Cost: c.Cost, Authoritative: explainSide(p.Sides[0], c.Sides[0], r.evaluation(ctx, p.scope))}
			if p.Sides[algorithms.Candidate] != nil {
				side := explainSide(p.Sides[algorithms.Candidate], c.Sides[algorithms.Candidate], r.evaluation(ctx, p.scope))
				charge.Candidate = &side
			}
			e.Charges = append(e.Charges, charge)
		}
	}
	return e
}

func explainSide(s *Side, charged algorithms.Side, w *evaluation) ExplainedSide {
	out := ExplainedSide{Algorithm: s.Name(), Limit: charged.Limit.Requests, Burst: charged.Limit.Burst}
	if charged.Limit.Window > 0 {
		out.Window = algorithms.FormatWindow(charged.Limit.Window)
	}
	if _, err := s.limitOf(w); err != nil {
		out.Error = strings.TrimPrefix(err.Error(), "policies: ")
	}
	return out
}
