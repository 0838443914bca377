package status

import (
	"context"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Source is what a page shows.
type Source struct {
	// Report makes a report of now. It may ask stores, and fail.
	Report func(context.Context) (Report, error)
	// Here is what the serving instance knows by itself, for the time in which Report fails. It asks no store and does
	// not wait. nil means that the page knows nothing without its stores.
	Here func() Here
}

// Here is what an instance knows without a store.
type Here struct {
	Instance string `json:"instance"`
	// Heard is when the store last answered this instance, nil if it has not since the start of the instance, at Started.
	Heard    *time.Time    `json:"heard"`
	Started  time.Time     `json:"started"`
	Policies []Enforcement `json:"policies"`

	// Report is of the last round in which the instance judged the fleet, at an instant of its own clock. The instant is
	// zero if there was no such round.
	Report Report    `json:"-"`
	At     time.Time `json:"-"`
}

// Enforcement says which side an instance enforces for a policy, and why where the stage does not say it.
type Enforcement struct {
	Policy        string          `json:"policy"`
	Stage         promotion.Stage `json:"stage"` // "" if the instance knows none
	Describe      string          `json:"-"`
	Version       string          `json:"version"`
	Enforced      string          `json:"enforced"`
	Why           string          `json:"why,omitempty"`
	Authoritative string          `json:"authoritative"`
	Candidate     string          `json:"candidate"`
	// StoreFailure says what decides while the store of the enforced side does not answer.
	StoreFailure string `json:"store_failure,omitempty"`
	// StoreAway says which of the sides that decide here does not answer, and what decides instead; "" if all answer.
	StoreAway string `json:"store_away,omitempty"`
	// Levels say how much of the limits of adaptive sides holds on this instance; "" without one.
	Levels string `json:"levels,omitempty"`
}

// stale is the JSON form of an answer that is not of now.
type stale struct {
	Report
	Error      string   `json:"error"`
	AgeSeconds *float64 `json:"age_seconds"` // of the report, nil if there is none
	Here       *Here    `json:"here,omitempty"`
}

// fallBack completes an answer that the source could not renew by what the instance knows. The page may not have been
// open before the outage: then the report of the instance's last round is newer than the page's.
func (a *answer) fallBack(source Source) {
	if a.err == nil || source.Here == nil {
		return
	}

	here := source.Here()
	a.here = &here
	if here.At.After(a.at) {
		a.report, a.at = here.Report, here.At
	}
	if a.at.IsZero() {
		a.report = Report{Name: here.Report.Name}
	}
}

// stale returns the answer for programs.
func (a *answer) stale(now time.Time) stale {
	s := stale{Report: a.report, Error: why(a.err), Here: a.here}
	s.Policies = append([]Policy{}, s.Policies...) // not nil: an empty list is [] in JSON
	if !a.at.IsZero() {
		age := now.Sub(a.at).Seconds()
		s.AgeSeconds = &age
	}
	return s
}

// Silence says since when the store has not answered the instance.
func (h *Here) Silence() string {
	if h.Heard == nil {
		return "The store has not answered this instance since its start at " + second(h.Started)
	}
	return "The store last answered this instance at " + second(*h.Heard)
}

func second(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
