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

// Report is the state of all policies of a service. Its JSON form is the command line's contract.
type Report struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies"`
}

// Policy is the state of one policy.
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
	// Actor made the last move of the policy, at At, for Reason.
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Summary
	// Causes of the newly denied and the newly allowed, the most frequent first.
	CausesNewlyDenied  []Cause `json:"causes_newly_denied"`
	CausesNewlyAllowed []Cause `json:"causes_newly_allowed"`
	// CausesUncompared are why requests could not be compared, the most frequent first.
	CausesUncompared []Cause     `json:"causes_uncompared"`
	Gate             gate.Result `json:"gate"`
	// HarmScore is the score of harmed clients. At 12 an enforced candidate is rolled back.
	HarmScore  float64          `json:"harm_score"`
	Prediction *gate.Prediction `json:"prediction"`
	Instances  []Instance       `json:"instances"`
	Alarm      string           `json:"alarm,omitempty"`
	NextStep   string           `json:"next_step"`
	// Series are the hours of the evidence.
	Series []gate.Point `json:"-"`
	// Canary are the percentages of the steps to promotion.
	Canary []float64 `json:"-"`
}

// Cause is a probable cause of differences, and how many have it.
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
	Idle       bool    `json:"idle"`       // it has decided no request, and has no vote
	RedButton  bool    `json:"red_button"` // it enforces the authoritative in every stage
}

// Of makes a report of assessments. It reads the most frequent keys from the ledger.
func Of(ctx context.Context, name string, ledger divergence.Ledger, list []promotion.Assessment) (Report, error) {
	report := WithoutKeys(name, list)

	for i := range report.Policies {
		p := &report.Policies[i]
		for kind, into := range map[divergence.KeyKind]*[]divergence.KeyCount{
			divergence.KeysNewlyDenied:  &p.TopNewlyDenied,
			divergence.KeysNewlyAllowed: &p.TopNewlyAllowed,
		} {
			top, err := Top(ctx, ledger, &list[i], kind, list[i].State.Since)
			if err != nil {
				return report, err
			}
			*into = top[:min(len(top), TopKeys)]
		}
	}

	return report, nil
}

// WithoutKeys makes a report of assessments alone, which needs no ledger. It has no most frequent keys.
func WithoutKeys(name string, list []promotion.Assessment) Report {
	report := Report{Name: name, Policies: []Policy{}} // not nil: an empty list is [] in JSON
	for i := range list {
		report.Policies = append(report.Policies, policyOf(&list[i]))
	}
	return report
}

// Top returns the most frequent keys of a kind since the day that contains an instant.
func Top(
	ctx context.Context, ledger divergence.Ledger, a *promotion.Assessment, kind divergence.KeyKind, since time.Time,
) ([]divergence.KeyCount, error) {
	from := since.Unix() / divergence.SecondsPerDay
	to := a.Evidence.Now.Unix() / divergence.SecondsPerDay
	return ledger.Top(ctx, a.State.LedgerID(a.Spec.Policy), kind, from, to)
}

func policyOf(a *promotion.Assessment) Policy {
	s := a.State
	history := &a.Evidence.History
	p := Policy{
		Name:          a.Spec.Policy,
		Stage:         s.Stage,
		Percent:       s.Percent,
		Hold:          s.Hold,
		Term:          s.Term,
		Seq:           s.Seq,
		Epoch:         s.Epoch,
		Enforced:      s.Name(),
		Authoritative: a.Spec.Authoritative,
		Candidate:     a.Spec.Candidate,
		Mode:          "manual",
		Actor:         s.Actor,
		Reason:        s.Reason,
		At:            s.At,

		Summary:    Summarize(history.Total()),
		Gate:       a.Gate,
		HarmScore:  a.Alarm.Harm,
		Prediction: a.Prediction,
		Instances:  []Instance{},
		Alarm:      a.Alarm.Reason,
		NextStep:   nextStep(a),
		Series:     gate.Series(a.Spec.Config.Config, a.Evidence),
		Canary:     a.Spec.Config.Canary,
	}
	if a.Spec.Config.Automatic {
		p.Mode = "automatic"
	}

	distinct := history.Distinct
	p.Keys = distinct[divergence.KeysSeen]
	p.KeysNewlyDenied = distinct[divergence.KeysNewlyDenied]
	p.KeysNewlyAllowed = distinct[divergence.KeysNewlyAllowed]

	causes := history.Causes()
	p.CausesNewlyDenied = causesOf(causes.Denied[:])
	p.CausesNewlyAllowed = causesOf(causes.Allowed[:])
	p.CausesUncompared = UncomparedCauses(history)

	// Silent instances are listed, too: one that is cut off may still enforce the candidate.
	for _, i := range append(slices.Clone(a.Live), a.Silent...) {
		age := a.Evidence.Now.Sub(i.At)
		applied := i.Policies[a.Spec.Policy]
		p.Instances = append(p.Instances, Instance{
			ID:         i.ID,
			Applied:    applied.Version.String(),
			AgeSeconds: age.Seconds(),
			Epoch:      applied.Epoch,
			Live:       age.Abs() <= promotion.LiveFor,
			Idle:       i.Idle,
			RedButton:  i.RedButton,
		})
	}

	return p
}

// causesOf returns the causes that occur, the most frequent first.
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

// Describe writes the stage for people: canary 10 % (hold).
func (p *Policy) Describe() string {
	return promotion.State{Stage: p.Stage, Percent: p.Percent, Hold: p.Hold}.Describe()
}

// Version is TERM.SEQ.
func (p *Policy) Version() string { return promotion.Version{Term: p.Term, Seq: p.Seq}.String() }
