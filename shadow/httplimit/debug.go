package httplimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// debug words a decision for operators, as a dictionary of RFC 9651.
func debug(d shadow.Decision) string {
	if d.Policy == "" {
		return "policy=none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "policy=%q, enforced=%s, allowed=%s", d.Policy, d.Enforced, boolean(d.Allowed))
	if d.Fallback {
		b.WriteString(", fallback")
	}
	fmt.Fprintf(&b, ", %s=", d.Enforced.Other())
	if o := d.Unenforced; o.Status != algorithms.Judged {
		b.WriteString("none") // not judged, behind the request, or failed: that is in the metrics
	} else {
		fmt.Fprintf(&b, "%s;remaining=%d", boolean(o.Decision.Allowed), o.Decision.Remaining)
	}
	return b.String()
}

// boolean writes a Boolean of RFC 9651.
func boolean(v bool) string {
	if v {
		return "?1"
	}
	return "?0"
}

func formatSeconds(d time.Duration) string { return strconv.FormatInt(seconds(d), 10) }
