package algorithms

// FixedWindowAnchored is the INCR and EXPIRE limiter found in the wild: a window
// opens at the first admitted check that finds none open and lasts W.
//
// State: Last is the last admitted instant, Used the count of its window, Aux the
// instant at which that window opened.
type FixedWindowAnchored struct{}

// Name returns "fixed_window_anchored".
func (FixedWindowAnchored) Name() string { return "fixed_window_anchored" }

// traits implements described.
func (FixedWindowAnchored) traits() Traits { return Traits{Shape: AnchoredWindow} }

// Validate implements Algorithm. A burst is refused: a window admits its limit at once.
func (a FixedWindowAnchored) Validate(l Limit) error { return l.validateWindow(a.Name()) }

// Terms returns the requests, the window in microseconds, 1, and the window again.
func (a FixedWindowAnchored) terms(l Limit) (Terms, error) {
	return Terms{l.Requests, l.micros(), 1, l.micros()}, a.Validate(l)
}

// Step implements Algorithm. RetryAfter and ResetAfter end with the window that is open.
func (a FixedWindowAnchored) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	if err := l.checkWindow(a.Name(), cost, at); err != nil {
		return s, Decision{}, err
	}

	// The window moves with its last check, so it is open for as long as it was.
	if s.ahead(at, l) {
		s.Aux -= s.Last - at
		s.Last = at
	}

	// A check that finds no window open would open one now. It is judged as if it had:
	// whether the window is kept depends on its being admitted.
	now := s.now(at)
	start, used := s.Aux, s.Used
	if used == 0 || now-start >= l.micros() {
		start, used = now, 0
	}

	var d Decision
	used = countInWindow(&d, used, l, cost, start+l.micros()-at)
	if cost > 0 && d.Allowed {
		s = State{Last: now, Used: used, Aux: start}
	}
	return s, d, nil
}
