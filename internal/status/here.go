package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Source is what a page shows.
type Source struct {
	// Report makes a report of now. It may ask stores, and fail.
	Report func(context.Context) (Report, error)
	// Here is what the serving instance knows by itself. The page always shows it: in an outage in which reports go on,
	// only the instance knows that its requests fall back. It asks no store and does not wait. nil means that the page
	// belongs to no instance.
	Here func() Here
}

// Here is what an instance knows without a store, at the instant of asking.
type Here struct {
	Instance string `json:"instance"`
	// Heard is when the store last answered this instance, nil if it has not since the start of the instance, at Started.
	Heard    *time.Time    `json:"heard"`
	Started  time.Time     `json:"started"`
	Policies []Enforcement `json:"policies"`
	// File is the policy file that the instance reads, "" without one.
	File string `json:"file,omitempty"`
	// FileTrouble says why that file cannot be used, so that the last good one still decides; "" if it is in use.
	FileTrouble string `json:"file_trouble,omitempty"`
	// Trouble says in plain words why the instance could not do its last work with the service's own Redis, "" if it could.
	// WritesRefused is set where that Redis answers and refuses writes.
	Trouble       string `json:"trouble,omitempty"`
	WritesRefused bool   `json:"writes_refused,omitempty"`

	// Report is of the last round in which the instance judged the fleet, at an instant of its own clock. The instant is
	// zero if there was no such round.
	Report Report    `json:"-"`
	At     time.Time `json:"-"`
}

// Enforcement says which side an instance enforces for a policy, and why where the stage does not say it.
type Enforcement struct {
	Policy        string       `json:"policy"`
	Stage         stages.Stage `json:"stage"` // "" if the instance knows none
	Describe      string       `json:"-"`
	Version       string       `json:"version"`
	Enforced      string       `json:"enforced"`
	Why           string       `json:"why,omitempty"`
	Authoritative string       `json:"authoritative"`
	Candidate     string       `json:"candidate"`
	// StoreFailure says what decides while the store of the enforced side does not answer.
	StoreFailure string `json:"store_failure,omitempty"`
	// StoreUnreachable says which of the sides that decide here does not answer, and what decides instead; "" if all answer.
	StoreUnreachable string `json:"store_unreachable,omitempty"`
	// Levels say how much of the limits of adaptive sides holds on this instance; "" without one.
	Levels string `json:"levels,omitempty"`
	// Fingerprint is what the instance compares, and Stored what the fleet does, where that is another; else both are "".
	Fingerprint string `json:"fingerprint,omitempty"`
	Stored      string `json:"stored,omitempty"`
}

// current is the JSON form of an answer of now. What the instance knows comes first: the report has a thousand lines.
type current struct {
	Here *Here `json:"here,omitempty"`
	Report
}

// stale is the JSON form of an answer that is not of now.
type stale struct {
	Error      string   `json:"error"`
	AgeSeconds *float64 `json:"age_seconds"` // of the report, nil if there is none
	Here       *Here    `json:"here,omitempty"`
	Report
}

// Silence says since when the store has not answered the instance.
func (h *Here) Silence() string {
	if h.Heard == nil {
		return "The store has not answered this instance since its start at " + second(h.Started)
	}
	return "The store last answered this instance at " + second(*h.Heard)
}

// Redis says how the service's own Redis serves this instance.
func (h *Here) Redis() string {
	switch {
	case h.WritesRefused:
		return "The service's own Redis answers and REFUSES WRITES: " + h.Trouble +
			". No request is admitted there, and no evidence, no move and no sign of life of this instance is stored" +
			"; next: shadowlimit doctor"
	case h.Trouble != "":
		return "The service's own Redis does not serve this instance: " + h.Trouble + "; next: shadowlimit doctor"
	}
	return ""
}

// Text says in one line a policy what the instance does now, at an instant of its clock.
func (h *Here) Text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "instance %s at %s\n", humanize.Printable(h.Instance), second(now))
	if redis := h.Redis(); redis != "" {
		fmt.Fprintf(&b, "STORE UNREACHABLE: %s\n", humanize.Visible(redis))
	}
	if h.Heard == nil || now.Sub(*h.Heard) > heardLately {
		fmt.Fprintf(&b, "%s.\n", h.Silence())
	}
	if h.File != "" {
		fmt.Fprintf(&b, "policy file %s\n", humanize.Printable(h.File))
	}
	if h.FileTrouble != "" {
		fmt.Fprintf(&b, "%s %s\n", fileRefused, humanize.Visible(h.Refused()))
	}

	for _, text := range h.OtherFile() {
		fmt.Fprintf(&b, "%s %s\n", anotherFile, humanize.Visible(text))
	}
	for i := range h.Policies {
		b.WriteString(h.Policies[i].text())
	}
	if len(h.Policies) == 0 {
		b.WriteString("no policies\n")
	}
	return b.String()
}

// heardLately is how long ago a store may have answered that is not worth a line: a poll is due every second.
const heardLately = 5 * time.Second

func (e *Enforcement) text() string {
	visible := humanize.Visible
	line := visible(e.Policy) + ": " + visible(e.Describe)
	if e.Version != "" {
		line += ", version " + visible(e.Version)
	}
	line += "; enforces the " + visible(e.Enforced)
	if e.Why != "" {
		line += ", because " + visible(e.Why)
	}

	if e.StoreFailure != "" {
		line += "; store failure " + visible(e.StoreFailure)
	}
	if e.StoreUnreachable == "" {
		return line + "; stores ok, clients get its decisions\n"
	}
	return line + "; STORE UNREACHABLE: " + visible(e.StoreUnreachable) + "\n"
}

// Urgent reports whether the instance knows of something that the fleet's report may not show.
func (h *Here) Urgent() bool {
	return h.Trouble != "" || slices.ContainsFunc(h.Policies, func(e Enforcement) bool { return e.StoreUnreachable != "" || e.Stored != "" })
}

// fileRefused begins the sentence about a policy file that cannot be used.
const fileRefused = "POLICY FILE NOT IN USE"

// Refused says what a policy file that cannot be used means, "" where it is in use.
func (h *Here) Refused() string {
	if h.FileTrouble == "" {
		return ""
	}
	return "the last good one decides, and this instance would not start again: " + h.FileTrouble + "; next: shadowlimit validate " + h.File
}

// anotherFile begins the sentences about an instance with another fingerprint.
const anotherFile = "THIS INSTANCE HAS ANOTHER POLICY FILE"

// OtherFile says of each policy whose fleet compares something else what the instance enforces, and that the fleet's report is
// not about it. Each text stands behind anotherFile.
func (h *Here) OtherFile() (list []string) {
	file := ""
	if h.File != "" {
		file = h.File + ", "
	}
	for i := range h.Policies {
		e := &h.Policies[i]
		if e.Stored == "" {
			continue
		}

		// An instance that has completed its own migration goes on with that candidate.
		side := "authoritative " + e.Authoritative
		if e.Enforced != algorithms.Authoritative.String() {
			side = "candidate " + e.Candidate + ", which it has completed,"
		}
		list = append(list, fmt.Sprintf("(%spolicy %s: fingerprint %s; the fleet compares %s). It enforces the %s for every key. "+
			"The fleet's stage, evidence and next step are not about this instance.", file, e.Policy, e.Fingerprint, e.Stored, side))
	}
	return list
}

func second(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
