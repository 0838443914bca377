package gate

import (
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Evidence is all that the gate judges by.
type Evidence struct {
	History evidence.History
	// Since is when the evidence began, Now the instant judged.
	Since, Now time.Time
	// Live is the number of live instances, and Others how many of them have another fingerprint. NotWriting are the ids of live instances that have
	// written no evidence for a minute, though they are heard of, OtherFingerprint those of instances that serve another fingerprint.
	Live, Others     int
	NotWriting       []string
	OtherFingerprint []string
	// Step is the step that the verdict is for.
	Step Step
	// Lately are the protected keys of the last minutes, where the leader has looked before.
	Lately evidence.ProtectedKeys `json:"-"`
	// Denied are the minutes in which keys were first denied, in order, where all of them are known: in a replay. nil elsewhere.
	Denied []int64 `json:"-"`
	// Exposure says since when the candidate is enforced; the zero Exposure in shadow.
	Exposure Exposure
	// Sides say what is compared, and what can disturb it.
	Sides Sides `json:",omitzero"`
	// Unheard is the last write of an instance that is live, or was heard of within a window, and has written nothing for a
	// minute; the zero time if there is none. Nobody knows what it has counted.
	Unheard time.Time `json:",omitzero"`
}

// Exposure is a stage in which the candidate is enforced for some keys, or for all.
type Exposure struct {
	Since   time.Time // when the stage, or its percentage, began
	AllKeys bool
}

// Step is a step forward: its name, such as canary 10 %, and the percentage of the keys for
// which the candidate is enforced after it. The zero Step is the first one.
type Step struct {
	Name    string
	Percent float64
}

// costs reports whether a check has cost another number than 1, so that ratios by cost say something else.
func (e *Evidence) costs() bool {
	return slices.ContainsFunc(e.History.Minutes, func(m evidence.Minute) bool { return m.Extra != nil })
}

// keysDenied returns how many distinct keys the authoritative had denied before a minute.
func (e *Evidence) keysDenied(before int64) int64 {
	if e.Denied == nil {
		return e.History.Distinct[evidence.KeysDenied]
	}
	n := int64(0)
	for n < int64(len(e.Denied)) && e.Denied[n] < before {
		n++
	}
	return n
}

// Sides says how the sides of a policy keep what they remember. The time of the zero Sides is undisturbed.
type Sides struct {
	// Apart reports that they share no record.
	Apart bool
	// Window is how long a side may depend on one check.
	Window time.Duration
	// Copied reports that a candidate which begins beside the authoritative begins as its copy.
	Copied bool
	// Stores are the names of their stores, by role; "" for one without a name.
	Stores [2]string
	// First reports that there is no authoritative: the candidate is a first limit, and the only ratio is how many requests
	// it newly denies of all.
	First bool `json:",omitempty"`
}

// threshold returns the threshold by which a ratio is judged; 0 if it is not.
func (s *Sides) threshold(cfg Config, r evidence.Ratio) float64 {
	if s.First && r.OfRequests() != evidence.OfAllows {
		return 0
	}
	return cfg.Threshold(r)
}

// compared returns the minutes as they are judged. What a first limit failed to answer was not compared: its only ratio has no place
// for it.
func (s *Sides) compared(minutes []evidence.Minute) []evidence.Minute {
	if !s.First {
		return minutes
	}
	minutes = slices.Clone(minutes)
	for i := range minutes {
		m := &minutes[i]
		uncompare(&m.Tally)
		if m.Extra != nil {
			extra := *m.Extra
			uncompare(&extra)
			m.Extra = &extra
		}
	}
	return minutes
}

func uncompare(t *evidence.Tally) {
	t[evidence.Inconclusive], t[evidence.CandidateError] = t[evidence.Inconclusive]+t[evidence.CandidateError], 0
}

// timed is the ratio whose undisturbed time is the time seen.
func (s *Sides) timed() evidence.Ratio {
	if s.First {
		return evidence.OfAllows
	}
	return evidence.OfComparisons
}
