package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Report is the state of all policies of a service. Its JSON form is the command line's contract.
type Report struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies"`
	// Nodes are those of a Redis Cluster that do not answer; empty where all do, or nobody has asked.
	Nodes []Node `json:"nodes_unreachable,omitempty"`
}

// Node is a node of a Redis Cluster that does not answer, and the policies whose evidence it has.
type Node struct {
	Address  string   `json:"address"`
	Policies []string `json:"policies"`
	Message  string   `json:"message"`
}

// Policy is the state of one policy.
type Policy struct {
	Name          string       `json:"name"`
	Stage         stages.Stage `json:"stage"`
	Percent       float64      `json:"percent"`
	Hold          bool         `json:"hold"`
	Term          int64        `json:"term"`
	Seq           int64        `json:"seq"`
	Fingerprint   string       `json:"fingerprint"`
	Generation    int64        `json:"generation"` // of the policy file; 0 if it has none
	Enforced      string       `json:"enforced"`
	Authoritative string       `json:"authoritative"`
	Candidate     string       `json:"candidate"`
	Mode          string       `json:"mode"`
	// Labels are those of the policy file, by name; empty without any.
	Labels map[string]string `json:"labels"`
	// StoreFailure says what decides while the store of the enforced side does not answer; "" if no instance has said so.
	StoreFailure string `json:"store_failure,omitempty"`
	// StoreUnreachable says that the authoritative's store does not answer, and what that means for a rollback.
	StoreUnreachable string `json:"store_unreachable,omitempty"`
	// FallbackActive says that the authoritative decides for an enforced candidate whose store does not answer.
	FallbackActive string `json:"fallback_active,omitempty"`
	// NoHeartbeats says that no instance has written to the service's Redis recently, although it answers.
	NoHeartbeats string `json:"no_heartbeats,omitempty"`
	// Levels are how much of the limits of adaptive sides holds; empty without one.
	Levels []SideLevel `json:"levels"`
	// First says that the policy file names keys that are in a canary from its first step, by an expression, which no
	// instance announces: it may name clients.
	First bool `json:"first"`
	// StageAt is when the stage, or its percentage, began.
	StageAt time.Time `json:"stage_at"`
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
	HarmScore float64    `json:"harm_score"`
	Instances []Instance `json:"instances"`
	Alarm     string     `json:"alarm,omitempty"`
	// DataLost says that a store has lost what a side remembers, and until when that disturbs the evidence.
	DataLost string `json:"data_lost,omitempty"`
	// Undone is the stage that another policy file has ended, and that returns with the file before; null if there is none.
	Undone *Undone `json:"undone"`
	// Next are the things to do, the most urgent first.
	Next []Step `json:"next"`
	// JudgedAt is when the evidence was evaluated, Leader the instance that did so, "" if that was done for this report.
	JudgedAt  time.Time `json:"judged_at"`
	JudgedAge float64   `json:"judged_age_seconds"`
	Leader    string    `json:"leader,omitempty"`
	// Canary are the percentages of the steps to promotion.
	Canary []float64 `json:"-"`
}

// Undone is a canary or a promotion that ended because another policy file came to the instances.
type Undone struct {
	Stage       stages.Stage `json:"stage"`
	Percent     float64      `json:"percent"`
	Fingerprint string       `json:"fingerprint"`
	Until       time.Time    `json:"until"`
	By          string       `json:"by"`
}

// Cause is a probable cause of differences, and how many have it.
type Cause struct {
	Cause string `json:"cause"`
	Count int64  `json:"count"`
}

// Instance is one process of the service.
type Instance struct {
	ID          string  `json:"id"`
	Applied     string  `json:"applied"`
	AgeSeconds  float64 `json:"age_seconds"`
	Fingerprint string  `json:"fingerprint"`
	Live        bool    `json:"live"`
	Idle        bool    `json:"idle"`       // it has decided no request
	RedButton   bool    `json:"red_button"` // it enforces the authoritative in every stage
	// Failing are the stores that do not answer it, besides the service's own. OwnStoreUnreachable says that the own one does not.
	Failing             []string `json:"failing,omitempty"`
	OwnStoreUnreachable bool     `json:"own_store_unreachable,omitempty"`
}

// Of makes a report of assessments. It reads the most frequent keys from the ledger.
func Of(ctx context.Context, name string, ledger evidence.Ledger, list []stages.Assessment) (Report, error) {
	report := WithoutKeys(name, list)

	for i := range report.Policies {
		p := &report.Policies[i]
		d := list[i].Details
		if list[i].Leader == "" && list[i].Readable() {
			own, err := DetailsOf(ctx, ledger, &list[i])
			if err != nil {
				return report, err
			}
			d = &own
		}
		if d != nil {
			p.TopNewlyDenied, p.TopNewlyAllowed = d.TopNewlyDenied, d.TopNewlyAllowed
		}
	}

	return report, nil
}

// DetailsOf reads the most frequent keys of an assessment from the ledger.
func DetailsOf(ctx context.Context, ledger evidence.Ledger, a *stages.Assessment) (d stages.Details, err error) {
	for kind, into := range map[evidence.KeyKind]*[]evidence.KeyCount{
		evidence.KeysNewlyDenied:  &d.TopNewlyDenied,
		evidence.KeysNewlyAllowed: &d.TopNewlyAllowed,
	} {
		top, err := ledger.Top(ctx, a.State.LedgerID(a.Spec.Policy), kind)
		if err != nil {
			return d, err
		}
		*into = top[:min(len(top), TopKeys)]
	}
	return d, nil
}

// WithoutKeys makes a report of assessments alone, which needs no ledger. It has no most frequent keys.
func WithoutKeys(name string, list []stages.Assessment) Report {
	report := Report{Name: name, Policies: []Policy{}} // not nil: an empty list is [] in JSON
	for i := range list {
		report.Policies = append(report.Policies, policyOf(&list[i]))
	}
	return report
}

func policyOf(a *stages.Assessment) Policy {
	s := a.State
	history := &a.Evidence.History
	p := Policy{
		Name:             a.Spec.Policy,
		Stage:            s.Stage,
		Percent:          s.Percent,
		Hold:             s.Hold,
		Term:             s.Term,
		Seq:              s.Seq,
		Fingerprint:      s.Fingerprint,
		Generation:       s.Generation,
		Enforced:         s.Name(),
		Authoritative:    InAll(a.Spec.Authoritative, a.Spec.PerProcess[algorithms.Authoritative], int64(len(a.Live))),
		Candidate:        InAll(a.Spec.Candidate, a.Spec.PerProcess[algorithms.Candidate], int64(len(a.Live))),
		Mode:             modeOf(a),
		StoreFailure:     StoreFailure(a.Spec.OnStoreFailure),
		StoreUnreachable: StoreUnreachable(a),
		FallbackActive:   FallbackActive(a),
		NoHeartbeats:     NoHeartbeats(a),

		First: a.Spec.First,

		StageAt: s.StageAt,
		Actor:   s.Actor,
		Reason:  s.Reason,
		At:      s.At,

		Summary:   Summarize(history.Total()),
		Labels:    labelsOf(&a.Spec),
		Gate:      a.Gate,
		HarmScore: a.Alarm.Harm,
		Instances: []Instance{},
		Alarm:     a.Alarm.Reason,
		DataLost:  dataLost(a),
		Next:      next(a),
		JudgedAt:  a.Evidence.Now,
		Leader:    a.Leader,
		Canary:    a.Spec.Config.Canary,
	}

	p.AddCost(history.Total(), history.Extra())
	if u := s.Undone(); u != nil {
		p.Undone = &Undone{u.Stage, u.Percent, u.Fingerprint, u.Left, u.By}
	}
	if a.Spec.FirstLimit {
		p.Ratios.ExtraLoad = nil
	}
	distinct := history.Distinct
	p.Keys = distinct[evidence.KeysSeen]
	p.KeysNewlyDenied = distinct[evidence.KeysNewlyDenied]
	p.KeysNewlyAllowed = distinct[evidence.KeysNewlyAllowed]

	p.addLevels(a)
	p.addCauses(history)
	p.addInstances(a)
	return p
}

// InAll completes the text of a side by what the live instances admit together, where each has such a limit of its own. A
// limit of 0 is none.
func InAll(side string, each algorithms.Limit, instances int64) string {
	// A limit may stand in Redis as anything.
	if instances < 1 || each.Requests < 1 || each.Window < 1 || max(each.Requests, each.Burst) > math.MaxInt64/instances {
		return side
	}
	side += fmt.Sprintf(": %d per %s", each.Requests*instances, algorithms.FormatWindow(each.Window))
	if each.Burst > 0 {
		side += fmt.Sprintf(", burst %d", each.Burst*instances)
	}
	return side + " in " + humanize.Counted(instances, "instance")
}

// labelsOf returns the labels, which are {} in JSON without any.
func labelsOf(s *stages.Spec) map[string]string {
	if s.Labels == nil {
		return map[string]string{}
	}
	return s.Labels
}

// LabelText lists the labels by name: "owner=ann, team=payments"; "" without any.
func (p *Policy) LabelText() string { return LabelText(p.Labels) }

// LabelText lists labels by name, as Policy.LabelText.
func LabelText(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+humanize.Printable(labels[name]))
	}
	return strings.Join(list, ", ")
}

// modeOf returns the mode of a policy's promotion, as policy files have it.
func modeOf(a *stages.Assessment) string {
	if a.Spec.Followed {
		return "followed: another program enforces"
	}
	if a.Spec.Config.Automatic {
		return "automatic"
	}
	return "manual"
}

// addCauses adds why the sides differ.
func (p *Policy) addCauses(history *evidence.History) {
	causes := history.Causes()
	p.CausesNewlyDenied = CausesOf(causes.Denied[:])
	p.CausesNewlyAllowed = CausesOf(causes.Allowed[:])
	p.CausesUncompared = UncomparedCauses(history)
}

// addInstances adds the instances as they were last looked at, which may be later than the policy was judged.
func (p *Policy) addInstances(a *stages.Assessment) {
	looked := a.Looked()
	p.JudgedAge = looked.Sub(a.Evidence.Now).Seconds()

	// Silent instances are listed, too: one that is cut off may still enforce the candidate.
	for _, i := range append(slices.Clone(a.Live), a.Silent...) {
		age := looked.Sub(i.At)
		applied := i.Policies[a.Spec.Policy]
		p.Instances = append(p.Instances, Instance{
			ID:          i.ID,
			Applied:     applied.Version.String(),
			AgeSeconds:  age.Seconds(),
			Fingerprint: applied.Fingerprint,
			Live:        age.Abs() <= stages.LiveFor,
			Idle:        i.Idle,
			RedButton:   i.RedButton,
			Failing:     i.Failing,

			OwnStoreUnreachable: i.OwnStoreUnreachable,
		})
	}
}

// CausesOf returns the causes that occur of counts in the order of all causes, the most frequent first.
func CausesOf(counts []int64) []Cause {
	list := []Cause{}
	for i, n := range counts {
		if n > 0 {
			list = append(list, Cause{evidence.Cause(i).String(), n})
		}
	}
	slices.SortStableFunc(list, func(a, b Cause) int { return cmp.Compare(b.Count, a.Count) })

	return list
}

// Describe writes the stage for people: canary 10 % (hold).
func (p *Policy) Describe() string {
	return stages.State{Stage: p.Stage, Percent: p.Percent, Hold: p.Hold}.Describe()
}

// Ended reports whether the migration is over, so that no verdict is waited for.
func (p *Policy) Ended() bool {
	return p.Stage == stages.Completed || p.Stage == stages.RolledBack
}

// Version is TERM.SEQ.
func (p *Policy) Version() string { return stages.Version{Term: p.Term, Seq: p.Seq}.String() }

// Pinned says which keys do not come to the candidate as the canary's percentage says, "" if there are none. After
// completion all keys have the candidate.
func (p *Policy) Pinned() string {
	if !p.First || p.Stage == stages.Completed {
		return ""
	}
	return "keys of first are in the canary from its first step"
}
