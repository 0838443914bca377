package stages

import (
	"slices"
	"time"
)

// Past is a fingerprint that another one took over from, as it left. When it is deployed once more
// it goes on from there.
type Past struct {
	Fingerprint string
	Stage       Stage
	Percent     float64 `json:",omitempty"`
	Hold        bool    `json:",omitempty"`
	Since       time.Time
	Term        int64
	// Left is when the other one took over, and By the actor that stored it.
	Left time.Time `json:",omitzero"`
	By   string    `json:",omitempty"`
}

// keptPast bounds a state, which instances read at each change.
const keptPast = 16

// remember replaces the entry of a fingerprint in the past, or strikes it out for one without a stage. The
// list is replaced and never changed: other states share it.
func remember(s *State, p Past) {
	list := slices.DeleteFunc(slices.Clone(s.Past), func(other Past) bool { return other.Fingerprint == p.Fingerprint })
	if p.Stage != "" && p.Fingerprint != "" { // a state that cannot be read names none
		list = append(list, p)
	}
	for len(list) > keptPast {
		least := 0
		for i := range list {
			if worth(list[i].Stage) < worth(list[least].Stage) {
				least = i
			}
		}
		list = slices.Delete(list, least, least+1)
	}
	s.Past = list
}

// worth ranks what is lost when a fingerprint is forgotten: in shadow some evidence, in a rollback that its
// candidate is not to be trusted, and in a completed migration which limiter is the warm one.
func worth(s Stage) int {
	switch s {
	case RolledBack, Completed:
		return 2
	case Canary, Promoted:
		return 1
	}
	return 0
}

// replacedBy returns the state in which another fingerprint is stored. It goes on as it left, or
// begins in shadow if it is not known.
func replacedBy(s State, fingerprint string, generation int64, o Order, now time.Time) State {
	next, back := following(s, o, now), s.past(fingerprint)

	// A state that could not be read may have no term. Terms begin with 1.
	next.Term = max(1, next.Term)
	next.Fingerprint, next.Generation = fingerprint, generation
	remember(&next, Past{Fingerprint: fingerprint})
	remember(&next, Past{
		Fingerprint: s.Fingerprint, Stage: s.Stage, Percent: s.Percent, Hold: s.Hold && !s.HeldForHealth, Since: s.Since, Term: s.Term,
		Left: now, By: o.Actor,
	})

	// An operator's hold is about the policy. Those of a rollback and for the health were about a candidate.
	next.Hold = s.Hold && !s.HeldForHealth && s.Stage != RolledBack
	next.HeldForHealth, next.Unwell = false, nil
	next.Stage, next.Percent, next.Since, next.StageAt = Shadow, 0, now, now
	switch {
	case s.Stage == RolledBack && s.Fingerprint == "": // nobody knows which fingerprints were rolled back
		next.Stage, next.Hold = RolledBack, true
		return next
	case back.Stage == "":
		return next
	}

	// After a rollback nothing is enforced that was not promoted after it. The evidence is kept.
	next.Since = back.Since
	if back.Stage == RolledBack || back.Stage == Completed || back.Term == s.Term {
		next.Stage, next.Percent = back.Stage, back.Percent
		next.Hold = next.Hold || back.Hold
	}
	return next
}

// first returns the state in which a policy begins that the store does not have.
func first(fingerprint string, generation int64, o Order, now time.Time) State {
	next := following(State{}, o, now)
	next.Version = Version{1, 1}
	next.Stage, next.StageAt = Shadow, now
	next.Fingerprint, next.Generation, next.Since = fingerprint, generation, now
	return next
}

// following returns the state after this one, with the order on record and the same stage.
func following(s State, o Order, now time.Time) State {
	next := s
	next.Seq++
	next.At = now
	next.Actor, next.Reason, next.Evidence = o.Actor, o.Reason, o.Evidence
	next.From = s.Describe()
	return next
}

// rolledBack returns the state in which the policy is rolled back. Its term is the store's clock in
// seconds: whatever a failover has brought back was made in a smaller one.
func rolledBack(s State, o Order, now time.Time) State {
	next := following(s, o, now)
	next.Version = Version{max(s.Term+1, now.Unix()), 1}
	if next.Term > maxNumber { // the store lies: with no term left, the safer state of the last ones wins
		next.Version = Version{s.Term, min(s.Seq+1, maxNumber)}
	}
	next.Stage, next.Percent, next.Hold = RolledBack, 0, true
	next.HeldForHealth, next.Unwell = false, nil
	next.StageAt = now
	return next
}

// resumed returns the state in which a hold has ended. After a rollback the evidence begins anew.
func resumed(s State, o Order, now time.Time) State {
	next := following(s, o, now)
	next.Hold, next.HeldForHealth = false, false
	if s.Stage == RolledBack {
		next.Stage, next.Percent, next.Since, next.StageAt = Shadow, 0, now, now
	}
	return next
}
