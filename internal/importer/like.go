package importer

import (
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// likes are peers without an importer: their limits stand in programs, or in few lines. Each has the policy that decides like it, in the
// short form with the peer's own names. docs/import.md has where it differs.
var likes = []struct{ peer, limiter, key string }{
	{"express-rate-limit", "fixed_window_anchored:LIMIT/WINDOWMS", "request.ip"},
	{"rack-attack", "fixed_window:LIMIT/PERIOD", "what the block of throttle returns"},
	{"spring-cloud-gateway", "token_bucket:REPLENISHRATE/1s:burst=BURSTCAPACITY", "request.user"},
	{"apisix", "fixed_window_anchored:COUNT/TIME_WINDOW for limit-count, token_bucket:RATE/1s:burst=BURST+1 for limit-req with nodelay", "request.ip"},
	{"bucket4j", "token_bucket:TOKENS/PERIOD:burst=CAPACITY for refillGreedy", "what each bucket is of"},
	{"caddy", "sliding_window_log:EVENTS/WINDOW", "request.ip"},
}

// NoImporter says of a peer that is none of Peers what to do instead.
func NoImporter(peer string) (why, remedy string) {
	why = fmt.Sprintf("no importer for %q", peer)
	for _, l := range likes {
		if len(peer) > 2 && strings.HasPrefix(l.peer, strings.ToLower(peer)) {
			return why, fmt.Sprintf("write a policy by hand with %s, and the key: %s; docs/import.md says where it differs", l.limiter, l.key)
		}
	}
	return why, humanize.Remedy(peer, Peers())
}
