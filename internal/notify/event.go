package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// event is one that is told, as CloudEvents 1.0 has it in its structured mode.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"` // of the same event always the same
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            data      `json:"data"`

	mark, marked string // what is noted when it was told
}

// data is what happened to a policy.
type data struct {
	Service     string            `json:"service"`
	Policy      string            `json:"policy"`
	Labels      map[string]string `json:"labels,omitempty"`
	From        string            `json:"from,omitempty"`
	To          string            `json:"to"`
	Stage       string            `json:"stage"`
	Percent     float64           `json:"percent"`
	Hold        bool              `json:"hold"`
	Term        int64             `json:"term"`
	Seq         int64             `json:"seq"`
	Fingerprint string            `json:"fingerprint"`
	Actor       string            `json:"actor,omitempty"`
	Reason      string            `json:"reason"`
	Evidence    string            `json:"evidence,omitempty"`
}

const typePrefix = "com.github.shadowlimit."

// newEvent returns an event of a policy in a state.
func newEvent(service string, spec *stages.Spec, s *stages.State, kind, id string, at time.Time) event {
	return event{
		SpecVersion: "1.0", ID: service + "/" + spec.Policy + "/" + id, Source: "/shadowlimit/" + service, Type: typePrefix + kind,
		Subject: spec.Policy, Time: at.UTC(), DataContentType: "application/json",
		Data: data{
			Service: service, Policy: spec.Policy, Labels: spec.Labels, To: s.Describe(), Stage: string(s.Stage), Percent: s.Percent,
			Hold: s.Hold, Term: s.Term, Seq: s.Seq, Fingerprint: s.Fingerprint,
		},
	}
}

// moveOf returns the event of an entry of the audit trail.
func moveOf(service string, spec *stages.Spec, s *stages.State) event {
	e := newEvent(service, spec, s, kindOf(s), s.Version.String(), s.At)
	e.Data.From, e.Data.Actor, e.Data.Reason, e.Data.Evidence = s.From, s.Actor, s.Reason, s.Evidence
	e.mark, e.marked = spec.Policy, mark{s.Version, s.At}.String()
	return e
}

// alarmOf returns the event of an alarm that nobody answers by itself: the policy is in manual mode. It has the hour in its id, because an
// alarm may end and come again in the same state.
func alarmOf(service string, spec *stages.Spec, s *stages.State, reason string, at time.Time) event {
	e := newEvent(service, spec, s, "alarm", s.Version.String()+"/alarm/"+at.UTC().Format("2006-01-02T15"), at)
	e.Data.Reason = reason
	e.mark, e.marked = alarmMark(spec.Policy), mark{s.Version, at}.String()
	return e
}

// kindOf says what an entry of the audit trail is.
func kindOf(s *stages.State) string {
	held := strings.HasSuffix(s.From, " (hold)")
	switch {
	case strings.HasPrefix(s.Actor, stages.RedButtonActor):
		return "red_button"
	case s.Stage == stages.RolledBack:
		return "rolled_back"
	case strings.HasPrefix(s.Evidence, stages.Forced):
		return "forced"
	case s.From == s.Describe():
		return "deployed" // the stage is the same, and the policy file another one
	case s.Hold && !held:
		return "held"
	case held && !s.Hold:
		return "resumed"
	}
	return "moved"
}

// body returns the event in a form, and the type of its content.
func (e *event) body(form string) (text []byte, contentType string, err error) {
	if form != Slack {
		text, err = json.Marshal(e)
		return text, "application/cloudevents+json; charset=UTF-8", err
	}
	text, err = json.Marshal(map[string]string{"text": e.slackText()})
	return text, "application/json; charset=UTF-8", err
}

// slackEscape is what Slack asks for: <!channel> in a reason must not wake everybody.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackText says the event in one line.
func (e *event) slackText() string {
	d := &e.Data
	what, by := d.From+" → "+d.To, ""
	if d.From == "" {
		what = "ALARM in " + d.To
	}
	switch kind := strings.TrimPrefix(e.Type, typePrefix); kind {
	case "forced", "red_button":
		what = strings.ReplaceAll(kind, "_", " ") + ": " + what
	}
	if d.Actor != "" {
		by = ", by " + humanize.Printable(d.Actor)
	}
	text := fmt.Sprintf("%s %s: %s%s: %s", d.Service, d.Policy, what, by, humanize.Printable(d.Reason))
	return slackEscape.Replace(text)
}
