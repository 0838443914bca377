package retry

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// quota is what fields about a limit say.
type quota struct {
	remaining float64       // infinite if the fields do not say it
	reset     time.Duration // until there is more; 0 if the fields do not say it
}

// unknown is a quota of which nothing is known.
var unknown = quota{remaining: math.Inf(1)}

// tighter returns the quota that holds a request back longer: with the least remaining and, of these, the longest reset.
func (q quota) tighter(than quota) quota {
	if q.remaining < than.remaining || q.remaining == than.remaining && q.reset > than.reset {
		return q
	}
	return than
}

// resets are the names of the fields with a time, and with what remains, of the styles that have a field for each.
var resets = [][2]string{
	{"Ratelimit-Reset", "Ratelimit-Remaining"},       // drafts up to 06
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining"},   // GitHub, Envoy, Reddit, chi
	{"X-Rate-Limit-Reset", "X-Rate-Limit-Remaining"}, // X, formerly Twitter
}

// quotaOf returns the quota of a response. The newest style that it has counts: a server that sends several says the same in
// each.
func quotaOf(h http.Header) (quota, bool) {
	if q, ok := structured(h["Ratelimit"]); ok {
		return q, true
	}

	for _, names := range resets {
		// Without a time the field is no answer to when, so the next style may be.
		q, found := unknown, false
		for _, line := range first(h[names[0]]) {
			if wait, ok := resetOf(line, h); ok {
				q.reset, found = max(q.reset, wait), true
			}
		}
		if !found {
			continue
		}

		// Some servers write what remains with a fraction.
		for _, line := range first(h[names[1]]) {
			if remaining, ok := quantity(line); ok {
				q.remaining = min(q.remaining, remaining.Seconds())
			}
		}
		return q, true
	}
	return unknown, false
}

// Numbers from which on a reset is an instant: as seconds from now, the first would be ten years, and as seconds since 1970,
// the second would be the year 11963. In their own units both are at the end of 1979.
const (
	isInstant      = 315_360_000 * time.Second
	isMilliseconds = 315_360_000_000
)

// resetOf reads the time of a reset, which servers send in four forms under one name: as seconds from now, as seconds and as
// milliseconds since 1970, and as a date of RFC 3339, which may lack its seconds.
func resetOf(line string, h http.Header) (time.Duration, bool) {
	text := strings.TrimSpace(bounded(line))
	wait, ok := quantity(text)
	switch {
	case ok && wait < isInstant:
		return wait, true

	// far is also what milliseconds are as seconds.
	case ok && wait < far:
		at := time.Unix(0, 0).Add(wait)
		return max(at.Sub(clock(h)), 0), true
	case ok:
		return milliseconds(text, h), true
	}

	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return max(at.Sub(clock(h)), 0), true
		}
	}
	return 0, false
}

// milliseconds returns the wait until an instant in milliseconds since 1970, far if it is too large for that.
func milliseconds(text string, h http.Header) time.Duration {
	whole, _, _ := strings.Cut(text, ".")
	if len(whole) > len("9999999999999") {
		return far
	}

	// At most 13 digits, so the number cannot overflow.
	var at int64
	for _, digit := range []byte(whole) {
		at = at*10 + int64(digit-'0')
	}
	if at < isMilliseconds {
		return far
	}
	// Rounded up, because a fraction was cut off.
	return max(time.UnixMilli(at+1).Sub(clock(h)), 0)
}
