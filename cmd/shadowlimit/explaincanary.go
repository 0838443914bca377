package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// explanation is the contract of explain -o json: what a policy file says of a request, and when a canary reaches its keys.
type explanation struct {
	Checks  []explainedCheck   `json:"charges"`
	Skipped []policies.Skipped `json:"skipped"`
}

type explainedCheck struct {
	policies.ExplainedCheck
	// Canary is null where the policy has no candidate.
	Canary *explainedCanary `json:"canary"`
}

// explainedCanary says when a key comes to the candidate. Its first two fields are those of key -o json.
type explainedCanary struct {
	Pinned      bool    `json:"pinned"`
	HashPercent float64 `json:"hash_percent"`
	// Enters is the first step in which the key has the candidate: a canary such as "canary 10 %", or promoted.
	Enters string `json:"enters"`
	// Error says why first did not pin the key; "" if none failed.
	Error string `json:"error,omitempty"`
}

// explain says what the file says of a request, and when a canary reaches the keys of its checks.
func explain(set *policies.Set, r *policies.Request) explanation {
	told := set.Explain(r)
	e := explanation{Checks: []explainedCheck{}, Skipped: told.Skipped}
	named := map[string]*policies.Policy{}
	for _, p := range set.Policies {
		named[p.Name] = p
	}

	for _, c := range told.Checks {
		check := explainedCheck{ExplainedCheck: c}
		if c.Candidate != nil {
			check.Canary = canaryOf(set.Name, named[c.Policy], r, c.Key)
		}
		e.Checks = append(e.Checks, check)
	}
	return e
}

// canaryOf says when a canary reaches the key of a request, by what services do: where first fails, the key is not pinned.
func canaryOf(service string, p *policies.Policy, r *policies.Request, key string) *explainedCanary {
	first, err := p.First(context.Background(), r)
	hash := evidence.Hash(service, p.Name, key)
	e := &explainedCanary{Pinned: first, HashPercent: evidence.HashPercent(hash)}
	if err != nil {
		e.Error = strings.TrimPrefix(err.Error(), "policies: ")
	}

	e.Enters = entersIn(stages.ConfigOf(p.Promotion).Canary, evidence.Position{Hash: hash, Pinned: first})
	return e
}

// entersIn returns the first step in which a position has the candidate.
func entersIn(canary []float64, key evidence.Position) string {
	for _, percent := range canary {
		if key.InCanary(percent) {
			return fmt.Sprintf("canary %g %%", percent)
		}
	}
	return string(stages.Promoted)
}

// String says it in one line, the step at its end.
func (e *explainedCanary) String() string {
	text := "pinned (first)"
	if !e.Pinned {
		text = fmt.Sprintf("by hash, at %g %%", e.HashPercent)
	}
	if e.Error != "" {
		text += ", because this fails: " + humanize.Visible(e.Error)
	}

	if e.Enters == string(stages.Promoted) {
		return text + "; has the candidate from the promotion on"
	}
	return text + "; has the candidate from " + e.Enters + " on"
}
