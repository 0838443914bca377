package divergence

import (
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// clientTable counts the clients of least hash among those of one stripe.
type clientTable struct{ sampleTable[clientTally] }

// clientTally is a Client between two snapshots. Counts of that time fit into 32 bits.
type clientTally struct {
	counts [2]struct{ requests, allowed, lost uint32 }
	loser  *loser // nil before the first loss: most clients never lose anything
}

// loser is what is known of a client that loses requests.
type loser struct {
	name   string
	causes ClientCauses
}

// loss is what a comparison took from its client, and why; the cause is noCause where none is guessed.
type loss struct {
	lost  bool
	cause Cause
}

const noCause Cause = -1

// count counts a comparison of the key, and whether its client lost it.
func (t *clientTable) count(hash uint64, key string, enforced algorithms.Role, allowed bool, l loss, keep int) {
	client := t.of(hash, keep)
	if client == nil {
		return
	}
	c := &client.counts[enforced]
	c.requests++
	if allowed {
		c.allowed++
	}

	// The key may be part of a request's buffer.
	if l.lost {
		c.lost++
		if client.loser == nil {
			client.loser = &loser{name: strings.Clone(key)}
		}
		if l.cause != noCause {
			client.loser.causes[l.cause]++
		}
	}
}

// take returns the counts and begins again.
func (t *clientTable) take() Clients {
	return Clients{t.below, takeSample(&t.sampleTable, clientOf)}
}

func clientOf(hash uint64, t *clientTally) Client {
	c := Client{Hash: hash}
	if t.loser != nil {
		c.Name = t.loser.name
		if t.loser.causes != (ClientCauses{}) {
			c.Causes = &t.loser.causes
		}
	}
	for role, n := range t.counts {
		c.Counts[role] = ClientCount{int64(n.requests), int64(n.allowed), int64(n.lost)}
	}
	return c
}
