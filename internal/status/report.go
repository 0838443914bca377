// Package status puts what is known of a service's policies into words: for the
// command line, for machines, and as a page for people.
package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Report is what there is to say of a service. Its JSON form is the command line's
// contract.
type Report struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies"`
}

// Policy is the part of one policy.
type Policy struct {
	Name          string          `json:"name"`
	Stage         promotion.Stage `json:"stage"`
	Percent       float64         `json:"percent"`
	Hold          bool            `json:"hold"`
	Term          int64           `json:"term"`
	Seq           int64           `json:"seq"`
	Epoch         string          `json:"epoch"`
	Enforced      string          `json:"enforced"`
	Authoritative string          `json:"authoritative"`
	Candidate     string          `json:"candidate"`
	Mode          string          `json:"mode"`
	// Actor moved the policy last, at At, for Reason.
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Summary
	// Causes of what was newly denied and newly allowed, the most frequent first.
	CausesNewlyDenied  []Cause     `json:"causes_newly_denied"`
	CausesNewlyAllowed []Cause     `json:"causes_newly_allowed"`
	Gate               gate.Result `json:"gate"`
	// HarmScore is that of harmed clients; at 12 an enforced candidate is rolled back.
	HarmScore  float64          `json:"harm_score"`
	Prediction *gate.Prediction `json:"prediction"`
	Instances  []Instance       `json:"instances"`
	Alarm      string           `json:"alarm,omitempty"`
	NextStep   string           `json:"next_step"`
	// Series are the hours of the evidence.
	Series []gate.Point `json:"-"`
	// Canary are the percentages on the way to promotion.
	Canary []float64 `json:"-"`
}

// Cause is how many differences probably have one cause.
type Cause struct {
	Cause string `json:"cause"`
	Count int64  `json:"count"`
}

// Instance is one process of the service.
type Instance struct {
	ID         string  `json:"id"`
	Applied    string  `json:"applied"`
	AgeSeconds float64 `json:"age_seconds"`
	Epoch      string  `json:"epoch"`
	Live       bool    `json:"live"`
	RedButton  bool    `json:"red_button"` // it enforces the authoritative, whatever the stage
}

// Of makes a report of assessments. It reads the most frequent keys from the ledger.
func Of(ctx context.Context, name string, ledger divergence.Ledger, list []promotion.Assessment) (Report, error) {
	report := Report{Name: name, Policies: []Policy{}}
	for i := range list {
		p := policyOf(&list[i])
		for kind, into := range map[divergence.KeyKind]*[]divergence.KeyCount{divergence.KeysNewlyDenied: &p.TopNewlyDenied, divergence.KeysNewlyAllowed: &p.TopNewlyAllowed} {
			top, err := Top(ctx, ledger, &list[i], kind, list[i].State.Since)
			if err != nil {
				return report, err
			}
			*into = top[:min(len(top), TopKeys)]
		}
		report.Policies = append(report.Policies, p)
	}
	return report, nil
}

// Top returns the most frequent keys of a kind from the day of an instant on.
func Top(ctx context.Context, ledger divergence.Ledger, a *promotion.Assessment, kind divergence.KeyKind, from time.Time) ([]divergence.KeyCount, error) {
	return ledger.Top(ctx, a.State.LedgerID(a.Spec.Policy), kind, from.Unix()/divergence.SecondsPerDay, a.Evidence.Now.Unix()/divergence.SecondsPerDay)
}

func policyOf(a *promotion.Assessment) Policy {
	s := a.State
	history := &a.Evidence.History
	p := Policy{
		Name: a.Spec.Policy, Stage: s.Stage, Percent: s.Percent, Hold: s.Hold, Term: s.Term, Seq: s.Seq, Epoch: s.Epoch,
		Enforced: s.Name(), Authoritative: a.Spec.Authoritative, Candidate: a.Spec.Candidate, Mode: "manual",
		Actor: s.Actor, Reason: s.Reason, At: s.At,
		Summary: Summarize(history.Total()), Gate: a.Gate,
		HarmScore: a.Alarm.Harm, Prediction: a.Prediction, Alarm: a.Alarm.Reason, NextStep: nextStep(a),
		Instances: []Instance{}, Series: gate.Series(a.Spec.Config.Config, a.Evidence), Canary: a.Spec.Config.Canary,
	}
	if a.Spec.Config.Automatic {
		p.Mode = "automatic"
	}
	distinct := history.Distinct
	p.Keys, p.KeysNewlyDenied, p.KeysNewlyAllowed = distinct[divergence.KeysSeen], distinct[divergence.KeysNewlyDenied], distinct[divergence.KeysNewlyAllowed]
	causes := history.Causes()
	p.CausesNewlyDenied, p.CausesNewlyAllowed = causesOf(causes.Denied[:]), causesOf(causes.Allowed[:])
	for _, i := range append(slices.Clone(a.Live), a.Silent...) {
		age := a.Evidence.Now.Sub(i.At)
		applied := i.Policies[a.Spec.Policy]
		p.Instances = append(p.Instances, Instance{i.ID, applied.Version.String(), age.Seconds(), applied.Epoch, age <= promotion.LiveFor, i.RedButton})
	}
	return p
}

// causesOf are those that occur, the most frequent first.
func causesOf(counts []int64) []Cause {
	list := []Cause{}
	for i, n := range counts {
		if n > 0 {
			list = append(list, Cause{divergence.Cause(i).String(), n})
		}
	}
	slices.SortStableFunc(list, func(a, b Cause) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// Describe writes the stage as people say it: canary 10 % (hold).
func (p *Policy) Describe() string {
	return promotion.State{Stage: p.Stage, Percent: p.Percent, Hold: p.Hold}.Describe()
}

// Version is TERM.SEQ.
func (p *Policy) Version() string { return promotion.Version{Term: p.Term, Seq: p.Seq}.String() }
