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

// explanation is the contract of explain -o json: what a policy file says of a request, and where its keys stand.
type explanation struct {
	Checks  []explainedCheck   `json:"charges"`
	Skipped []policies.Skipped `json:"skipped"`
}

type explainedCheck struct {
	policies.ExplainedCheck
	// Placing is null where the policy has no candidate.
	Placing *explainedPlace `json:"placing"`
}

// explainedPlace says when a key comes to the candidate. Its first three fields are those of key -o json.
type explainedPlace struct {
	Place       string  `json:"place"`
	HashPercent float64 `json:"hash_percent"`
	// Enters is the first step in which the key has the candidate: a canary such as "canary 10 %", or promoted.
	Enters string `json:"enters"`
	// Error says why an expression did not place the key; "" if none failed.
	Error string `json:"error,omitempty"`
}

// explain says what the file says of a request, and where the keys of its checks stand.
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
			check.Placing = placeOf(set.Name, named[c.Policy], r, c.Key)
		}
		e.Checks = append(e.Checks, check)
	}
	return e
}

// placeOf says where the key of a request stands, by what services do: where an expression fails, the hash places the key.
func placeOf(service string, p *policies.Policy, r *policies.Request, key string) *explainedPlace {
	first, err := p.First(context.Background(), r)
	hash := evidence.Hash(service, p.Name, key)
	e := &explainedPlace{Place: placeNamed(first), HashPercent: evidence.HashPercent(hash)}
	if err != nil {
		e.Error = strings.TrimPrefix(err.Error(), "policies: ")
	}

	e.Enters = entersIn(stages.ConfigOf(p.Promotion).Canary, evidence.Position{Hash: hash, First: first})
	return e
}

// The places of keys, as commands write them.
const (
	byHash  = "hash"
	asFirst = "first"
)

func placeNamed(first bool) string {
	if first {
		return asFirst
	}
	return byHash
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
func (e *explainedPlace) String() string {
	text := e.Place
	if e.Place == byHash {
		text += fmt.Sprintf(", at %g %%", e.HashPercent)
	}
	if e.Error != "" {
		text += ", because this fails: " + humanize.Visible(e.Error)
	}

	if e.Enters == string(stages.Promoted) {
		return text + "; has the candidate from the promotion on"
	}
	return text + "; has the candidate from " + e.Enters + " on"
}
