package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// setFields writes the response fields: RateLimit-Policy and RateLimit as far as
// the enforced side's numbers are known, Retry-After on a denial that a wait can
// end.
func setFields(h http.Header, d shadow.Decision) {
	if !d.Allowed && d.RetryAfter > 0 && d.RetryAfter != algorithms.Never {
		h["Retry-After"] = []string{strconv.FormatInt(seconds(d.RetryAfter), 10)}
	}
	if d.Policy == "" || d.Remaining < 0 {
		return
	}
	b := make([]byte, 0, 128)
	b = appendName(b, d.Policy)
	if d.Window >= time.Second && d.Quota > 0 {
		b = strconv.AppendInt(append(b, ";q="...), d.Quota, 10)
		b = strconv.AppendInt(append(b, ";w="...), seconds(d.Window), 10)
		h["Ratelimit-Policy"] = []string{string(b)}
	}
	b = appendName(b[:0], d.Policy)
	b = strconv.AppendInt(append(b, ";r="...), d.Remaining, 10)
	b = strconv.AppendInt(append(b, ";t="...), seconds(more(d)), 10)
	h["Ratelimit"] = []string{string(b)}
}

// appendName writes a policy's name as a String of RFC 9651; names have no
// character that must be escaped.
func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"')
}

// more returns how long until there is more quota.
func more(d shadow.Decision) time.Duration {
	if !d.Allowed && d.RetryAfter != algorithms.Never {
		return d.RetryAfter
	}
	return d.ResetAfter
}

// seconds rounds up, for a client that comes back too early is denied again. What
// a limiter of the user's own says may be less than nothing.
func seconds(d time.Duration) int64 {
	whole := int64(max(d, 0) / time.Second)
	if d > 0 && d%time.Second > 0 {
		whole++
	}
	return whole
}
