package engine

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/lua"
)

// nodes are a store's breakers, one for each server that can fail by itself. A cluster with
// a dead master answers for most keys, and must go on doing so.
type nodes struct {
	// whole is the breaker of a store that is one server, and of the records of a cluster
	// whose node is not known.
	whole   *breaker
	cluster *clusterNodes // nil unless the store is a cluster
}

// clusterNodes are the nodes of a cluster, by address: a failover moves a record to another
// address, and so to a breaker that is closed.
type clusterNodes struct {
	pair recordPair
	// address returns where a record is, "" if that is not known. It must not use the
	// network: it is called in the request.
	address func(record string) string
	// reload begins to learn which node has which records. It must not wait.
	reload     func()
	masters    func(context.Context) (map[string]bool, error)
	newBreaker func(address string) *breaker // a new node's
	breakers   atomic.Pointer[map[string]*breaker]
	mu         sync.Mutex   // held by writers of breakers
	reloaded   clock.Moment // reload was last called
}

// recordPair is a pair that takes the keys of the records with the checks: they are made
// once, to find the nodes.
type recordPair interface {
	RecordKey(policy, key string) string
	EvaluateRecords(ctx context.Context, checks []algorithms.Check, records []string, into []Observations) error
}

// newClusterNodes returns the nodes that a cluster's client knows.
func newClusterNodes(client *redis.ClusterClient, pair *lua.Pair, open func(string) *breaker) *clusterNodes {
	// A context that is over keeps the client from asking the network: it answers from the
	// slots that it knows, or with an error where it knows none yet.
	over, cancel := context.WithCancel(context.Background())
	cancel()

	n := &clusterNodes{pair: pair, newBreaker: open}
	n.address = func(record string) string {
		node, err := client.MasterForKey(over, record)
		if err != nil {
			return ""
		}
		return node.Options().Addr
	}
	n.reload = func() { client.ReloadState(context.Background()) }
	n.masters = func(ctx context.Context) (map[string]bool, error) { return mastersOf(ctx, client) }
	n.breakers.Store(&map[string]*breaker{})
	return n
}

// mastersOf asks a cluster for the addresses of its masters.
func mastersOf(ctx context.Context, client *redis.ClusterClient) (map[string]bool, error) {
	var mu sync.Mutex
	addresses := map[string]bool{}
	err := client.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addresses[node.Options().Addr] = true
		return nil
	})
	return addresses, err
}

// find returns the keys of the checks' records, and the breakers of the nodes that have them. The node of a check is
// looked up once: the client may learn of a failover meanwhile, and names a random node for a slot that has none.
func (n *nodes) find(checks []algorithms.Check) (records []string, places []*breaker) {
	records = make([]string, len(checks))
	places = make([]*breaker, len(checks))
	for i := range checks {
		records[i] = n.cluster.pair.RecordKey(checks[i].Policy, checks[i].Key)
		places[i] = n.whole
		if address := n.cluster.address(records[i]); address != "" {
			places[i] = n.cluster.at(address)
		}
	}
	return records, places
}

func (n *clusterNodes) at(address string) *breaker {
	if b := (*n.breakers.Load())[address]; b != nil {
		return b
	}

	// Requests read the map without a lock, so it is replaced and never changed.
	n.mu.Lock()
	defer n.mu.Unlock()
	known := *n.breakers.Load()
	if b := known[address]; b != nil {
		return b
	}
	more := maps.Clone(known)
	more[address] = n.newBreaker(address)
	n.breakers.Store(&more)
	return more[address]
}

// lookEvery bounds how often failures make the client look for a new master. The client
// itself looks after a minute, and a failover must be followed within five seconds.
const lookEvery = time.Second

// look makes the client look for the successor that a node may have which fails, or which an
// open breaker keeps requests off.
func (n *nodes) look() {
	if n.cluster == nil {
		return
	}

	if n.cluster.reloaded.Renew(lookEvery) {
		n.cluster.reload()
	}
}

// forgetGone drops the breakers of nodes that are no masters any more. An open one among
// them would be shown for ever: no request asks it.
func (n *nodes) forgetGone(ctx context.Context) {
	if n == nil || n.cluster == nil || len(*n.cluster.breakers.Load()) == 0 {
		return
	}

	// A cluster that cannot be asked has not lost its nodes.
	masters, err := n.cluster.masters(ctx)
	if err != nil || len(masters) == 0 {
		return
	}

	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	kept := maps.Clone(*n.cluster.breakers.Load())
	maps.DeleteFunc(kept, func(address string, _ *breaker) bool { return !masters[address] })
	n.cluster.breakers.Store(&kept)
}

// open reports whether requests are kept off any of the nodes.
func (n *nodes) open() bool {
	if n == nil || n.cluster == nil {
		return n != nil && n.whole.open()
	}
	for _, b := range *n.cluster.breakers.Load() {
		if b.open() {
			return true
		}
	}
	return n.whole.open()
}

// silent reports whether requests are kept off the whole store: of a cluster, off every node that has been asked. Of a cluster with one
// dead node it is wrong to say that a rollback would deny every request.
func (n *nodes) silent() bool {
	if n == nil || n.cluster == nil {
		return n.open()
	}
	known := *n.cluster.breakers.Load()
	for _, b := range known {
		if !b.open() {
			return false
		}
	}
	return len(known) > 0 || n.whole.open()
}

// resting reports whether nothing is to be asked, not even to try. It is false for a cluster:
// the node of a check is not known here.
func (n *nodes) resting() bool { return n != nil && n.cluster == nil && n.whole.resting() }
