package retry

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// far is a time that no client waits for.
const far time.Duration = math.MaxInt64

// refusal reports whether a response says that the request may come again later, and how long the server asks to wait: 0 if
// it does not say.
func refusal(response *http.Response) (told time.Duration, refused bool) {
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden:
	default:
		return 0, false
	}

	after, said := retryAfter(response.Header)
	quota, known := quotaOf(response.Header)
	usedUp := known && quota.remaining == 0
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		// Retry-After goes before the other fields, as their drafts say. The denied request may cost more than what remains.
		if !said {
			after = quota.reset
		}
		return after, true

	case http.StatusServiceUnavailable:
		// Where something remains, the limit is not why the service is unavailable.
		if !said && usedUp {
			after = quota.reset
		}
		return after, true
	}

	// Most 403 are for good. GitHub's, when a limit is used up, have the fields.
	if !usedUp || quota.reset == 0 {
		return 0, false
	}
	if !said {
		after = quota.reset
	}
	return after, true
}

// retryAfter returns the time of Retry-After, and whether it has one that can be read. Of several lines the longest holds.
func retryAfter(h http.Header) (after time.Duration, said bool) {
	// A proxy may have added a line of its own. The client must obey both, so it obeys the longer.
	for _, line := range first(h["Retry-After"]) {
		wait, ok := quantity(line)
		if !ok {
			at, err := http.ParseTime(strings.TrimSpace(bounded(line)))
			if err != nil {
				continue
			}
			wait = max(at.Sub(clock(h)), 0)
		}
		after, said = max(after, wait), true
	}
	return after, said
}

// clock returns the server's clock: the Date of its response or, without one, this machine's. A Date is up to a second old,
// so a wait until an instant is never too short for it.
func clock(h http.Header) time.Time {
	if dates := h["Date"]; len(dates) > 0 {
		if at, err := http.ParseTime(bounded(dates[0])); err == nil {
			return at
		}
	}
	return time.Now()
}

// Bounds of reading, since a hostile server may send fields of any length: lines of a field, bytes of a line, and
// entries of a list.
const (
	mostLines   = 8
	mostBytes   = 4096
	mostEntries = 64
)

// first and bounded keep a hostile answer from costing more than it is worth.
func first(lines []string) []string { return lines[:min(len(lines), mostLines)] }

func bounded(line string) string { return line[:min(len(line), mostBytes)] }

// quantity reads a time in seconds, with or without a fraction. Anything else, such as a negative one, is none. One that is too
// large for a Duration is far.
func quantity(text string) (time.Duration, bool) {
	cut := len(text) > mostBytes
	text = strings.TrimSpace(bounded(text))
	whole, fraction, _ := strings.Cut(text, ".")
	if whole == "" || !digits(whole) || !digits(fraction) {
		return 0, false
	}

	// The rest may be any number: too late is better than too early.
	if cut {
		return far, true
	}

	// Number by number, because a parser of integers would refuse a number that is too large, which is a long time and not none.
	var seconds time.Duration
	for _, digit := range []byte(whole) {
		seconds = seconds*10 + time.Duration(digit-'0')
		if seconds >= far/time.Second {
			return far, true
		}
	}

	// Nine digits are nanoseconds. A client must not come too early, so any further digit rounds up.
	nanos, unit := time.Duration(0), 100*time.Millisecond
	for _, digit := range []byte(fraction) {
		if unit == 0 && digit > '0' {
			nanos++
			break
		}
		nanos += unit * time.Duration(digit-'0')
		unit /= 10
	}
	return seconds*time.Second + nanos, true
}

func digits(text string) bool { return strings.Trim(text, "0123456789") == "" }
