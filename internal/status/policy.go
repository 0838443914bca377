package status

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

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

// LevelText says how much of the limits of adaptive sides holds; "" without an adaptive side.
func (p *Policy) LevelText() string {
	texts := make([]string, len(p.Levels))
	for i := range p.Levels {
		texts[i] = p.Levels[i].text()
	}
	return strings.Join(texts, "; ")
}

func (p *Policy) stageCell() string { return humanize.Visible(p.Describe()) }

func (p *Policy) verdictCell() string {
	if p.Ended() {
		return "-"
	}
	return humanize.Visible(p.Gate.Verdict)
}

// addLevels adds the levels of adaptive sides: not nil, so an empty list is [] in JSON.
func (p *Policy) addLevels(a *stages.Assessment) {
	p.Levels = []SideLevel{}
	for role, rule := range []string{a.Spec.AuthoritativeRule, a.Spec.CandidateRule} {
		if rule == "" {
			continue
		}

		l := SideLevel{Side: algorithms.Role(role).String()}
		if s, published := a.Levels[rule]; published {
			part := float64(s.Level()) / float64(adaptive.Full)
			l.Level, l.Since, l.SignalAt = &part, instantOf(s.At), instantOf(s.Seen)
			l.quiet = s.Seen.IsZero() || a.Looked().Sub(s.Seen) > adaptive.LostAfter
		}
		p.Levels = append(p.Levels, l)
	}
}

// instantOf returns nil for the zero time.
func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// GenerationText names the generation of the stored policy file, behind the version; "" if it has none.
func (p *Policy) GenerationText() string {
	if p.Generation == 0 {
		return ""
	}
	return fmt.Sprintf(", generation %d", p.Generation)
}

// MoveText says when the policy was last moved, by which actor and why; "" if it never was.
func (p *Policy) MoveText() string {
	if p.At.IsZero() {
		return ""
	}
	text := instant(p.At)
	if p.Actor != "" {
		text += " by " + humanize.Printable(p.Actor)
	}
	if p.Reason != "" {
		text += ": " + humanize.Printable(p.Reason)
	}
	return text
}

// EvaluatedText says when the evidence was evaluated, by which instance.
func (p *Policy) EvaluatedText() string {
	if p.Leader == "" {
		return "for this report: no leader has published this version within a minute"
	}
	return seconds(p.JudgedAge) + " before this report by " + humanize.Printable(p.Leader)
}

// EnforcedText says which side is enforced, and on how many instances that is not so because they compare something else.
func (p *Policy) EnforcedText() string {
	other := 0
	for i := range p.Instances {
		in := &p.Instances[i]
		if in.Live && in.Fingerprint != "" && in.Fingerprint != p.Fingerprint {
			other++
		}
	}
	authoritative := algorithms.Authoritative.String()
	if other == 0 || p.Enforced == authoritative {
		return p.Enforced
	}
	return fmt.Sprintf("%s (%s on %s of another fingerprint)", p.Enforced, authoritative, humanize.Counted(int64(other), "instance"))
}

// InstancesText counts the instances that have applied the stage, among the ones that have to. An instance with its red button pressed, or
// of another fingerprint, follows no stage, so that to wait for it would be in vain.
func (p *Policy) InstancesText() string {
	var fine, pressed, other int
	for i := range p.Instances {
		in := &p.Instances[i]
		switch {
		case in.Note(p) == "":
			fine++
		case in.Live && in.RedButton:
			pressed++
		case in.Live && in.Fingerprint != p.Fingerprint:
			other++
		}
	}

	// Where all of them are pressed, no instance follows the stage, and 0 of 0 would read as an outage.
	following := len(p.Instances) - pressed - other
	text := fmt.Sprintf("%d of %d live and at %s", fine, following, p.Version())
	switch {
	case pressed > 0 && following == 0:
		text = fmt.Sprintf("%d of %d enforce the authoritative (%d by a pressed red button)", pressed, pressed, pressed)
	case pressed > 0:
		text += fmt.Sprintf("; besides, red button pressed: %d", pressed)
	}
	if other > 0 {
		text += fmt.Sprintf("; besides, of another fingerprint: %d", other)
	}
	return text
}

// NotCompared says how many requests have no two answers to compare, and why, or "" if all have.
func (p *Policy) NotCompared() string {
	text := p.Summary.NotCompared()
	if text == "" {
		return ""
	}
	// A ledger that another program has changed may have no cause.
	return text + ": " + cmp.Or(shares(p.CausesUncompared), "a side failed, was skipped or was degraded")
}

// DisturbedText says how much of the last day counts for the candidate, and what has disturbed the rest; "" where no instance was
// live.
func (p *Policy) DisturbedText() string {
	q := &p.Gate.Quality
	switch {
	case q.Disturbed == nil:
		return ""
	case *q.Disturbed == 0:
		return fmt.Sprintf("all of the last day counts: %s", hours(q.UndisturbedHours))
	}
	return fmt.Sprintf("%s of the last day count, and %s of its time is disturbed: %s",
		hours(q.UndisturbedHours), humanize.Percent(*q.Disturbed), q.DisturbedBy)
}

// hours writes hours to a tenth, rounded down: too few must not look like enough.
func hours(h float64) string { return fmt.Sprintf("%g h", math.Floor(h*10+1e-6)/10) }

// Warnings returns the policy's, the most urgent first.
func (p *Policy) Warnings() []Warning {
	all := []Warning{
		{"ALARM", p.Alarm, true},
		{"STORE UNREACHABLE", p.StoreUnreachable, true},
		{"NO HEARTBEATS", p.NoHeartbeats, true},
		{"FALLBACK ACTIVE", p.FallbackActive, false},
		{"DATA LOST", p.DataLost, false},
		{"UNDONE", p.undoneText(), false},
		{"RED BUTTON", p.pressedText(), false},
	}
	return slices.DeleteFunc(all, func(w Warning) bool { return w.Text == "" })
}

// Warning is what cannot wait, or hides what the numbers say.
type Warning struct {
	Label, Text string
	// Urgent is set where clients may be harmed now.
	Urgent bool
}

// undoneText says which stage the policy has lost to another policy file; "" if it lost none.
func (p *Policy) undoneText() string {
	if p.Undone == nil {
		return ""
	}
	was := stages.State{Stage: p.Undone.Stage, Percent: p.Undone.Percent}
	return fmt.Sprintf("was %s with fingerprint %s until %s, when another policy file took over, by %s; "+
		"to return to it, deploy the file before on all instances, or on one and then adopt",
		was.Describe(), p.Undone.Fingerprint, instant(p.Undone.Until), humanize.Printable(cmp.Or(p.Undone.By, "an unknown actor")))
}

// pressedText says where a red button is pressed; "" if none is.
func (p *Policy) pressedText() string {
	var pressed []string
	for i := range p.Instances {
		if in := &p.Instances[i]; in.Live && in.RedButton {
			pressed = append(pressed, in.ID)
		}
	}
	if len(pressed) == 0 {
		return ""
	}
	return "pressed on " + firstOf(pressed) + ": the authoritative is enforced there"
}

// AppliedText names the version that the instance has applied; "" if it has another fingerprint, and follows none of them.
func (i *Instance) AppliedText(p *Policy) string {
	if i.Live && i.Fingerprint != p.Fingerprint {
		return ""
	}
	return i.Applied
}

// Note says why the instance does not enforce what the policy's state says, or "" if it does.
func (i *Instance) Note(p *Policy) string {
	switch {
	case !i.Live:
		return "silent: stopped, or cut off from Redis"
	case i.RedButton:
		return "red button pressed"
	case i.Fingerprint != p.Fingerprint && i.Idle:
		return "another fingerprint, no request yet"
	case i.Fingerprint != p.Fingerprint:
		return "another fingerprint"
	case i.Applied != p.Version():
		return "not applied yet"
	}

	return ""
}
