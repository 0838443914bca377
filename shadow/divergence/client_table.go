package divergence

import (
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// clientTable counts the clients of least hash among those of one stripe.
type clientTable struct{ sampleTable[clientTally] }

// clientTally is a Client between two snapshots. Counts of that time fit into 32 bits.
type clientTally struct {
	counts [2]clientStep // by the enforced role
	loser  *loser        // nil before the first loss: most clients never lose anything
}

// loser has the name of a client that loses requests, and why it does.
type loser struct {
	name   string
	causes ClientCauses
}

// clientStep is what evaluations add to a ClientCount.
type clientStep struct{ requests, allowed, lost, gained uint32 }

// clientSteps are what one evaluation adds, by outcome: nothing without two answers.
var clientSteps = [outcomes]clientStep{
	AgreeAllow: {1, 1, 0, 0}, AgreeDeny: {1, 0, 0, 0}, NewlyDenied: {1, 1, 1, 0}, NewlyAllowed: {1, 0, 0, 1},
	ExpectedDenied: {1, 1, 0, 0}, ExpectedAllowed: {1, 0, 0, 0},
}

// protectedSteps are the same for protected keys. Protection knows no exception: a declared difference hurts the client
// just the same.
var protectedSteps = func() [outcomes]clientStep {
	steps := clientSteps
	steps[ExpectedDenied], steps[ExpectedAllowed] = steps[NewlyDenied], steps[NewlyAllowed]
	return steps
}()

// answered reports whether the outcome has two answers.
func (s *clientStep) answered() bool { return s.requests > 0 }

// noCause is the cause of a loss where none is guessed.
const noCause Cause = -1

// count counts a comparison of the key, and why its client lost it, if it did.
func (t *clientTable) count(by *sampling, hash uint64, key string, enforced algorithms.Role, more *clientStep, why Cause) {
	client := t.of(hash, by)
	if client == nil {
		return
	}
	c := &client.counts[enforced]
	c.requests += more.requests
	c.allowed += more.allowed
	c.lost += more.lost
	c.gained += more.gained

	// The key may be part of a request's buffer.
	if more.lost > 0 {
		if client.loser == nil {
			client.loser = &loser{name: strings.Clone(key)}
		}
		if why != noCause {
			client.loser.causes[why]++
		}
	}
}

// take returns the counts and begins again.
func (t *clientTable) take() Clients {
	return Clients{t.below, takeSample(&t.sampleTable, clientOf)}
}

// clientOf makes the Client that a ledger stores of what a table has counted.
func clientOf(place uint64, t *clientTally) Client {
	c := Client{Hash: place}
	if t.loser != nil {
		c.Name = t.loser.name
		if t.loser.causes != (ClientCauses{}) {
			c.Causes = &t.loser.causes
		}
	}
	for role, n := range t.counts {
		c.Counts[role] = ClientCount{int64(n.requests), int64(n.allowed), int64(n.lost), int64(n.gained)}
	}
	return c
}
