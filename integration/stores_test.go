package integration

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/evidence/ledgertest"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/stages/storetest"
	"github.com/shadowlimit/shadowlimit/lua"
)

// namespace returns a name of a service that no other test uses.
func namespace() string { return fmt.Sprintf("test-%016x", rand.Uint64()) }

func clientOf(t *testing.T, s server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestRedisStore(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		storetest.Run(t, func(t *testing.T) stages.Store {
			return stages.NewRedisStore(clientOf(t, s), namespace())
		})
	})
}

func TestRedisLedger(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		ledgertest.Run(t, func(t *testing.T) evidence.Ledger {
			return evidence.NewRedisLedger(clientOf(t, s), namespace())
		})
	})
}

// A user without the right to publish can roll back: instances also poll every second.
func TestRollbackWithoutTheRightToPublish(t *testing.T) {
	addr := privateServer(t)
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()

	err := admin.Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">pw", "~*", "+@all", "-publish").Err()
	if err != nil {
		t.Fatal(err)
	}

	mute := redis.NewClient(&redis.Options{Addr: addr, Username: "mute", Password: "pw"})
	defer mute.Close()

	store := stages.NewRedisStore(mute, "test")
	if err := stages.Begin(t.Context(), store, "p", "e", 0, "test"); err != nil {
		t.Fatal(err)
	}

	if s, err := stages.Rollback(t.Context(), store, "p", stages.Order{}); err != nil || s.Stage != stages.RolledBack {
		t.Errorf("%v, %v", s, err)
	}
}

// A move that is refused leaves garbage as it is: a policy whose state were gone would be
// unknown to the rollback that comes next.
func TestRefusedMoveKeepsTheState(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store := stages.NewRedisStore(client, name)
		for _, what := range []string{"states", "audit:p"} {
			if err := client.LPush(t.Context(), "shadowlimit1:{"+name+"}:"+what, "x").Err(); err != nil {
				t.Fatal(err)
			}
		}

		if _, err := stages.Resume(t.Context(), store, "p", stages.Order{}); err == nil {
			t.Error("a step that cannot be put on record was taken")
		}
		if s, err := stages.Rollback(t.Context(), store, "p", stages.Order{}); err != nil || s.Stage != stages.RolledBack {
			t.Errorf("after a refused move: %v, %v", s, err)
		}
	})
}

// The trail keeps what History returns, and not much more.
func TestAuditTrailIsBounded(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store := stages.NewRedisStore(client, name)
		for seq := range int64(1500) {
			next := stages.State{Version: stages.Version{Term: 1, Seq: seq + 1}, Stage: stages.Shadow, Fingerprint: "e"}
			if err := store.Put(t.Context(), "p", next, stages.Condition{}); err != nil {
				t.Fatal(err)
			}
		}

		list, err := store.History(t.Context(), "p")
		n := client.XLen(t.Context(), "shadowlimit1:{"+name+"}:audit:p").Val()
		if err != nil || len(list) != 1000 || n > 1100 {
			t.Errorf("%d entries are kept and %d shown, %v, want at most 1100 and 1000", n, len(list), err)
		}
	})
}

// A term at the end of the range leaves no room for the next one. It is not believed: the
// state counts as garbage, and instances and rollbacks put theirs in its place.
func TestTermBeyondBelief(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store := stages.NewRedisStore(client, name)
		corrupt := stages.State{Version: stages.Version{Term: math.MaxInt64, Seq: 1}, Stage: stages.Promoted, Fingerprint: "e"}
		if err := store.Put(t.Context(), "p", corrupt, stages.Condition{}); err != nil {
			t.Fatal(err)
		}

		states, err := store.States(t.Context(), []string{"p"})
		if err != nil || states[0].Stage != stages.RolledBack || states[0].Version != (stages.Version{}) {
			t.Errorf("read %+v, %v, want garbage", states[0], err)
		}
		known := stages.State{Version: stages.Version{Term: 1, Seq: 2}, Stage: stages.Promoted, Percent: 100, Fingerprint: "e"}
		if err := store.Put(t.Context(), "p", known, stages.Condition{}); err != nil {
			t.Errorf("an instance asserts what it knows: %v", err)
		}
		if s, err := stages.Rollback(t.Context(), store, "p", stages.Order{}); err != nil || s.Term != s.At.Unix() || s.Seq != 1 {
			t.Errorf("a rollback: %v, %v", s, err)
		}
	})
}

// A state that cannot be read counts as rolled back, and a rollback stores that: an instance that knows a promotion
// must not put it in the place of garbage afterwards. So does one whose head, by which scripts go, is of another state.
func TestRollbackOfAnUnreadableState(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store, key := stages.NewRedisStore(client, name), "shadowlimit1:{"+name+"}:states"
		known := stages.State{Version: stages.Version{Term: 1, Seq: 2}, Stage: stages.Promoted, Percent: 100, Fingerprint: "e"}
		if err := store.Put(t.Context(), "p", known, stages.Condition{}); err != nil {
			t.Fatal(err)
		}
		sound := client.HGet(t.Context(), key, "p").Val()
		for _, text := range []string{"garbage", strings.Replace(sound, "1.2 ", "1.3 ", 1)} {
			if err := client.HSet(t.Context(), key, "p", text).Err(); err != nil {
				t.Fatal(err)
			}
			states, err := store.States(t.Context(), []string{"p"})
			if err != nil || states[0].Stage != stages.RolledBack {
				t.Errorf("%q is read as %+v, %v", text, states, err)
			}
			if _, err := stages.Rollback(t.Context(), store, "p", stages.Order{Actor: "ann"}); err != nil {
				t.Error(err)
			}
			if err := store.Put(t.Context(), "p", known, stages.Condition{}); !errors.Is(err, stages.ErrConflict) {
				t.Errorf("after a rollback of %q an instance puts a promotion: %v", text, err)
			}
		}
	})
}

// A move is for the state that was looked at, and not for another one of its version, as a store has that was emptied.
func TestMoveIsForTheStateThatWasJudged(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store := stages.NewRedisStore(client, name)
		begin := func(fingerprint string) stages.State {
			t.Helper()
			err := stages.Begin(t.Context(), store, "p", fingerprint, 0, "test")
			states, failed := store.States(t.Context(), []string{"p"})
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			return states[0]
		}

		judged := begin("a")
		if err := client.Del(t.Context(), "shadowlimit1:{"+name+"}:states").Err(); err != nil {
			t.Fatal(err)
		}
		if other := begin("b"); other.Version != judged.Version {
			t.Fatalf("the states have the versions %s and %s", judged.Version, other.Version)
		}
		_, err := stages.Advance(t.Context(), store, "p", stages.Step{Stage: stages.Promoted}, stages.Order{Judged: &judged})
		if !errors.Is(err, stages.ErrConflict) {
			t.Errorf("a step that was judged for another fingerprint: %v", err)
		}
	})
}

// The lease of a leader that died ends by itself, and garbage in its place does not last.
func TestLeaseEnds(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store, key := stages.NewRedisStore(client, name), "shadowlimit1:{"+name+"}:lease"
		if err := client.LPush(t.Context(), key, "x").Err(); err != nil {
			t.Fatal(err)
		}
		lead := func(id, want string) {
			t.Helper()
			h, err := store.Heartbeat(t.Context(), stages.Heartbeat{ID: id, Leads: true})
			if err != nil || h.Leader != want || h.Lease <= 0 || h.Lease > stages.LeaseFor {
				t.Fatalf("%q leads for %s, %v, want %q", h.Leader, h.Lease, err, want)
			}
		}
		lead("a", "a")
		lead("b", "a")
		if err := client.PExpireAt(t.Context(), key, time.Unix(1, 0)).Err(); err != nil {
			t.Fatal(err)
		}
		lead("b", "b")

		// One that does not end would keep all from leading.
		if err := client.Set(t.Context(), key, "nobody", 0).Err(); err != nil {
			t.Fatal(err)
		}
		lead("b", "b")
	})
}

// Of a heartbeat nothing is lost where its keys hold garbage: it takes their place.
func TestHeartbeatReplacesGarbage(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		client, name := clientOf(t, s), namespace()
		store := stages.NewRedisStore(client, name)
		for _, what := range []string{"heard", "instances", "lease", "changes", "policies", "levels", "assessments", "details"} {
			if err := client.LPush(t.Context(), "shadowlimit1:{"+name+"}:"+what, "x").Err(); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := store.Fleet(t.Context()); err != nil || len(f.Instances) != 0 || len(f.Specs) != 0 || f.Now.IsZero() {
			t.Errorf("garbage is read as %+v, %v", f, err)
		}

		self := stages.Instance{ID: "a", Policies: map[string]stages.Applied{"p": {Fingerprint: "e"}}}
		heartbeat := stages.Heartbeat{ID: "a", Self: &self, Leads: true, Specs: []stages.Spec{{Policy: "p"}}, Policies: []string{"p"}}
		h, err := store.Heartbeat(t.Context(), heartbeat)
		if err != nil || h.Refused != nil || h.Leader != "a" || !h.Known || h.Live != 1 || len(h.States) != 1 {
			t.Errorf("%+v, %v", h, err)
		}
		if err := store.Publish(t.Context(), stages.Findings{At: h.Now, By: "a", Policies: []stages.Published{{Policy: "p", Leader: "a"}}}); err != nil {
			t.Error(err)
		}
		f, err := store.Fleet(t.Context())
		found, failed := store.Published(t.Context(), []string{"p"}, true)
		if err != nil || failed != nil || len(f.Instances) != 1 || len(f.Specs) != 1 || f.Leader != "a" || found[0].Leader != "a" {
			t.Errorf("%+v, %v, %+v, %v", f, err, found, failed)
		}
	})
}

// A Redis that is out of memory still takes a rollback. It refuses new keys with a candidate
// just as it refuses them of the authoritative alone. A key that has a record is judged: its
// candidate's log is given up. An enforced log is not.
func TestRedisOutOfMemory(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: privateServer(t, "--maxmemory-policy", "noeviction")})
	defer client.Close()

	store := stages.NewRedisStore(client, "test")
	if err := stages.Begin(t.Context(), store, "p", "e", 0, "test"); err != nil {
		t.Fatal(err)
	}

	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	check := algorithms.Check{Policy: "p", Key: "k", Cost: 1}
	limit := algorithms.Limit{Requests: 10, Window: time.Hour}
	for role, a := range []algorithms.Algorithm{algorithms.GCRA{}, algorithms.SlidingWindowLog{}} {
		check.Sides[role] = algorithms.Side{Algorithm: a, Limit: limit}
	}

	ask := func(key string) [2]algorithms.Observation {
		check.Key = key
		var into [1][2]algorithms.Observation
		if err := pair.Evaluate(t.Context(), []algorithms.Check{check}, into[:]); err != nil {
			t.Fatal(err)
		}
		return into[0]
	}

	if o := ask("before"); o[0].Err != nil || o[1].Err != nil {
		t.Fatal(o)
	}

	check.Enforced = algorithms.Candidate
	if o := ask("enforced log"); o[0].Err != nil || o[1].Err != nil {
		t.Fatal(o)
	}
	check.Enforced = algorithms.Authoritative

	// The script removes the set that an expired record has left behind, which needs no
	// memory and so would make Redis accept the writes after it.
	leftOver := pair.LogKey("p", "left over", "sliding_window_log")
	if err := client.ZAdd(t.Context(), leftOver, redis.Z{Score: 1, Member: "1:1:1"}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}

	if o := ask("before"); o[algorithms.Authoritative].Err != nil || o[algorithms.Authoritative].Decision.Remaining != 8 ||
		!errors.Is(o[algorithms.Candidate].Err, lua.ErrLogShed) {
		t.Errorf("the authoritative is to answer, and the log to be given up: %+v", o)
	}

	for _, key := range []string{"after", "left over", "enforced log"} {
		check.Enforced = algorithms.Authoritative
		if key == "enforced log" {
			check.Enforced = algorithms.Candidate
		}
		if o := ask(key); o[algorithms.Authoritative].Err == nil || o[algorithms.Candidate].Err == nil {
			t.Errorf("%s: a write that Redis has to refuse: %+v", key, o)
		}
	}

	// Harm is looked for all the same: the lease is taken, and instances are heard, for a leader takes those that are not for
	// gone.
	h, err := store.Heartbeat(t.Context(), stages.Heartbeat{
		ID: "a", Leads: true, Self: &stages.Instance{ID: "a"}, Policies: []string{"p"},
	})
	if err != nil || h.Leader != "a" || h.Refused == nil || h.Live != 1 || len(h.States) != 1 {
		t.Errorf("a heartbeat: %+v, %v", h, err)
	}

	// A rollback is told just then.
	told, err := store.Tell(t.Context(), stages.Telling{To: "r", ID: "a", Marks: map[string]string{"p": "1.1"}, Asks: []string{"p"}})
	if err != nil || !told.Mine || told.Marks["p"] != "1.1" {
		t.Errorf("a lease to tell: %+v, %v", told, err)
	}

	s, err := stages.Rollback(t.Context(), store, "p", stages.Order{Reason: "out of memory"})
	if err != nil || s.Stage != stages.RolledBack {
		t.Errorf("rollback: %v, %v", s, err)
	}

	states, err := store.States(t.Context(), []string{"p"})
	if err != nil || states[0].Stage != stages.RolledBack {
		t.Errorf("stored %v, %v", states, err)
	}
}
