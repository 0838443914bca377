package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
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
	addCauses(&p, history)
	addInstances(&p, a)
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
func addCauses(p *Policy, history *evidence.History) {
	causes := history.Causes()
	p.CausesNewlyDenied = CausesOf(causes.Denied[:])
	p.CausesNewlyAllowed = CausesOf(causes.Allowed[:])
	p.CausesUncompared = UncomparedCauses(history)
}

// addInstances adds the instances as they were last looked at, which may be later than the policy was judged.
func addInstances(p *Policy, a *stages.Assessment) {
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

// WriteText writes all of the report for people: a screen for each policy.
func (r *Report) WriteText(out io.Writer) error {
	b := humanize.PageFor(out)
	writeNodes(b, r)
	for i := range r.Policies {
		if i > 0 {
			b.WriteString("\n")
		}
		writePolicy(b, &r.Policies[i])
	}

	return b.Show(out)
}

// WriteList writes the report as a line for each policy, the most urgent first, below the warnings of all.
func (r *Report) WriteList(out io.Writer) error {
	return r.writeList(out, byUrgency(r), "shadowlimit status POLICY for one\n")
}

// WriteScreen writes the report as a line for each policy, the most urgent first, below the warnings of all. Of more policies than a
// screen has room for it has those that need somebody, and counts the others.
func (r *Report) WriteScreen(out io.Writer) error {
	list := byUrgency(r)
	if len(list) <= onScreen {
		return r.writeList(out, list, "shadowlimit status POLICY for one\n")
	}

	needed := slices.IndexFunc(list, func(p *Policy) bool { return urgencyOf(p) == 0 })
	if needed < 0 {
		needed = len(list)
	}
	shown, rest := min(needed, onScreen), ""
	if shown < needed {
		rest = counted(list[shown:needed], "more need somebody")
	}
	if needed < len(list) {
		rest += counted(list[needed:], "need nobody")
	}
	return r.writeList(out, list[:shown], rest+"shadowlimit status '*' for a line each, status POLICY for one\n")
}

// onScreen is how many policies have a line each without being asked for.
const onScreen = 20

func (r *Report) writeList(out io.Writer, list []*Policy, last string) error {
	b := humanize.PageFor(out)
	writeNodes(b, r)
	writeWarnings(b, list)

	rows := [][]string{{"policy", "stage", "verdict", "met", "worst ratio", "since"}}
	for _, p := range list {
		rows = append(rows, rowOf(p))
	}
	if len(list) > 0 {
		writeRows(b, rows)
	}
	b.WriteString(last)
	return b.Show(out)
}
