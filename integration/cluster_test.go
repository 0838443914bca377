package integration

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/lua"
)

// startCluster makes a cluster of three nodes, a third of the slots each.
func startCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()

	requireProgram(t, program(), "the nodes of a cluster must reach each other")

	ctx := context.Background()
	slots := [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}}

	var nodes []*redis.Client
	var addrs []string
	for i := range slots {
		addr := privateServer(t, "--cluster-enabled", "yes")
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })

		if err := node.ClusterAddSlotsRange(ctx, slots[i][0], slots[i][1]).Err(); err != nil {
			t.Fatal(err)
		}

		nodes = append(nodes, node)
		addrs = append(addrs, addr)
	}

	// Distinct epochs spare the nodes the resolution of equal ones.

	for i, node := range nodes {
		if err := node.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			t.Fatal(err)
		}
	}

	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := nodes[0].Do(ctx, "cluster", "meet", host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}

	awaitCluster(t, nodes)

	options := lua.Tune(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: true}, longBudget)
	client := redis.NewUniversalClient(options).(*redis.ClusterClient)
	t.Cleanup(func() { client.Close() })
	return client
}

// awaitCluster returns once every node knows that all slots are served, which the nodes
// learn by gossip.
func awaitCluster(t *testing.T, nodes []*redis.Client) {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	known := fmt.Sprintf("cluster_known_nodes:%d", len(nodes))
	for _, node := range nodes {
		for {
			state := node.ClusterInfo(ctx).Val()
			if strings.Contains(state, "cluster_state:ok") && strings.Contains(state, known) {
				break
			}

			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("the cluster does not form:\n%s", state)
			}
		}
	}
}

// TestClusterAgreesWithOracle runs the differential test through a cluster, in
// which a script whose keys lie in two slots would fail.
func TestClusterAgreesWithOracle(t *testing.T) {
	t.Parallel()
	client := startCluster(t)
	pair, err := lua.New(client, lua.Config{Name: "cluster"})
	if err != nil {
		t.Fatal(err)
	}

	// A node that does not know a script yet makes the pair send it again, which
	// would change the order of a batch that holds a key twice.
	limitertest.Differential(t, 5_000, 10_000, limitertest.Backend{Name: "lua on a cluster", Pair: pair, Batch: 1})
}

// TestClusterPipelines charges keys of all nodes in one Evaluate, before and
// after the nodes forget their scripts.
func TestClusterPipelines(t *testing.T) {
	t.Parallel()
	client := startCluster(t)
	pair, err := lua.New(client, lua.Config{Name: "cluster"})
	if err != nil {
		t.Fatal(err)
	}

	for round := range 3 {
		var checks []algorithms.Check
		for i := range 100 {
			candidate := algorithms.All[i%len(algorithms.All)]
			checks = append(checks, check(fmt.Sprint(i), 0, algorithms.SlidingWindowLog{}, candidate))
		}

		for i, o := range evaluate(t, pair, checks...) {
			want := int64(9 - round)
			if o[0].Err != nil || o[1].Err != nil || o[0].Decision.Remaining != want {
				t.Fatalf("round %d, key %d: %+v, want %d remaining", round, i, o, want)
			}
		}

		flush := func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() }
		if err := client.ForEachMaster(context.Background(), flush); err != nil {
			t.Fatal(err)
		}
	}
}
