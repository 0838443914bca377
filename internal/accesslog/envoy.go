package accesslog

import (
	"bytes"
	"strings"
)

// cutEnvoy cuts lines of Envoy's default text, and of Istio's, which is longer:
//
//	[time] "request" status flags ... "X-Forwarded-For" "agent" "request id" "authority" "upstream" ...
//
// Source: Envoy, "Access logging", default format string; Istio, "Envoy Access Logs".
func cutEnvoy(line []byte, l *textLine) (instant string, ok bool) {
	stamp, rest, found := bytes.Cut(line, []byte(`] "`))
	if !found || len(stamp) == 0 || stamp[0] != '[' {
		return "", false
	}
	if _, ok := cutTimestamp(stamp[1:]); !ok {
		return "", false
	}
	request, rest, closed := cutQuoted(rest)
	if !closed || !startsWithStatus(rest) {
		return "", false
	}

	// Istio has a text more between the status and X-Forwarded-For.
	quoted := quotedTexts(rest)
	if len(quoted) < 5 {
		return "", false
	}
	quoted = quoted[len(quoted)-5:]

	l.set("request", unescape(string(request)))
	l.request(unescape(string(request)))
	l.put("status", string(rest[1:4]))
	l.put("headers.x-forwarded-for", quoted[0])
	l.put("headers.user-agent", quoted[1])
	l.put("headers.x-request-id", quoted[2])
	l.put("host", quoted[3])

	// Istio has the peer among the words behind the texts: cluster, two addresses of its own, the peer. Without it the last entry of
	// X-Forwarded-For is the peer, as Envoy at an edge adds it.
	if behind := strings.Fields(string(rest[bytes.LastIndexByte(rest, '"')+1:])); len(behind) > 3 {
		if peer, ok := connected(behind[3]); ok {
			l.set("ip", peer)
			return string(stamp[1:]), true
		}
	}
	l.put("ip", strings.TrimSpace(quoted[0][strings.LastIndexByte(quoted[0], ',')+1:]))
	return string(stamp[1:]), true
}
