package limits

import (
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// DebugField is the response field that Debug's text belongs into.
const DebugField = "Shadowlimit-Debug"

// Debug writes a decision for operators, as a Dictionary of RFC 9651, with both sides. Clients must not see it.
func Debug(d shadow.Decision) string {
	if d.Policy == "" {
		return "policy=none"
	}

	var b strings.Builder
	fmt.Fprintf(&b, "policy=%q, enforced=%s, allowed=%s", d.Policy, d.Enforced, structuredBool(d.Allowed))
	if d.Fallback {
		b.WriteString(", fallback")
	}

	fmt.Fprintf(&b, ", %s=", d.Enforced.Other())
	if o := d.Unenforced(); o.Status == algorithms.Judged {
		fmt.Fprintf(&b, "%s;remaining=%d", structuredBool(o.Decision.Allowed), o.Decision.Remaining)
	} else {
		b.WriteString("none") // skipped, deferred or failed: the metrics say which
	}

	return b.String()
}

// structuredBool writes a Boolean of RFC 9651.
func structuredBool(v bool) string {
	if v {
		return "?1"
	}
	return "?0"
}
