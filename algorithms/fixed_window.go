package algorithms

import "time"

// FixedWindow counts in windows aligned to the Unix epoch, [kW, (k+1)W), and
// admits while the window's admitted cost stays within the limit. An interval of
// length W that straddles two windows can see twice the limit.
//
// State: Last is the last admitted instant, Used the count of its window. With PhaseFirst
// Aux is the instant at which that window began.
type FixedWindow struct{}

// Name returns "fixed_window".
func (FixedWindow) Name() string { return "fixed_window" }

// Traits implements Described.
func (FixedWindow) Traits() Traits { return Traits{Shape: AlignedWindow} }

// Validate implements Algorithm. A burst is refused: a window admits its limit at once.
func (a FixedWindow) Validate(l Limit) error { return l.validateWindow(a.Name(), fixedOptions) }

const fixedOptions = hasCountDenied | hasPhase | hasCalendar

// Terms returns the requests, the window in microseconds, 1, and the window again.
func (a FixedWindow) Terms(l Limit) (Terms, error) {
	return Terms{l.Requests, l.micros(), 1, l.micros()}, a.Validate(l)
}

// Step implements Algorithm. RetryAfter and ResetAfter end with the window.
func (a FixedWindow) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	if err := l.checkWindow(a.Name(), fixedOptions, cost, at); err != nil {
		return s, Decision{}, err
	}

	if l.Phase != PhaseEpoch || l.Calendar != NoCalendar {
		s, d := l.stepOfPhase(s, cost, at)
		return s, d, nil
	}

	var d Decision
	l.stepAligned(&s, &d, cost, at)
	return s, d, nil
}

// stepAligned is the step of windows that are aligned to the epoch, for a limit and a charge that have been checked. It writes
// the decision and the state in place, because both are dear to copy.
func (l *Limit) stepAligned(s *State, d *Decision, cost, at int64) {
	if s.ahead(at, l) {
		s.Last = at
	}

	// The count belongs to the window of the last admitted instant. Where the length has
	// changed in the meantime, that instant says which of the new windows it is.
	now := s.now(at)
	start := now - floorMod(now, l.micros())
	used := s.Used
	if s.Last < start {
		used = 0
	}

	used = countInWindow(d, used, l, cost, start+l.micros()-at)
	if l.counts(cost, d.Allowed) {
		*s = State{Last: now, Used: used}
	}
}

// stepOfPhase is the step of windows that are not aligned to the epoch, or not of one length.
func (l *Limit) stepOfPhase(s State, cost, at int64) (State, Decision) {
	first := l.Phase == PhaseFirst
	if s.ahead(at, l) {
		if first {
			s.Aux -= s.Last - at // the key's window is as old as it was
		}
		s.Last = at
	}

	// With PhaseFirst a charge that finds no window within two begins one. It is judged as if it had: whether the window is
	// kept depends on its being counted.
	now := s.now(at)
	start, end, used, known := l.windowOfPhase(&s, now)
	var d Decision
	used = countInWindow(&d, used, l, cost, end-at)

	// The phase is kept for one window longer than the count.
	switch {
	case first && used > 0:
		d.ResetAfter = wait(end + l.micros() - at)
	case first && known:
		d.ResetAfter = wait(end - at)
	}

	if l.counts(cost, d.Allowed) {
		s = State{Last: now, Used: used}
		if first {
			s.Aux = start
		}
	}
	return s, d
}

// windowOfPhase returns where the window of an instant begins and ends, its count, and whether the key has counted
// anything within two windows.
func (l *Limit) windowOfPhase(s *State, now int64) (start, end, used int64, known bool) {
	origin := s.Aux
	if l.Phase == PhaseHash {
		origin = l.shift()
	}

	start = now - floorMod(now-origin, l.micros())
	end = start + l.micros()
	if l.Calendar != NoCalendar {
		start, end = l.Calendar.window(now)
	}

	// A count two windows ago decides nothing any more, and a first window begins with the charge that finds none.
	known = s.Used > 0 && s.Last >= start-l.micros()
	if l.Phase == PhaseFirst && !known {
		return now, now + l.micros(), 0, false
	}
	if known && s.Last >= start {
		used = s.Used
	}
	return start, end, used, known
}

// denied returns the units that a window holds after a denial, and the wait.
func (l *Limit) denied(used, cost, toEnd int64) (int64, time.Duration) {
	if l.counts(cost, false) {
		used = countDenied(used, cost)
	}
	if cost > l.Requests {
		return used, Never
	}
	return used, wait(toEnd)
}

// countInWindow judges a cost in a window that holds used units and is over
// after toEnd microseconds. It writes the decision, and returns the units held after it.
func countInWindow(d *Decision, used int64, l *Limit, cost, toEnd int64) int64 {
	*d = Decision{Limit: l.Requests, Allowed: admits(cost, l.Requests-used)}
	if d.Allowed {
		used += cost
	} else {
		used, d.RetryAfter = l.denied(used, cost, toEnd)
	}

	// A limit that was lowered in mid-window may be below the count.
	d.Remaining = max(0, l.Requests-used)
	if used > 0 {
		d.ResetAfter = wait(toEnd)
	}
	return used
}
