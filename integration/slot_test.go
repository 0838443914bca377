package integration

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// slotMove is a slot on its way from one master of a cluster to another.
type slotMove struct {
	slot     int64
	from, to *redis.Client
	ids      [2]string // of the two nodes
}

// startSlotMove lets the slot of a key be on its way. None of its keys has moved yet.
func startSlotMove(t *testing.T, client *redis.ClusterClient, key string) *slotMove {
	t.Helper()
	ctx := context.Background()
	m := &slotMove{slot: client.ClusterKeySlot(ctx, key).Val()}
	from, err := client.MasterForKey(ctx, key)
	if err != nil {
		t.Fatal(err)
	}

	m.from = from
	for _, addr := range client.Options().Addrs {
		if addr != from.Options().Addr {
			m.to = redis.NewClient(&redis.Options{Addr: addr})
		}
	}
	t.Cleanup(func() { m.to.Close() })
	m.ids = [2]string{m.do(t, m.from, "CLUSTER", "MYID"), m.do(t, m.to, "CLUSTER", "MYID")}
	m.do(t, m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.ids[0])
	m.do(t, m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.ids[1])
	return m
}

func (m *slotMove) do(t *testing.T, node *redis.Client, args ...any) string {
	t.Helper()
	text, err := node.Do(context.Background(), args...).Text()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return text
}

// keys are those that have not moved yet.
func (m *slotMove) keys() []string {
	return m.from.ClusterGetKeysInSlot(context.Background(), int(m.slot), 100).Val()
}

func (m *slotMove) move(t *testing.T, keys ...string) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.to.Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		m.do(t, m.from, "MIGRATE", host, port, key, 0, 5000)
	}
}

// end moves the slot itself, whose keys have all moved.
func (m *slotMove) end(t *testing.T) {
	t.Helper()
	m.do(t, m.to, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[1])
	m.do(t, m.from, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[1])
}

// Before, while and after a slot moves, the enforced side decides every request, and no
// check is lost or made twice. A log beside it, which has a key of its own, may have to
// follow while one of the two keys has moved.
func TestSlotThatMoves(t *testing.T) {
	t.Parallel()
	client := startCluster(t)
	pair, err := lua.New(client, lua.Config{Name: "moves"})
	if err != nil {
		t.Fatal(err)
	}

	today, log := algorithms.FixedWindowAnchored{}, algorithms.SlidingWindowLog{}
	for n, sides := range [][]algorithms.Algorithm{{today}, {today, algorithms.GCRA{}}, {today, log}, {today, log}} {
		key := fmt.Sprint("key ", n)
		left, behind := int64(10), 0
		spend := func(when string) {
			for range 2 {
				o := evaluate(t, pair, check(key, -1, sides...))[0]
				if left--; o[0].Status != algorithms.Judged || o[0].Decision.Remaining != left {
					t.Errorf("%s, %s: %+v, want %d remaining", key, when, o[0], left)
				}
				if o[1].Status == algorithms.Deferred {
					behind++
				}
			}
		}

		spend("before")
		m := startSlotMove(t, client, pair.RecordKey("p", key))
		spend("at the beginning")

		// Either of two keys may be the first to move.
		keys := m.keys()
		if slices.Sort(keys); n%2 > 0 {
			slices.Reverse(keys)
		}
		m.move(t, keys[0])
		spend("when one key has moved")
		m.move(t, keys[1:]...)
		spend("when all keys have moved")
		m.end(t)
		spend("afterwards")

		if want := len(keys) - 1; (behind > 0) != (want > 0) {
			t.Errorf("%s: the other side had to follow %d times, and there are %d keys", key, behind, len(keys))
		}
	}
}
