package integration

import (
	"context"
	"sync"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// renewAfter is how many checks one pair judges before the next one follows it. They use far fewer scripts than the 500 that
// a server keeps.
const renewAfter = 1000

// renewed is a pair that forgets now and then which scripts the server has. Redis from 7.4 on, and Valkey from 8.0 on, keep only
// the 500 scripts that were used last. Random traces use more, and a script that is sent again changes the order of one key's
// checks in a batch, which the oracle does not know.
type renewed struct {
	make func() *lua.Pair

	mu     sync.Mutex
	pair   *lua.Pair
	judged int // by pair
}

// Evaluate implements algorithms.Pair.
func (r *renewed) Evaluate(ctx context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
	return r.next(len(checks)).Evaluate(ctx, checks, into)
}

// Settle implements algorithms.Settler.
func (r *renewed) Settle(ctx context.Context, list []algorithms.Settlement, into [][2]algorithms.Settled) error {
	return r.next(len(list)).Settle(ctx, list, into)
}

// next returns the pair for so many checks.
func (r *renewed) next(checks int) *lua.Pair {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pair == nil || r.judged >= renewAfter {
		r.pair, r.judged = r.make(), 0
	}
	r.judged += checks
	return r.pair
}
