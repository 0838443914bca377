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
	name   string
}

// count counts a comparison of the key, and whether its client lost it.
func (t *clientTable) count(hash uint64, key string, enforced algorithms.Role, allowed, lost bool, keep int) {
	client := t.of(hash, keep)
	if client == nil {
		return
	}
	c := &client.counts[enforced]
	c.requests++
	if allowed {
		c.allowed++
	}

	// Most clients never lose anything, so names cost nothing for them. The key may be part of a request's buffer.
	if lost {
		c.lost++
		if client.name == "" {
			client.name = strings.Clone(key)
		}
	}
}

// take returns the counts and begins again.
func (t *clientTable) take() Clients {
	return Clients{t.below, takeSample(&t.sampleTable, clientOf)}
}

func clientOf(hash uint64, t *clientTally) Client {
	c := Client{Hash: hash, Name: t.name}
	for role, n := range t.counts {
		c.Counts[role] = ClientCount{int64(n.requests), int64(n.allowed), int64(n.lost)}
	}
	return c
}
