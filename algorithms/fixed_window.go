package algorithms

// FixedWindow counts in windows aligned to the Unix epoch, [kW, (k+1)W), and
// admits while the window's admitted cost stays within the limit. An interval of
// length W that straddles two windows can see twice the limit.
//
// State: Last is the last admitted instant, Used the count of its window.
type FixedWindow struct{}

// Name returns "fixed_window".
func (FixedWindow) Name() string { return "fixed_window" }

// traits implements described.
func (FixedWindow) traits() Traits { return Traits{Shape: AlignedWindow} }

// Validate implements Algorithm. A burst is refused: a window admits its limit at once.
func (a FixedWindow) Validate(l Limit) error { return l.validateWindow(a.Name()) }

// Terms returns the requests, the window in microseconds, 1, and the window again.
func (a FixedWindow) terms(l Limit) (Terms, error) {
	return Terms{l.Requests, l.micros(), 1, l.micros()}, a.Validate(l)
}

// Step implements Algorithm. RetryAfter and ResetAfter end with the window.
func (a FixedWindow) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	if err := l.checkWindow(a.Name(), cost, at); err != nil {
		return s, Decision{}, err
	}

	var d Decision
	stepAligned(l, &s, &d, cost, at)
	return s, d, nil
}

// stepAligned is the step for a limit and a check that have been checked. It writes the decision and the state in place,
// because both are dear to copy.
func stepAligned(l *Limit, s *State, d *Decision, cost, at int64) {
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
	if cost > 0 && d.Allowed {
		*s = State{Last: now, Used: used}
	}
}

// countInWindow judges a cost in a window that holds used units and is over
// after toEnd microseconds. It writes the decision, and returns the units held after it.
func countInWindow(d *Decision, used int64, l *Limit, cost, toEnd int64) int64 {
	*d = Decision{Capacity: l.Requests, Allowed: admits(cost, l.Requests-used)}
	switch {
	case d.Allowed:
		used += cost
	case cost > l.Requests:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(toEnd)
	}

	// A limit that was lowered in mid-window may be below the count.
	d.Remaining = max(0, l.Requests-used)
	if used > 0 {
		d.ResetAfter = wait(toEnd)
	}
	return used
}
