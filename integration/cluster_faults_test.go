package integration

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// While a slot migrates, the log of a candidate does not fail the authoritative: a script of
// two keys is answered TRYAGAIN, and one of a single key is served.
func TestMigratingSlotFailsNoEnforcedSide(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := startCluster(t)
	pair, err := lua.New(client, lua.Config{Name: "migrating"})
	if err != nil {
		t.Fatal(err)
	}

	deferred := 0
	for i := range 10 {
		key := fmt.Sprint("k", i)
		fused := check(key, 0, algorithms.FixedWindow{}, algorithms.SlidingWindowLog{})
		alone := fused
		alone.Sides[algorithms.Candidate] = algorithms.Side{}
		evaluate(t, pair, alone) // before there was a candidate

		source, target := migrate(t, client, pair.RecordKey(fused.Policy, key))
		for n := range 3 {
			o := evaluate(t, pair, fused)[0]
			if o[0].Err != nil || o[0].Decision.Remaining != int64(8-n) {
				t.Fatalf("key %s, check %d: %+v, want %d remaining", key, n, o[0], 8-n)
			}
			if o[1].Status == algorithms.Deferred {
				deferred++
			}
		}

		slot := int(source.ClusterKeySlot(ctx, pair.RecordKey(fused.Policy, key)).Val())
		for _, node := range []*redis.Client{source, target} {
			if err := node.Do(ctx, "cluster", "setslot", slot, "stable").Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if deferred != 30 {
		t.Errorf("%d of 30 logs are deferred: the slots did not migrate", deferred)
	}
}

// migrate begins to move the slot of a key from its node to another one.
func migrate(t *testing.T, client *redis.ClusterClient, key string) (source, target *redis.Client) {
	t.Helper()
	ctx := t.Context()
	source, err := client.MasterForKey(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; target == nil; i++ {
		if node, err := client.MasterForKey(ctx, fmt.Sprint(i)); err == nil && node != source {
			target = node
		}
	}

	id := func(node *redis.Client) any { return node.Do(ctx, "cluster", "myid").Val() }
	slot := source.ClusterKeySlot(ctx, key).Val()
	if err := target.Do(ctx, "cluster", "setslot", slot, "importing", id(source)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := source.Do(ctx, "cluster", "setslot", slot, "migrating", id(target)).Err(); err != nil {
		t.Fatal(err)
	}
	return source, target
}

// A dead master takes no keys of the living ones with it, and the master that takes its slots
// over is used within five seconds.
func TestDeadMasterTakesNoOtherKeys(t *testing.T) {
	ctx := context.Background()
	nodes := startCluster(t)
	full := func(ctx context.Context, node *redis.Client) error {
		return node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err()
	}
	if err := nodes.ForEachMaster(ctx, full); err != nil {
		t.Fatal(err)
	}

	// The service has the client that lua.Tune makes. A master that is dead refuses at once; one that lives may take longer than
	// usual on a busy machine, and is no fallback for that.
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: nodes.Options().Addrs, IsClusterMode: true}, time.Second))
	defer client.Close()
	limit := algorithms.Limit{Requests: 1_000_000, Window: time.Hour}
	p, err := shadow.NewPair(shadow.PairConfig{
		Name: "dead-master", Policy: "p", Redis: client, Logger: slog.New(slog.DiscardHandler),
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
	})
	if err == nil {
		err = p.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)

	records, err := lua.New(client, lua.Config{Name: "dead-master"})
	if err != nil {
		t.Fatal(err)
	}
	victim, err := nodes.MasterForKey(ctx, records.RecordKey("p", "k0"))
	if err != nil {
		t.Fatal(err)
	}
	var living, dead []string
	for i := range 200 {
		key := fmt.Sprint("k", i)
		if node, _ := nodes.MasterForKey(ctx, records.RecordKey("p", key)); node == victim {
			dead = append(dead, key)
		} else {
			living = append(living, key)
		}
	}

	fallbacks := func(keys []string) (n int) {
		for _, key := range keys {
			if p.Allow(ctx, key, 1).Fallback {
				n++
			}
		}
		return n
	}
	if n := fallbacks(append(living, dead...)); n > 0 {
		t.Fatalf("all masters live, and %d decisions fall back", n)
	}

	lost := slotsOf(t, victim)
	victim.ShutdownNoSave(ctx)
	for range 5 {
		if n := fallbacks(dead); n != len(dead) {
			t.Fatalf("only %d of %d decisions for keys of the dead master fall back", n, len(dead))
		}
		if n := fallbacks(living); n > 0 {
			t.Fatalf("%d of %d decisions for keys of the living masters fall back", n, len(living))
		}
	}

	takeOver(t, nodes, victim, lost)
	deadline := time.Now().Add(5 * time.Second)
	for fallbacks(dead) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the slots have had another master for five seconds, and decisions for their keys fall back")
		}
	}
}

func slotsOf(t *testing.T, node *redis.Client) redis.ClusterSlot {
	t.Helper()
	//lint:ignore SA1019 go-redis itself asks for CLUSTER SLOTS, and this waits for what it will see
	slots, err := node.ClusterSlots(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slots {
		if s.Nodes[0].Addr == node.Options().Addr {
			return s
		}
	}
	t.Fatal("the node has no slots")
	return redis.ClusterSlot{}
}

// takeOver gives the slots of a dead node to a living one, as a failover does.
func takeOver(t *testing.T, cluster *redis.ClusterClient, dead *redis.Client, slots redis.ClusterSlot) {
	t.Helper()
	ctx := t.Context()
	var heir *redis.Client
	for _, addr := range cluster.Options().Addrs {
		if addr == dead.Options().Addr {
			continue
		}
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })
		if err := node.ClusterDelSlotsRange(ctx, slots.Start, slots.End).Err(); err != nil {
			t.Fatal(err)
		}
		heir = node
	}
	if err := heir.ClusterAddSlotsRange(ctx, slots.Start, slots.End).Err(); err != nil {
		t.Fatal(err)
	}
}
