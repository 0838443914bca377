package promotion_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// beater is an instance on a Redis of which a test reads what it writes.
type beater struct {
	*testing.T
	server *miniredis.Miniredis
	store  *promotion.RedisStore
}

func newBeater(t *testing.T) beater {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return beater{t, server, promotion.NewRedisStore(client, "n")}
}

// beat beats with some policies at a version, and returns the stored text.
func (b beater) beat(policies int, seq int64) string {
	b.Helper()
	i := promotion.Instance{ID: "a", At: time.Now().Truncate(time.Second), Policies: map[string]promotion.Applied{}}
	for n := range policies {
		i.Policies[fmt.Sprint("policy ", n)] = promotion.Applied{Version: promotion.Version{Term: 1, Seq: seq}, Epoch: "e", Flushed: i.At}
	}
	b.must(b.store.Beat(b.Context(), i))
	return b.server.HGet("shadowlimit1:{n}:instances", "a")
}

func (b beater) plans() []string {
	names, _ := b.server.HKeys("shadowlimit1:{n}:plans")
	return names
}

func (b beater) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// A beat has the same length for one policy and for a hundred.
func TestBeatsDoNotGrowWithPolicies(t *testing.T) {
	b := newBeater(t)
	one, hundred := b.beat(1, 1), b.beat(100, 1)
	if len(one) != len(hundred) || strings.Contains(one, "policy") {
		t.Errorf("%d and %d bytes: %s", len(one), len(hundred), hundred)
	}
}

// A plan that the store has lost is written again, until then its instance may have any policy, and
// plans that no beat names are removed.
func TestPlansAreKeptWhileNamed(t *testing.T) {
	b := newBeater(t)
	live := func(policy string) int {
		all, err := b.store.Instances(context.Background())
		b.must(err)
		list, _ := promotion.LiveAt(time.Now(), policy, all)
		return len(list)
	}
	b.beat(2, 1)
	if live("policy 0") != 1 || live("another") != 0 {
		t.Error("the plan was not read")
	}

	for seq := range int64(4) {
		b.beat(2, 2+seq)
		live("")
	}
	if got := b.plans(); len(got) > 3 {
		t.Errorf("plans %v are left of one instance", got)
	}

	b.server.FlushAll()
	b.beat(2, 9)
	b.server.Del("shadowlimit1:{n}:plans")
	if live("another") != 1 {
		t.Error("an instance whose plan is lost is not waited for")
	}
	b.server.FlushAll()
	b.beat(2, 9)
	if b.beat(2, 9); live("another") != 0 || live("policy 1") != 1 {
		t.Error("the plan was not written again after a loss of data")
	}
}
