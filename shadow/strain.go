package shadow

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// When judging both sides in one request counts as too much for a store.
const (
	// One stall is a fork, another program's slow command, or a pause of this process. It
	// says nothing of the work that two sides are.
	strainAfter  = 3
	strainWithin = 10 * time.Second
	// strainFor is how long the side that is not enforced then follows behind the request.
	strainFor = 30 * time.Second
)

// strain is how much a store has suffered from being asked for both sides at once.
type strain struct {
	born  time.Time    // times below count from here: they do not follow a wall clock that is set
	until atomic.Int64 // when both sides are judged together again, ns since born; 0 before the first strain

	mu    sync.Mutex
	row   streak        // stalls, and other signs of too much work, that breakers have counted
	since time.Duration // beginning of the strain that is under way, or was the last
}

func newStrain() *strain { return &strain{born: time.Now(), row: streak{most: strainAfter}} }

// note counts a sign of strain. It begins or goes on once there are several.
func (s *strain) note(log *slog.Logger, because error) {
	s.mu.Lock()
	now := time.Since(s.born)
	if s.row.add(now) > strainWithin {
		s.mu.Unlock()
		return
	}

	// Judging both sides again after the relief was too much at once: the strain goes on.
	until := time.Duration(s.until.Load())
	begins := until == 0 || now > until+strainWithin
	if begins {
		s.since = now
	}
	s.until.Store(int64(now + strainFor))
	s.mu.Unlock()

	// The lock is free: no other request may wait for a log that hangs.
	if begins {
		log.Warn("shadowlimit: Redis timed out, or was busy, three times within 10 s; judging both sides in one request may be too much "+
			"for it: the side that is not enforced follows behind the request for 30 s", "error", because)
	}
}

// overloaded reports whether the side that is not enforced is to follow behind the request.
func (s *store) overloaded() bool {
	if s.strain == nil {
		return false
	}
	until := s.strain.until.Load()
	return until != 0 && int64(time.Since(s.strain.born)) < until
}

// overloadLasts reports whether judging both sides was too much again after the relief. One
// slow moment never lasts so long.
func (s *store) overloadLasts() bool {
	if !s.overloaded() {
		return false
	}
	s.strain.mu.Lock()
	defer s.strain.mu.Unlock()
	return time.Since(s.strain.born)-s.strain.since > strainFor
}
