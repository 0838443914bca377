package promotion

import (
	"slices"
	"time"
)

// Ended is an epoch that was rolled back or completed. It does not begin again in shadow
// when it is deployed once more.
type Ended struct {
	Epoch string
	As    Stage // RolledBack or Completed
}

// Displaced is how far an epoch was when another one took over.
type Displaced struct {
	Epoch   string
	Stage   Stage
	Percent float64 `json:",omitempty"`
	Since   time.Time
	Hold    bool `json:",omitempty"`
	// At is when the other one took over, Term the term of the state then.
	At   time.Time
	Term int64
}

const (
	// keptEnded and keptDisplaced bound a state, which every instance reads every second.
	keptEnded     = 16
	keptDisplaced = 4
	// returnFor is how long a displaced epoch may return to its stage: a deployment that is
	// undone later than that has left the evidence stale, and begins in shadow.
	returnFor = time.Hour
)

// EndedAs returns how an epoch ended, RolledBack or Completed, or "" if it did not.
func (s *State) EndedAs(epoch string) Stage {
	for _, e := range s.Ended {
		if e.Epoch == epoch {
			return e.As
		}
	}
	return ""
}

// Failed reports whether the state's epoch was rolled back.
func (s *State) Failed() bool { return s.EndedAs(s.Epoch) == RolledBack }

// end puts an epoch on the list. An epoch that ends once more has one entry, the last one.
func (s *State) end(epoch string, as Stage) {
	if epoch == "" { // the state could not be read
		return
	}
	s.revive(epoch)
	s.Ended = append(s.Ended, Ended{epoch, as})
	s.Ended = s.Ended[max(0, len(s.Ended)-keptEnded):]
}

// revive strikes an epoch out of the list. The list is replaced and never changed: other
// states share it.
func (s *State) revive(epoch string) {
	s.Ended = slices.DeleteFunc(slices.Clone(s.Ended), func(e Ended) bool { return e.Epoch == epoch })
}

// displace notes how far an epoch was when this state, which begins another one, was made.
func (s *State) displace(before State) {
	kept := slices.DeleteFunc(slices.Clone(s.Displaced), func(d Displaced) bool {
		return d.Epoch == before.Epoch || d.Epoch == s.Epoch || !within(s.At, d.At, returnFor)
	})

	// A state that could not be read has no epoch to return to.
	if before.Epoch != "" {
		kept = append(kept, before.displaced(s.At))
	}
	s.Displaced = kept[max(0, len(kept)-keptDisplaced):]
}

// displaced is the entry of this state, from which another epoch took over at an instant.
func (s State) displaced(at time.Time) Displaced {
	return Displaced{
		Epoch: s.Epoch, Stage: s.Stage, Percent: s.Percent, Since: s.Since, Hold: s.Hold && !s.HeldForHealth, At: at, Term: s.Term,
	}
}

// within reports whether two instants are no more than a time apart, in either order: the
// clock of a store steps back when a server takes over whose clock is behind.
func within(a, b time.Time, d time.Duration) bool { return a.Sub(b).Abs() <= d }
