package algorithms

// SlidingWindowCounter weights the count of the previous aligned window by the
// share of it that a window of length W ending now still covers. With e = t mod W
// it admits iff prev*(W-e) + (curr+c)*W <= L*W, on whole numbers. Denied cost is
// not counted.
//
// Ticks are microseconds; where L*W reaches 2^53 they are milliseconds, instants
// floored to them, and waits stay in microseconds.
//
// State: Last is the last admitted instant, Used the count of its window, Aux
// the count of the window before.
type SlidingWindowCounter struct{}

func (SlidingWindowCounter) Name() string { return "sliding_window_counter" }

// Traits implements Described.
func (SlidingWindowCounter) Traits() Traits { return Traits{Shape: SlidingCounter} }

func (a SlidingWindowCounter) Validate(l Limit) error {
	if err := l.validateWindow(a.Name()); err != nil {
		return err
	}
	if counterTick(l) != 0 {
		return nil
	}
	if w := l.micros(); w%1000 != 0 && w > 1000 {
		return refuse(a.Name(), l, "requests x window is too large to be exact in microseconds: lower requests to at most %d, or make the window a whole number of milliseconds", (maxExact-1)/w)
	} else {
		tick := min(w, 1000)
		return refuse(a.Name(), l, "requests x window is too large to be exact: lower requests to at most %d", (maxExact-1)/(w/tick))
	}
}

// counterTick returns the microseconds of a tick for the limit, 0 if none fits.
func counterTick(l Limit) int64 {
	w := l.micros()
	switch {
	case l.Requests <= (maxExact-1)/w:
		return 1
	case w%1000 == 0 && l.Requests <= (maxExact-1)/(w/1000):
		return 1000
	}
	return 0
}

func (a SlidingWindowCounter) Terms(l Limit) (Terms, error) {
	if err := a.Validate(l); err != nil {
		return Terms{}, err
	}
	tick := counterTick(l)
	return Terms{l.Requests, l.micros() / tick, tick}, nil
}

func (a SlidingWindowCounter) Step(s State, l Limit, cost, at int64) (State, Decision, error) {
	if err := a.Validate(l); err != nil {
		return s, Decision{}, err
	}
	if err := checkCharge(cost, at); err != nil {
		return s, Decision{}, err
	}
	now := s.now(at)
	c := counterAt(s, l, now)
	d := Decision{Limit: l.Requests, Allowed: admits(cost, c.free())}
	switch {
	case d.Allowed && cost > 0:
		c.curr += cost
		s = State{Last: now, Used: c.curr, Aux: c.prev}
	case d.Allowed:
	case cost > l.Requests:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(c.admitsAt(cost)*c.tick - at)
	}
	d.Remaining = c.free()
	d.ResetAfter = wait(c.unusedAt()*c.tick - at)
	if c.curr == 0 && c.prev == 0 {
		d.ResetAfter = 0
	}
	return s, d, nil
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

func counterAt(s State, l Limit, now int64) counter {
	tick := counterTick(l)
	c := counter{tick: tick, limit: l.Requests, window: l.micros() / tick}
	t := floorDiv(now, tick)
	c.elapsed = floorMod(t, c.window)
	c.start = t - c.elapsed
	switch last := floorDiv(s.Last, tick); {
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
	if c.prev > c.limit && c.prev > maxExact/left {
		return 0 // of a larger limit before: the product would not fit
	}
	return max(0, c.limit-c.curr-ceilDiv(c.prev*left, c.window))
}

// admitsAt returns the first tick that admits a cost denied now, cost <= limit.
func (c counter) admitsAt(cost int64) int64 {
	next := c.start + c.window
	if spare := c.limit - c.curr - cost; spare >= 0 { // then it is prev that denies, and not 0
		return next - spare*c.window/c.prev
	}
	return next + c.window - (c.limit-cost)*c.window/c.curr
}

// unusedAt returns the first tick at which nothing counts any more.
func (c counter) unusedAt() int64 {
	if c.curr > 0 {
		return c.start + 2*c.window
	}
	return c.start + c.window
}
