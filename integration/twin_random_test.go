package integration

import (
	"flag"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var twinSteps = flag.Int("disturbances", 6, "steps of the random program of disturbances, which -seed draws; 0 draws another one each time")

// In a random program one thing happens to each of the two servers in each step, at instants that are drawn, too.
func TestRandomDisturbancesOnRealServers(t *testing.T) {
	t.Parallel()
	long(t)
	drawn := *seed
	if drawn == 0 {
		drawn = uint64(time.Now().UnixNano())
	}
	t.Logf("to run it again: go test -run %s -disturbances %d -seed %d", t.Name(), *twinSteps, drawn)

	rng := rand.New(rand.NewPCG(drawn, 0))
	w := startTwins(t)
	for i := range w.servers {
		w.addReplica(i)
	}
	all := slices.Concat(twinDisturbances, []twinDisturbance{{"failover", (*twins).failOver}})

	for step := range *twinSteps {
		var done sync.WaitGroup
		var names [2]string
		for i := range w.servers {
			d, delay := all[rng.IntN(len(all))], time.Duration(rng.IntN(150))*time.Millisecond
			names[i] = d.name
			done.Go(func() {
				time.Sleep(delay)
				d.do(w, w.servers[i])
			})
		}

		// Some programs go on with the keys of the step before, of which a side has missed checks.
		w.spendAndCheck(&done, string(rune('a'+step/2%26)), names[0]+" and "+names[1])
		if t.Failed() {
			return
		}
	}
	w.checkDisturbed(2) // two stores are new
}

// addReplica gives a server a replica, which waits for a failover.
func (w *twins) addReplica(i int) {
	w.replicas[i] = w.client(privateServer(w.t, debugging(w.t)...))
	w.follow(w.replicas[i], w.servers[i])
}

// follow has a server replicate another one.
func (w *twins) follow(replica, primary *redis.Client) {
	host, port, err := net.SplitHostPort(primary.Options().Addr)
	if err == nil {
		err = replica.ReplicaOf(w.t.Context(), host, port).Err()
	}
	if err != nil {
		w.t.Error(err)
	}
}

// failOver has the replica of a server take its place, with what it knows by then. The old primary
// becomes its replica, and loses what only it knew.
func (w *twins) failOver(server *redis.Client) {
	i := slices.Index(w.servers[:], server)
	if w.replicas[i] == nil {
		return
	}
	if err := w.replicas[i].ReplicaOf(w.t.Context(), "NO", "ONE").Err(); err != nil {
		w.t.Error(err)
		return
	}

	w.proxies[i].point(w.replicas[i].Options().Addr)
	w.follow(server, w.replicas[i])
	w.servers[i], w.replicas[i] = w.replicas[i], w.servers[i]
}
