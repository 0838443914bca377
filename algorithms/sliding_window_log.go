package algorithms

import (
	"encoding/binary"
	"errors"
	"math"
	"sort"
)

// SlidingWindowLog remembers every admitted check and admits while the cost
// admitted in (t-W, t] stays within the limit: exact for every interval, at the
// price of an entry per admitted check.
//
// State: Last is the newest entry's instant, Used the cost of all entries kept.
type SlidingWindowLog struct {
	// MaxEntries bounds the entries of one key; a check that would need more is
	// answered with ErrLogFull. 0 means DefaultMaxEntries, negative no bound.
	MaxEntries int
}

// DefaultMaxEntries of a log take 160 kB in memory and up to 1.6 MB in Redis.
const DefaultMaxEntries = 10_000

// maxCopied is the most entries of a log that a side which begins takes over: a copy must not hold up the request.
const maxCopied = 1000

// LogEntryBytes is what Redis needs at most for an entry of a log of more than 128 entries, as a test measures it: the
// member's text, its node in a skip list, and its place in a hash table. Shorter logs take less.
const LogEntryBytes = 160

// Unbounded returns the algorithm without the bound on what one key may keep, for a
// replay, whose log bounds that already. An algorithm without a bound is returned as
// it is.
func Unbounded(a Algorithm) Algorithm {
	if _, ok := a.(SlidingWindowLog); ok {
		return SlidingWindowLog{MaxEntries: -1}
	}
	return a
}

// Log holds what the three numbers of a State cannot: a log's entries, oldest first.
type Log struct {
	entries []logEntry
	before  int64 // the total before the first entry
}

// logEntry is one admitted check. Its total is the cost of all checks up to and with it,
// so what any stretch of a log has cost is one subtraction, and no check walks over entries.
// Totals wrap, their differences are exact: they are below 2^53.
type logEntry struct{ at, total int64 }

// Name returns "sliding_window_log".
func (SlidingWindowLog) Name() string { return "sliding_window_log" }

// traits implements described.
func (SlidingWindowLog) traits() Traits { return Traits{Shape: SlidingLog} }

// Validate implements Algorithm. A burst is refused: the limit may be spent at once.
func (a SlidingWindowLog) Validate(l Limit) error { return l.validateWindow(a.Name()) }

// Terms returns the requests, the window in microseconds, the most entries of a key, and the
// window again.
func (a SlidingWindowLog) terms(l Limit) (Terms, error) {
	return Terms{l.Requests, l.micros(), int64(a.maxEntries()), l.micros()}, a.Validate(l)
}

// Step implements Algorithm. It takes time in proportion to the logarithm of the entries.
func (a SlidingWindowLog) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	if err := l.checkWindow(a.Name(), cost, at); err != nil {
		return s, Decision{}, err
	}
	given := s

	// All that counts becomes one entry: to move each of them would take too long.
	if s.ahead(at, l) {
		s = s.moveLog(at, l)
	}

	now := s.now(at)
	live := s.Log.since(now - l.micros())
	used := live.cost()
	d := Decision{Capacity: l.Requests, Allowed: admits(cost, l.Requests-used)}

	last := s.Last
	switch {
	case d.Allowed && cost > 0:
		// An error, not a denial: the limit has room, and the operator has to know that
		// the algorithm does not fit this traffic.
		if len(live.entries) >= a.maxEntries() {
			return given, Decision{}, ErrLogFull
		}
		used += cost
		last = now
		s = State{Last: last, Used: used, Log: s.Log.add(live, now, cost)}
	case d.Allowed: // a peek leaves no trace: dead entries stay until the next admitted check
	case cost > l.Requests:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(live.freedAt(used+cost-l.Requests) + l.micros() - at)
	}

	d.Remaining = max(0, l.Requests-used)
	if used > 0 {
		d.ResetAfter = wait(last + l.micros() - at)
	}
	return s, d, nil
}

// maxEntries returns the bound in force. "No bound" is still a number, which the Lua
// twin is given as a term.
func (a SlidingWindowLog) maxEntries() int {
	switch {
	case a.MaxEntries < 0:
		return math.MaxInt32
	case a.MaxEntries == 0:
		return DefaultMaxEntries
	}
	return a.MaxEntries
}

// since returns the part of the log that is younger than cutoff. An entry of exactly the
// cutoff has left the window.
func (g *Log) since(cutoff int64) Log {
	if g == nil {
		return Log{}
	}

	first := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].at > cutoff })
	before := g.before
	if first > 0 {
		before = g.entries[first-1].total
	}
	return Log{entries: g.entries[first:], before: before}
}

func (g Log) cost() int64 { return g.end() - g.before }

// end returns the total behind the last entry.
func (g Log) end() int64 {
	if len(g.entries) == 0 {
		return g.before
	}
	return g.entries[len(g.entries)-1].total
}

// add adds an entry behind the live ones and forgets the others. It copies within the
// same array once half of that is free, so a key takes room for the entries it holds,
// not for all it has ever had, at a constant cost per check on average.
func (g *Log) add(live Log, at, cost int64) *Log {
	if g == nil {
		g = &Log{}
	}

	total := live.end() + cost
	if dead := len(g.entries) - len(live.entries); dead > len(live.entries) {
		live.entries = g.entries[:copy(g.entries, live.entries)]
	}
	g.entries = append(live.entries, logEntry{at, total})
	g.before = live.before
	return g
}

// freedAt returns the instant of the entry at whose leaving, oldest first, at least need
// units have left the window.
func (g Log) freedAt(need int64) int64 {
	first := sort.Search(len(g.entries)-1, func(i int) bool { return g.entries[i].total-g.before >= need })
	return g.entries[first].at
}

// settle gives an entry its final cost. Those of one instant are known by their cost alone: which of two that are alike is changed
// makes no difference.
func (g *Log) settle(at, charged, final int64) bool {
	i := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].at >= at })
	before := g.before
	if i > 0 {
		before = g.entries[i-1].total
	}
	for ; i < len(g.entries) && g.entries[i].at == at; i++ {
		if g.entries[i].total-before == charged {
			break
		}
		before = g.entries[i].total
	}
	if i == len(g.entries) || g.entries[i].at != at {
		return false
	}

	for j := i; j < len(g.entries); j++ {
		g.entries[j].total += final - charged
	}
	if final == 0 {
		g.entries = append(g.entries[:i], g.entries[i+1:]...)
	}
	return true
}

// MarshalBinary implements encoding.BinaryMarshaler, for a program that keeps states over its own end.
func (g *Log) MarshalBinary() ([]byte, error) {
	text := binary.AppendVarint(nil, g.before)
	for _, e := range g.entries {
		text = binary.AppendVarint(binary.AppendVarint(text, e.at), e.total)
	}
	return text, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (g *Log) UnmarshalBinary(text []byte) error {
	var numbers []int64
	for len(text) > 0 {
		n, size := binary.Varint(text)
		if size <= 0 {
			return errLog
		}
		numbers, text = append(numbers, n), text[size:]
	}
	if len(numbers)%2 == 0 {
		return errLog
	}

	*g = Log{before: numbers[0]}
	for i := 1; i < len(numbers); i += 2 {
		g.entries = append(g.entries, logEntry{numbers[i], numbers[i+1]})
	}
	return nil
}

var errLog = errors.New("algorithms: sliding_window_log: the entries of a log cannot be read")
