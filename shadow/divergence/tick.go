package divergence

import (
	"cmp"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

const (
	// TickSeconds is the length of a Tick.
	TickSeconds = 10
	// BucketSeconds is how much time the ledger keeps together in one entry of Ticks.
	BucketSeconds = 600
	// FreshTicks is for how many ticks a key that was newly denied is not listed again.
	FreshTicks = BucketSeconds / TickSeconds

	keptTicks  = 2 * FreshTicks // per stripe
	mostHarmed = 8192           // keys remembered as listed, per recorder
	// slowBy is how much longer than the authoritative a candidate may take.
	slowBy = 100 * time.Millisecond
)

// Tick is what was seen within ten seconds of those keys for which the candidate is
// enforced: what has to be noticed at once.
type Tick struct {
	// Unix is the tick, counted in ten seconds from the Unix epoch.
	Unix  int64
	Tally Tally
	// Failed is how often the candidate was enforced and had no answer, although the
	// authoritative had.
	Failed int64
	// Slow is how often it took longer than the authoritative, by 100 ms or more.
	Slow int64
	// Harmed are hashes of keys that were newly denied, and had not been listed in the
	// ten minutes before by the same instance.
	Harmed []uint32
	// Denied and Allowed are the keys that were most often newly denied and newly
	// allowed, a few of each instance.
	Denied, Allowed Weights
}

// Join adds what was seen elsewhere in the same ten seconds.
func (t *Tick) Join(other *Tick) {
	t.Tally.Add(other.Tally)
	t.Failed += other.Failed
	t.Slow += other.Slow
	t.Harmed = append(t.Harmed, other.Harmed...)
	t.Denied = append(t.Denied, other.Denied...)
	t.Allowed = append(t.Allowed, other.Allowed...)
}

func (t Tick) clone() Tick {
	t.Harmed, t.Denied, t.Allowed = slices.Clone(t.Harmed), slices.Clone(t.Denied), slices.Clone(t.Allowed)
	return t
}

func (t *Tick) count(o *[2]algorithms.Observation, outcome Outcome) {
	t.Tally[outcome]++
	authoritative, candidate := &o[algorithms.Authoritative], &o[algorithms.Candidate]
	switch {
	case authoritative.Status != algorithms.Judged:
	case candidate.Status == algorithms.Judged && candidate.Took-authoritative.Took >= slowBy:
		t.Slow++
	case candidate.Status == algorithms.Failed, candidate.Status == algorithms.Skipped && candidate.Reason != algorithms.OtherReason:
		t.Failed++
	}
}

// JoinTicks makes one list of several instances' ticks, in order.
func JoinTicks(ticks []Tick) []Tick {
	ticks = slices.Clone(ticks)
	slices.SortStableFunc(ticks, func(a, b Tick) int { return cmp.Compare(a.Unix, b.Unix) })
	var joined []Tick
	for i := range ticks {
		if n := len(joined); n > 0 && joined[n-1].Unix == ticks[i].Unix {
			joined[n-1].Join(&ticks[i])
			continue
		}
		joined = append(joined, ticks[i].clone())
	}
	return joined
}

// ticking is a stripe's part of the last minutes.
type ticking struct {
	ticks  []Tick           // in order
	listed map[uint32]int64 // keys by the tick in which they were listed
	pruned int64            // tick
}

// at returns a tick, nil if it is too long ago to be of interest.
func (s *ticking) at(unix int64) *Tick {
	i := len(s.ticks)
	for i > 0 && s.ticks[i-1].Unix > unix {
		i--
	}
	if i > 0 && s.ticks[i-1].Unix == unix {
		return &s.ticks[i-1]
	}
	if len(s.ticks) >= keptTicks {
		if i == 0 {
			return nil
		}
		s.ticks = slices.Delete(s.ticks, 0, 1)
		i--
	}
	s.ticks = slices.Insert(s.ticks, i, Tick{Unix: unix})
	return &s.ticks[i]
}

// lists reports whether a key that is newly denied is to be listed. It remembers no
// more than so many.
func (s *ticking) lists(key uint32, unix int64, most int) bool {
	if last, known := s.listed[key]; known && unix-last < FreshTicks {
		return false
	}
	if len(s.listed) >= most {
		s.prune(unix)
		if len(s.listed) >= most {
			return false
		}
	}
	if s.listed == nil {
		s.listed = map[uint32]int64{}
	}
	s.listed[key] = unix
	return true
}

// prune forgets keys that may be listed again, at most once a tick.
func (s *ticking) prune(unix int64) {
	if s.pruned == unix {
		return
	}
	s.pruned = unix
	for key, last := range s.listed {
		if unix-last >= FreshTicks {
			delete(s.listed, key)
		}
	}
}

// dropBefore forgets ticks before one.
func (s *ticking) dropBefore(unix int64) {
	s.ticks = slices.DeleteFunc(s.ticks, func(t Tick) bool { return t.Unix < unix })
}

// bucketOf returns the ledger's entry that a tick belongs to.
func bucketOf(tick int64) int64 { return tick * TickSeconds / BucketSeconds }
