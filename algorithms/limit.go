package algorithms

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bounds within which every algorithm computes exactly, in Go and in Lua. An instant
// and a wait added to it, or a window subtracted, stay below maxExact.
const (
	maxExact  = 1 << 53  // doubles hold every whole number up to here
	maxTicks  = 1 << 50  // longest window or drain, about 35 years of microseconds
	minMicros = -1 << 51 // in the year 1898
	maxMicros = 1 << 52  // in the year 2112

	longestWindow = maxTicks * time.Microsecond
)

// Limit is a budget: Requests units of cost per Window.
type Limit struct {
	// Requests is how many units of cost a window admits, up to 2^53-1. A limit of 0 denies every cost, whatever its burst
	// is: RetryAfter is Never.
	Requests int64
	// Window is a whole number of microseconds, from 1us to about 35 years.
	Window time.Duration
	// Burst is the most units that one instant admits. What 0 and other values mean is
	// the algorithm's BurstRule.
	Burst int64
}

// Capacity returns the largest cost that the limit ever admits at once.
func (l Limit) Capacity() int64 {
	if l.Burst > 0 && l.Requests > 0 {
		return l.Burst
	}
	return l.Requests
}

// String writes the limit as the command line takes it: 60/1m:burst=20.
func (l Limit) String() string {
	s := strconv.FormatInt(l.Requests, 10) + "/" + FormatWindow(l.Window)
	if l.Burst != 0 {
		s += ":burst=" + strconv.FormatInt(l.Burst, 10)
	}
	return s
}

// ErrLimit is wrapped by every refusal of a limit.
var ErrLimit = errors.New("limit refused")

// refuse returns an error that names the limit and, in its message, the number to change.
func refuse(algorithm string, l *Limit, format string, args ...any) error {
	return fmt.Errorf("algorithms: %s:%s: %w: %s", algorithm, *l, ErrLimit, fmt.Sprintf(format, args...))
}

// sound reports whether a limit keeps the conditions that all algorithms share. Every step asks, so it is small enough to be
// inlined. A number below 0 is a large one without its sign.
func (l *Limit) sound() bool {
	return uint64(l.Requests) < maxExact && l.Burst >= 0 &&
		uint64(l.Window-1) < uint64(longestWindow) && l.Window%time.Microsecond == 0
}

// validate checks the conditions on a limit that all algorithms share.
func (l *Limit) validate(algorithm string) error {
	if l.sound() {
		return nil
	}

	switch {
	case l.Requests < 0:
		return refuse(algorithm, l, "requests must not be negative")
	case l.Requests >= maxExact:
		return refuse(algorithm, l, "requests must be below 2^53 to be counted exactly")

	case l.Window < time.Microsecond:
		return refuse(algorithm, l, "the window must be at least 1us")
	case l.Window%time.Microsecond != 0:
		return refuse(algorithm, l, "the window must be a whole number of microseconds")
	case l.Window > longestWindow:
		return refuse(algorithm, l, "the window must be at most %dd", maxTicks/micros(24*time.Hour))

	default:
		return refuse(algorithm, l, "burst must be at least 1")
	}
}

// validateWindow checks the limit of an algorithm that counts in windows.
func (l *Limit) validateWindow(algorithm string) error {
	if l.Burst != 0 {
		return refuse(algorithm, l, "burst belongs to buckets: leave it out, or take a bucket, such as token_bucket")
	}
	return l.validate(algorithm)
}

// checkWindow checks a check to an algorithm that counts in windows.
func (l *Limit) checkWindow(algorithm string, cost, at int64) error {
	if l.Burst != 0 || !l.sound() {
		if err := l.validateWindow(algorithm); err != nil {
			return err
		}
	}
	return validCheck(cost, at)
}

// micros returns the window in microseconds.
func (l *Limit) micros() int64 { return micros(l.Window) }

// micros returns a duration in microseconds, rounded towards zero.
func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// windowUnits are the units of a written window, the largest first: FormatWindow takes
// the first that divides.
var windowUnits = []struct {
	name string
	unit time.Duration
}{
	{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond},
}

// ParseWindow reads a duration written as whole numbers with the units us, ms,
// s, m, h and d: 1m, 250ms, 1h30m, 7d. It does not check the bounds of a limit's window.
func ParseWindow(s string) (time.Duration, error) {
	var total time.Duration
	for rest := s; ; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		letters := len(rest) - digits - len(strings.TrimLeft(rest[digits:], "abcdefghijklmnopqrstuvwxyz"))
		d, err := parseSpan(rest[:digits], rest[digits:digits+letters])
		if err != nil {
			return 0, fmt.Errorf("algorithms: window %q: %w", s, err)
		}

		// 292 years are the longest Duration.
		if d > math.MaxInt64-total {
			return 0, fmt.Errorf("algorithms: window %q: %w", s, errSpanTooLong)
		}
		total += d

		if rest = rest[digits+letters:]; rest == "" {
			return total, nil
		}
	}
}

var (
	errSpan        = errors.New("want whole numbers with units us, ms, s, m, h or d, such as 1m or 250ms")
	errSpanTooLong = errors.New("longer than 292 years")
)

func parseSpan(number, unit string) (time.Duration, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errSpanTooLong
	}
	if err != nil {
		return 0, errSpan
	}

	for _, u := range windowUnits {
		if u.name != unit {
			continue
		}
		if n > math.MaxInt64/int64(u.unit) {
			return 0, errSpanTooLong
		}
		return time.Duration(n) * u.unit, nil
	}

	return 0, errSpan
}

// FormatWindow writes d as ParseWindow reads it, with the largest unit that divides it:
// 60s is 1m, 90s is 90s. A duration that is no whole number of microseconds, which no
// limit has, is written as time.Duration writes it.
func FormatWindow(d time.Duration) string {
	for _, u := range windowUnits {
		if d != 0 && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return d.String()
}
