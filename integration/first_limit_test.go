package integration

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func firstLimit(t testing.TB, name string) *policies.Set {
	t.Helper()
	set, err := policies.Load("first.yaml", []byte("version: 1\nname: "+name+"\npolicies:\n"+
		"  - name: p\n    key: request.user\n    authoritative: none\n    candidate: { algorithm: gcra, limit: 3, window: 1h }\n"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A first limit stores one side, denies nobody in shadow, and is enforced with what it has counted there, by Harness and Pair.
func TestFirstLimit(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		h := harnessOf(t, shadow.Config{Policies: firstLimit(t, name), Redis: client})
		ask := func(user string) bool { return h.Decide(t.Context(), &policies.Request{User: user}).Allowed }
		checkFirstLimit(t, client, name, h, ask)

		name = namespace()
		pair, err := shadow.NewPair(shadow.PairConfig{
			Name: name, Policy: "p", Redis: client, Logger: slog.New(slog.DiscardHandler), Authoritative: shadow.NoLimit,
			Candidate: shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 3, Window: time.Hour}},
		})
		if err == nil {
			err = pair.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close(context.Background())
		checkFirstLimit(t, client, name, pair, func(user string) bool { return pair.Allow(t.Context(), user, 1).Allowed })
	})
}

// compared is what a Harness and a Pair have in common.
type compared interface {
	Sync(context.Context) error
	Stages() shadow.Stages
}

func checkFirstLimit(t *testing.T, client *redis.Client, name string, of compared, ask func(string) bool) {
	t.Helper()
	sync := func() {
		t.Helper()
		if err := of.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	for i := range 5 {
		if !ask("alice") {
			t.Fatalf("request %d is denied in shadow", i+1)
		}
	}
	sync()
	list, err := inside.Assess(t.Context(), of)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	want := evidence.Tally{evidence.AgreeAllow: 3, evidence.NewlyDenied: 2}
	if got := list[0].Evidence.History.Total(); got != want || !list[0].Spec.FirstLimit {
		t.Errorf("counted %v, want %v; %+v", got, want, list[0].Spec)
	}

	pair, err := lua.New(client, lua.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if record := get(t, client, pair.RecordKey("p", "alice")); len(record) != partBytes {
		t.Errorf("the record has %d bytes, want the %d of one side", len(record), partBytes)
	}

	if _, err := stages.Advance(t.Context(), inside.Stages(of), "p", stages.Step{Stage: stages.Promoted}, stages.Order{}); err != nil {
		t.Fatal(err)
	}
	sync()
	if ask("alice") || !ask("bob") {
		t.Error("promoted: alice has used up her limit in shadow, and bob has not")
	}
	if _, err := stages.Rollback(t.Context(), inside.Stages(of), "p", stages.Order{}); err != nil {
		t.Fatal(err)
	}
	sync()
	if !ask("alice") {
		t.Error("rolled back: alice is denied")
	}
}

// A first limit costs a request nothing in shadow, where the check follows the answer, and one call once it is enforced.
func TestFirstLimitCostsOneCall(t *testing.T) {
	client, sent := counted(t, privateServer(t), time.Second)
	h := harnessOf(t, shadow.Config{Policies: firstLimit(t, namespace()), Redis: client})
	const requests = 100
	ask := func() int64 {
		before := sent.calls.Load()
		for range requests {
			h.Decide(t.Context(), &policies.Request{User: "alice"})
		}
		return sent.calls.Load() - before
	}

	ask()
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := stages.Advance(t.Context(), inside.Stages(h), "p", stages.Step{Stage: stages.Promoted}, stages.Order{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := ask(); n < requests || n > requests+10 { // an instance writes evidence meanwhile
		t.Errorf("%d scripts for %d requests", n, requests)
	}
}

// A Redis that stalls delays no request of a first limit in shadow.
func TestStallDoesNotDelayAFirstLimit(t *testing.T) {
	client, _ := counted(t, privateServer(t), time.Second)
	h := harnessOf(t, shadow.Config{Policies: firstLimit(t, namespace()), Redis: client})
	admin := redis.NewClient(&redis.Options{Addr: client.Options().Addr})
	defer admin.Close()
	if err := admin.Do(t.Context(), "CLIENT", "PAUSE", 2000, "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range 2000 {
		if d := h.Decide(t.Context(), &policies.Request{User: "alice"}); !d.Allowed || d.Fallback {
			t.Fatalf("%+v", d)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("2,000 requests took %s while Redis stalled", took)
	}
}
