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

// Undone returns how the last fingerprint left whose canary or promotion another policy file has ended, and which would
// return if its file did; nil if there is none, or the policy has gone on since.
func (s *State) Undone() *Past {
	if s.Stage != Shadow {
		return nil
	}
	for i := len(s.Past) - 1; i >= 0; i-- {
		if p := &s.Past[i]; p.Stage.Exposed() && p.Term == s.Term {
			return p
		}
	}
	return nil
}

// keptPast bounds a state, which instances read at each change.
const keptPast = 16

// Of returns the stage that a fingerprint has in this state, whether it is the stored one or one of
// the past; "" for one that is not known.
func (s *State) Of(fingerprint string) Stage {
	if s.Fingerprint == fingerprint {
		return s.Stage
	}
	return s.past(fingerprint).Stage
}

// past returns how a fingerprint left, the zero Past for one that is not known.
func (s *State) past(fingerprint string) Past {
	if i := slices.IndexFunc(s.Past, func(p Past) bool { return p.Fingerprint == fingerprint }); i >= 0 {
		return s.Past[i]
	}
	return Past{}
}

// remember replaces the entry of a fingerprint in the past, or strikes it out for one without a stage. The
// list is replaced and never changed: other states share it.
func (s *State) remember(p Past) {
	list := slices.DeleteFunc(slices.Clone(s.Past), func(other Past) bool { return other.Fingerprint == p.Fingerprint })
	if p.Stage != "" && p.Fingerprint != "" { // a state that cannot be read names none
		list = append(list, p)
	}
	for len(list) > keptPast {
		least := 0
		for i := range list {
			if list[i].Stage.worth() < list[least].Stage.worth() {
				least = i
			}
		}
		list = slices.Delete(list, least, least+1)
	}
	s.Past = list
}

// worth ranks what is lost when a fingerprint is forgotten: in shadow some evidence, in a rollback that its
// candidate is not to be trusted, and in a completed migration which limiter is the warm one.
func (s Stage) worth() int {
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
func (s State) replacedBy(fingerprint string, generation int64, o Order, now time.Time) State {
	next, back := s.following(o, now), s.past(fingerprint)

	// A state that could not be read may have no term. Terms begin with 1.
	next.Term = max(1, next.Term)
	next.Fingerprint, next.Generation = fingerprint, generation
	next.remember(Past{Fingerprint: fingerprint})
	next.remember(Past{
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

// With returns the state that would take over from this one if another fingerprint were stored now.
func (s State) With(fingerprint string, now time.Time) State {
	return s.replacedBy(fingerprint, 0, Order{}, now)
}

// first returns the state in which a policy begins that the store does not have.
func first(fingerprint string, generation int64, o Order, now time.Time) State {
	next := State{}.following(o, now)
	next.Version = Version{1, 1}
	next.Stage, next.StageAt = Shadow, now
	next.Fingerprint, next.Generation, next.Since = fingerprint, generation, now
	return next
}

// following returns the state after this one, with the order on record and the same stage.
func (s State) following(o Order, now time.Time) State {
	next := s
	next.Seq++
	next.At = now
	next.Actor, next.Reason, next.Evidence = o.Actor, o.Reason, o.Evidence
	next.From = s.Describe()
	return next
}

// rolledBack returns the state in which the policy is rolled back. Its term is the store's clock in
// seconds: whatever a failover has brought back was made in a smaller one.
func (s State) rolledBack(o Order, now time.Time) State {
	next := s.following(o, now)
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
func (s State) resumed(o Order, now time.Time) State {
	next := s.following(o, now)
	next.Hold, next.HeldForHealth = false, false
	if s.Stage == RolledBack {
		next.Stage, next.Percent, next.Since, next.StageAt = Shadow, 0, now, now
	}
	return next
}

// Press is the order of a red button: the fingerprint of the instance, and the term that it knew.
type Press struct {
	Fingerprint string `json:"fingerprint"`
	Term        int64  `json:"term"`
}

// Void reports whether the order is answered for good: its fingerprint was rolled back and resumed since.
func (p Press) Void(s *State) bool {
	switch {
	case s.Of(p.Fingerprint) == RolledBack:
		return false
	case s.Fingerprint == p.Fingerprint:
		return s.Term > p.Term
	}
	return s.past(p.Fingerprint).Term > p.Term
}

// Moves reports whether there is anything to store for the order in a state.
func (p Press) Moves(s *State) bool {
	_, moves := s.pressed(p, Order{}, time.Time{})
	return moves
}

// pressed returns the state that carries an order out, and whether it is another one. A fingerprint in
// shadow has nothing to be rolled back, and keeps its evidence.
func (s State) pressed(p Press, o Order, now time.Time) (State, bool) {
	switch {
	case s.Stage == "" || p.Void(&s) || s.Of(p.Fingerprint) == RolledBack:
		return s, false
	case s.Fingerprint == p.Fingerprint:
		return s.rolledBack(o, now), s.Stage != Shadow
	}

	// Only a rollback of the stored fingerprint begins a term: it must not be beaten by the order for another one.
	next := s.following(o, now)
	next.remember(Past{Fingerprint: p.Fingerprint, Stage: RolledBack, Hold: true, Since: now, Term: s.Term})
	return next, true
}
