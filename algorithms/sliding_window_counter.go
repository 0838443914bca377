package algorithms

// SlidingWindowCounter weights the count of the previous aligned window by the share of
// it that a window of length W ending now still covers. With e = t mod W it admits iff
// prev*(W-e) + (curr+c)*W <= L*W, on whole numbers. The two
// counts approximate a log in constant space: the previous window's cost is taken as
// spread evenly.
//
// Ticks are microseconds. Where L*W reaches 2^53 they are milliseconds, instants are
// floored to them, and waits stay in microseconds.
//
// State: Last is the last admitted instant, Used the count of its window, Aux
// the count of the window before.
type SlidingWindowCounter struct{}

// Name returns "sliding_window_counter".
func (SlidingWindowCounter) Name() string { return "sliding_window_counter" }

// traits implements described.
func (SlidingWindowCounter) traits() Traits { return Traits{Shape: SlidingCounter} }

// Validate implements Algorithm. It refuses a burst, and a limit whose Requests x Window is
// 2^53 or more in ticks: the weighted count would be rounded.
func (a SlidingWindowCounter) Validate(l Limit) error { return a.check(&l) }

func (a SlidingWindowCounter) check(l *Limit) error {
	if err := l.validateWindow(a.Name()); err != nil {
		return err
	}
	if counterTick(l) != 0 {
		return nil
	}

	// A window of whole milliseconds would be exact with up to a thousand times as many
	// requests, so the remedy depends on the window.
	w := l.micros()
	if w%1000 != 0 && w > 1000 {
		return refuse(a.Name(), l, "requests x window is too large to be exact in microseconds: lower requests to at most %d, "+
			"or make the window a whole number of milliseconds", (maxExact-1)/w)
	}
	ticks := w / min(w, 1000)
	return refuse(a.Name(), l, "requests x window is too large to be exact: lower requests to at most %d", (maxExact-1)/ticks)
}

// counterTick returns the microseconds of a tick for the limit, 0 if none fits.
func counterTick(l *Limit) int64 {
	w := l.micros()
	switch {
	case l.Requests <= (maxExact-1)/w:
		return 1
	case w%1000 == 0 && l.Requests <= (maxExact-1)/(w/1000):
		return 1000
	}
	return 0
}

// Terms returns the requests, the window in ticks, the tick in microseconds, 1 or 1000, and
// the window in microseconds.
func (a SlidingWindowCounter) terms(l Limit) (Terms, error) {
	if err := a.Validate(l); err != nil {
		return Terms{}, err
	}

	tick := counterTick(&l)
	return Terms{l.Requests, l.micros() / tick, tick, l.micros()}, nil
}

// Step implements Algorithm. An admitted check stops counting at the end of the window
// after its own, at which ResetAfter ends.
func (a SlidingWindowCounter) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	if err := a.check(l); err != nil {
		return s, Decision{}, err
	}
	if err := validCheck(cost, at); err != nil {
		return s, Decision{}, err
	}

	var d Decision
	stepCounter(l, &s, &d, cost, at)
	return s, d, nil
}

// stepCounter is the step for a limit and a check that have been checked. It writes the decision and the state in place,
// because both are dear to copy.
func stepCounter(l *Limit, s *State, d *Decision, cost, at int64) {
	// What the window before counts depends on the place in the window. It is added to this
	// window's count, so that exactly as much is free as before.
	if s.ahead(at, l) {
		c := counterAt(*s, l, s.Last)
		*s = State{Last: at, Used: max(s.Used, l.Requests-c.free())}
	}

	now := s.now(at)
	c := counterAt(*s, l, now)
	free := c.free()
	*d = Decision{Capacity: l.Requests, Allowed: admits(cost, free)}
	if cost > 0 && d.Allowed {
		free -= cost
		c.curr += cost
		*s = State{Last: now, Used: c.curr, Aux: c.prev}
	}

	switch {
	case d.Allowed:
	case cost > l.Requests:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(c.admitsAt(cost)*c.tick - at)
	}

	d.Remaining = free
	d.ResetAfter = wait(c.unusedAt()*c.tick - at)
	if c.curr == 0 && c.prev == 0 {
		d.ResetAfter = 0
	}
}

// counter is the state of a sliding window counter at one instant, in ticks.
type counter struct {
	tick       int64 // microseconds
	limit      int64
	window     int64
	start      int64 // of the current window
	elapsed    int64 // e
	prev, curr int64
}

// counterAt returns the state as it is seen at now under the limit.
func counterAt(s State, l *Limit, now int64) counter {
	tick := counterTick(l)
	c := counter{tick: tick, limit: l.Requests, window: l.micros() / tick}
	t, last := now, s.Last
	if tick > 1 {
		t, last = floorDiv(now, tick), floorDiv(s.Last, tick)
	}
	c.elapsed = floorMod(t, c.window)
	c.start = t - c.elapsed

	// The window of the last admitted instant tells how far the counts have moved on: not
	// at all, by one window, or out of sight.
	switch {
	case last >= c.start:
		c.prev, c.curr = s.Aux, s.Used
	case last >= c.start-c.window:
		c.prev = s.Used
	}
	return c
}

// free returns the largest cost admitted now.
func (c counter) free() int64 {
	left := c.window - c.elapsed

	// Only a count of a larger limit before this one can make the product overflow. It is
	// then above L*W by far, so nothing is free.
	if c.prev > c.limit && c.prev > maxExact/left {
		return 0
	}

	return max(0, c.limit-c.curr-ceilDiv(c.prev*left, c.window))
}

// admitsAt returns the first tick that admits a cost denied now, cost <= limit, if
// nothing else is spent.
func (c counter) admitsAt(cost int64) int64 {
	next := c.start + c.window

	// Within the current window: prev's share has to shrink to the spare units. Since the
	// cost is denied, prev is not 0.
	if spare := c.limit - c.curr - cost; spare >= 0 {
		return next - spare*c.window/c.prev
	}

	// In the next window, where this one's count has become the previous one's. It is
	// above limit-cost, so not 0 either.
	return next + c.window - (c.limit-cost)*c.window/c.curr
}

// unusedAt returns the first tick at which nothing counts any more.
func (c counter) unusedAt() int64 {
	if c.curr > 0 {
		return c.start + 2*c.window
	}
	return c.start + c.window
}
