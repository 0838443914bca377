package evidence

import (
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

const (
	// TickSeconds is the length of a Tick.
	TickSeconds = 10
	// FreshTicks is the number of ticks for which a newly denied key is not listed again: ten minutes.
	FreshTicks = 600 / TickSeconds

	keptTicks  = 2 * FreshTicks // per stripe, while the ledger cannot be written
	mostHarmed = 8192           // keys remembered as listed, per recorder, shared out among the stripes

	// slowBy is how much longer than the authoritative a candidate must take to count as slow.
	slowBy = 100 * time.Millisecond
)

// Tick counts ten seconds of the keys for which the candidate is enforced: the triggers that act
// within seconds read it.
type Tick struct {
	// Unix is the tick, counted in units of ten seconds from the Unix epoch.
	Unix      int64
	Tally     Tally
	Disturbed *Disturbance
	// Alone are the candidate's answers that could not be compared with one of the authoritative, 0 allowed and 1 denied.
	// Lonely are the keys that it denied most often so, a few of each instance.
	Alone  [2]int64
	Lonely Weights
	// Failed counts requests to which the enforced candidate had no answer, although the authoritative had one.
	Failed int64
	// Slow counts requests for which the candidate took longer than the authoritative by 100 ms or more.
	Slow int64
	// Harmed are hashes of newly denied keys. An instance lists a key at most once in ten minutes.
	Harmed []uint32
	// Denied and Allowed are the keys that were most often newly denied and newly allowed, a few of each instance.
	Denied, Allowed Weights
}

// Join adds what another observer saw in the same ten seconds. Lists are appended and may name a key twice: Weights.Top
// adds up, and a reader of Harmed counts distinct keys.
func (t *Tick) Join(other *Tick) {
	t.Tally.Add(other.Tally)
	t.Disturbed = t.Disturbed.joined(other.Disturbed)
	for i := range t.Alone {
		t.Alone[i] += other.Alone[i]
	}
	t.Failed += other.Failed
	t.Slow += other.Slow

	t.Harmed = append(t.Harmed, other.Harmed...)
	t.Lonely = append(t.Lonely, other.Lonely...)
	t.Denied = append(t.Denied, other.Denied...)
	t.Allowed = append(t.Allowed, other.Allowed...)
}

// clone returns a tick that shares no list, so that it can be read without the stripe's lock.
func (t Tick) clone() Tick {
	t.Harmed = slices.Clone(t.Harmed)
	t.Lonely = slices.Clone(t.Lonely)
	t.Denied = slices.Clone(t.Denied)
	t.Allowed = slices.Clone(t.Allowed)
	return t
}

// count adds one evaluation. A request counts as slow or as failed, and never as both. Beside a first limit there is no side whose
// answer would show that only the candidate's store fails: then on_store_failure decides, and no rollback does better.
func (t *Tick) count(o *[2]algorithms.Observation, outcome Outcome, first bool) {
	t.Tally[outcome]++

	authoritative, candidate := &o[algorithms.Authoritative], &o[algorithms.Candidate]
	switch {
	case authoritative.Status != algorithms.Judged:
		// Both sides may have the same trouble: it says nothing of the candidate.
	case first && (candidate.Reason == algorithms.StoreFailed || candidate.Reason == algorithms.BreakerOpen):
	case candidate.Status == algorithms.Judged && candidate.Took-authoritative.Took >= slowBy:
		t.Slow++
	case candidate.Status == algorithms.Failed,
		candidate.Status == algorithms.Skipped && candidate.Reason != algorithms.OtherReason:
		// An open breaker or a full queue is the candidate's failure; another reason, such as a client that has
		// disconnected, is not.
		t.Failed++
	}
}

// ticking is a stripe's part of the last minutes. The stripe's lock guards it. The zero value is empty.
type ticking struct {
	ticks  []Tick           // in order
	listed map[uint32]int64 // keys by the tick in which they were listed
	pruned int64            // tick of the last prune
}

// at returns a tick, or nil if it is older than all ticks of a full list.
func (s *ticking) at(unix int64) *Tick {
	i := len(s.ticks)
	for i > 0 && s.ticks[i-1].Unix > unix {
		i--
	}
	if i > 0 && s.ticks[i-1].Unix == unix {
		return &s.ticks[i-1]
	}

	// The oldest tick makes room, which bounds memory while the ledger cannot be written.
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

// lists reports whether to list a newly denied key, and remembers that. It remembers at most most keys: when it is full
// it lists no new ones.
func (s *ticking) lists(key uint32, unix int64, most int) bool {
	if last, known := s.listed[key]; known && unix-last < FreshTicks {
		return false
	}

	// A full list makes room by forgetting old keys. If all are recent, thousands of keys are harmed, and one more does
	// not change what the triggers do.
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

// prune forgets the keys that may be listed again. It works at most once a tick, so that a full list does not cost a
// scan for each request.
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

func (s *ticking) dropBefore(unix int64) {
	s.ticks = slices.DeleteFunc(s.ticks, func(t Tick) bool { return t.Unix < unix })
}
