package stages

import (
	"cmp"
	"slices"
	"time"
)

// watchGap is the longest time between two looks of which the second goes on with the first.
const watchGap = LiveFor

// watch is what a leader has seen of the instances of one policy: time that it has not watched itself says
// nothing of anybody.
type watch struct {
	at time.Time // of the last look, by this process's clock; zero before the first one
	// stored is the fingerprint that was stored then, and held when an instance of it was last heard.
	stored string
	held   time.Time
	seen   []seen
}

// seen is an instance, as seen at the last looks.
type seen struct {
	member
	heard time.Time // when it was last seen with another heartbeat, by this process's clock
	since time.Time // since when it has served this fingerprint without a gap; zero: it does not
}

// member is what an instance says of one policy.
type member struct {
	id          string
	fingerprint string
	generation  int64
	idle        bool
	at          time.Time // of its heartbeat, by the store's clock
}

// successor is the fingerprint that takes over, or the stored one with a larger generation.
type successor struct {
	fingerprint string
	generation  int64
	gone        bool // no instance of the stored one was heard
}

// look notes the heartbeats that are stored at an instant, and returns what is to be stored in place of s;
// false if that is nothing. The instant is of this process's clock: the store's may step.
func (w *watch) look(now time.Time, s *State, members []member) (successor, bool) {
	if w.at.IsZero() || now.Sub(w.at) > watchGap {
		*w = watch{}
	}
	w.at = now
	if w.held.IsZero() || w.stored != s.Fingerprint {
		*w = watch{at: now, stored: s.Fingerprint, held: now}
	}
	w.note(now, members)

	generation := s.Generation
	for i := range w.seen {
		if m := &w.seen[i]; m.fingerprint == s.Fingerprint && !m.since.IsZero() {
			generation = max(generation, m.generation)
			if m.heard.Equal(now) {
				w.held = now
			}
		}
	}

	gone := now.Sub(w.held) >= TakeOverAfter
	best := successor{s.Fingerprint, generation, false}
	for i := range w.seen {
		m := &w.seen[i]
		if m.fingerprint == s.Fingerprint || m.since.IsZero() {
			continue
		}
		ripe := m.generation > generation && m.heard.Sub(m.since) >= TakeOverAfter
		further := cmp.Or(cmp.Compare(m.generation, best.generation), cmp.Compare(best.fingerprint, m.fingerprint)) > 0
		if (ripe || gone) && (best.fingerprint == s.Fingerprint || further) {
			best = successor{m.fingerprint, m.generation, gone}
		}
	}
	return best, best.fingerprint != s.Fingerprint || best.generation != s.Generation
}

// due returns which fingerprint takes over if all stays as it was at the last look, and how long that takes; false if none
// does.
func (w *watch) due(s *State) (successor, time.Duration, bool) {
	var best successor
	rest, found := time.Duration(0), false
	for i := range w.seen {
		m := &w.seen[i]
		if m.fingerprint == s.Fingerprint || m.since.IsZero() {
			continue
		}
		begins, held := m.since, w.held.Equal(w.at)
		if m.generation <= s.Generation {
			if begins = w.held; held {
				continue
			}
		}
		if left := begins.Add(TakeOverAfter).Sub(w.at); !found || left < rest || left == rest && m.generation > best.generation {
			best, rest, found = successor{m.fingerprint, m.generation, m.generation <= s.Generation}, max(0, left), true
		}
	}
	return best, rest, found
}

// note brings what was seen up to date.
func (w *watch) note(now time.Time, members []member) {
	list := make([]seen, 0, len(members))
	for _, m := range members {
		next := seen{member: m, heard: now}
		if i := slices.IndexFunc(w.seen, func(old seen) bool { return old.id == m.id }); i >= 0 {
			old := &w.seen[i]
			if m.at.Equal(old.at) {
				next.heard = old.heard
			}
			if old.fingerprint == m.fingerprint {
				next.since = old.since
			}
		}

		switch {
		case m.idle || now.Sub(next.heard) > LiveFor:
			next.since = time.Time{}
		case next.since.IsZero():
			next.since = now
		}
		list = append(list, next)
	}
	w.seen = list
}
