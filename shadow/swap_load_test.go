package shadow_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// tally counts what clients were answered.
type tally struct {
	users           [loadUsers]atomic.Int64 // admitted
	admitted, other atomic.Int64            // of all users: 200; neither 200 nor 429
	served          atomic.Int64            // by the handler behind the middleware
	compared        [2]atomic.Int64         // by the role enforced
}

const (
	loadClients = 8
	loadEach    = 60 // requests of a client
	loadUsers   = 10
	loadSwap    = 20 // of a client's requests to a swap
)

// ask sends a request of a user.
func (c *tally) ask(h http.Handler, user int) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User", fmt.Sprint("user ", user))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	switch w.Code {
	case http.StatusOK:
		c.users[user].Add(1)
		c.admitted.Add(1)
	case http.StatusTooManyRequests:
	default:
		c.other.Add(1)
	}
}

// load has clients send at one instant while the stage moves, and waits for them.
func (c *tally) load(t *testing.T, sides [2]algorithms.Side) {
	s := newSwapper(t, sides, shadow.Config{
		Clock:    func() time.Time { return swapStart },
		Observer: func(of shadow.Comparison) { c.compared[of.Enforced].Add(1) },
	})

	handler := httplimit.New(s.Harness, httplimit.Config{Identify: func(r *http.Request, p *policies.Request) {
		p.User, p.Size = r.Header.Get("X-User"), 1
	}})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.served.Add(1) }))
	swaps := make(chan struct{})
	var clients, mover sync.WaitGroup
	mover.Go(func() {
		moves := 0
		for range swaps {
			s.move([]float64{50, 100, 0, 0}[moves%4])
			c.ask(handler, moves%loadUsers) // so that every stage has a request at least
			moves++
		}
	})

	for client := range loadClients {
		clients.Go(func() {
			for i := range loadEach {
				if c.ask(handler, (client+i)%loadUsers); i%loadSwap == 0 {
					swaps <- struct{}{}
				}
			}
		})
	}

	clients.Wait()
	close(swaps)
	mover.Wait()
}

// Concurrent requests while stages move: each is answered once, 200 or 429, and
// judged once by both sides. At one instant a side admits the first requests that it
// sees, as many as its capacity, and both sides see all requests in one order. So the
// number admitted lies between the two capacities, however often they are swapped: where
// they are the same it is exact.
func TestSwapsUnderLoad(t *testing.T) {
	for _, requests := range [][2]int64{{10, 10}, {10, 14}} {
		t.Run(fmt.Sprintf("%d and %d", requests[0], requests[1]), func(t *testing.T) {
			everyPair(t, func(t *testing.T, _ *rand.Rand, from, to algorithms.Algorithm) {
				sides := [2]algorithms.Side{
					sideOf("from", from, requests[0], requests[0]), sideOf("to", to, requests[1], requests[1]),
				}

				// A leaky bucket's delays take no time in a bubble.
				synctest.Test(t, func(t *testing.T) {
					var c tally
					c.load(t, sides)
					c.check(t, requests[0], requests[1])
				})
			})
		})
	}
}

// check checks that nothing is lost, and that each user was admitted from least to
// most.
func (c *tally) check(t *testing.T, least, most int64) {
	t.Helper()
	const sent = loadClients * (loadEach + loadEach/loadSwap)
	if c.other.Load() != 0 || c.served.Load() != c.admitted.Load() {
		t.Errorf("%d answered neither 200 nor 429, %d answered 200 and %d served",
			c.other.Load(), c.admitted.Load(), c.served.Load())
	}

	by := [2]int64{c.compared[0].Load(), c.compared[1].Load()}
	if by[0]+by[1] != sent || min(by[0], by[1]) == 0 {
		t.Errorf("compared %d times with the authoritative enforced and %d with the candidate, want some of each and %d",
			by[0], by[1], sent)
	}

	for user := range c.users {
		if n := c.users[user].Load(); n < least || n > most {
			t.Errorf("user %d: %d admitted, want %d to %d", user, n, least, most)
		}
	}
}
