package shadow_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// grouped is a group of two limits, of which the second is for writes. The authoritative allows 3 an hour, and 2 writes of
// them; the candidate allows 2 an hour, and 1 write of them.
const grouped = `
version: 1
name: test
policies:
  - name: hour
    group: { name: client, charge: all_or_nothing }
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 3, window: 1h }
    candidate: { algorithm: gcra, limit: 2, window: 1h }
  - name: writes
    group: { name: client }
    when: request.method == "POST"
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
`

// admitted asks for a user until denied, and returns how often it was allowed, and the denial.
func admitted(t *testing.T, h *shadow.Harness, method, user string) (int, shadow.Decision) {
	for n := range 10 {
		if d := h.Decide(ctx(t), &policies.Request{Method: method, User: user}); !d.Allowed {
			return n, d
		}
	}
	t.Fatalf("%s of %s is never denied", method, user)
	return 0, shadow.Decision{}
}

// A group moves through all stages as one policy, and each stage enforces all members of one side: in memory and in Redis.
func TestGroupMovesAsOnePolicy(t *testing.T) {
	for store, cfg := range map[string]shadow.Config{"memory": {}, "Redis": {Redis: redisAt(t, miniredis.RunT(t).Addr())}} {
		h := open(t, grouped, cfg)
		stages := h.Stages()
		inside := "u"
		for !divergence.InCanary(divergence.Hash(name, "client", inside), 50) {
			inside += "u"
		}

		order := promotion.Order{Actor: "test", Reason: "test"}
		for i, stage := range []struct {
			name          string
			move          func() error
			reads, writes int
		}{
			{"shadow", func() error { return nil }, 3, 2},
			{"canary", func() error {
				_, err := promotion.Advance(ctx(t), stages, "client", promotion.Step{Stage: promotion.Canary, Percent: 50}, order)
				return err
			}, 2, 1},
			{"promoted", func() error {
				_, err := promotion.Advance(ctx(t), stages, "client", promotion.Step{Stage: promotion.Promoted}, order)
				return err
			}, 2, 1},
			{"rolled back", func() error { _, err := promotion.Rollback(ctx(t), stages, "client", order); return err }, 3, 2},
		} {
			if err := stage.move(); err != nil {
				t.Fatal(err)
			}
			syncNow(t, h)

			// Keys of the canary that were not used before.
			users := []string{}
			for n := 0; len(users) < 2; n++ {
				user := inside + strings.Repeat("x", 100*i+n)
				if divergence.InCanary(divergence.Hash(name, "client", user), 50) {
					users = append(users, user)
				}
			}
			if n, d := admitted(t, h, "GET", users[0]); n != stage.reads || d.Member != "hour" || d.Policy != "client" {
				t.Errorf("%s, %s: %d reads are allowed, and %s denies, want %d and hour", store, stage.name, n, d.Member, stage.reads)
			}
			if n, d := admitted(t, h, "POST", users[1]); n != stage.writes || d.Member != "writes" {
				t.Errorf("%s, %s: %d writes are allowed, and %s denies, want %d and writes", store, stage.name, n, d.Member, stage.writes)
			}

			// All or nothing: what the writes' limit has denied has not counted for the hour.
			if n, _ := admitted(t, h, "GET", users[1]); n != stage.reads-stage.writes {
				t.Errorf("%s, %s: %d more reads are allowed, want %d", store, stage.name, n, stage.reads-stage.writes)
			}
		}
	}
}

// A promotion of a group in mid-window gives no key a second budget of any member.
func TestPromotionOfAGroupIsWarm(t *testing.T) {
	h := open(t, grouped, shadow.Config{})
	admitted(t, h, "POST", "ann")
	admitted(t, h, "GET", "ann")

	advance(t, h.Stages(), "client", promotion.Step{Stage: promotion.Promoted})
	syncNow(t, h)
	for _, method := range []string{"POST", "GET"} {
		if n, _ := admitted(t, h, method, "ann"); n != 0 {
			t.Errorf("just promoted, the candidate allows %d more of %s", n, method)
		}
	}
}

// The evidence says which member has denied how often on each side, and why.
func TestEvidenceOfAGroupNamesItsMembers(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, grouped, shadow.Config{Redis: client})
	admitted(t, h, "GET", "ann")  // 4 requests: the authoritative denies 1, the candidate 2
	admitted(t, h, "POST", "bob") // 3 requests: the authoritative denies 1, the candidate 2
	syncNow(t, h)

	list, err := h.Assess(ctx(t))
	if err != nil || len(list) != 1 || list[0].Spec.Policy != "client" {
		t.Fatal(list, err)
	}
	want := divergence.Members{
		{Name: "hour", AuthoritativeDenied: 1, CandidateDenied: 2}, {Name: "writes", AuthoritativeDenied: 1, CandidateDenied: 2},
	}
	got := list[0].Evidence.History.Members()
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("members %+v, want %+v", got, want)
	}
	if causes := list[0].Evidence.History.Causes(); causes.Denied[divergence.LimitValue] != 2 {
		t.Errorf("causes %v, want two of the limit's value", causes.Denied)
	}
}

// The response fields list the members that the request was charged for, and tell the limit of the one that decides.
func TestFieldsOfAGroup(t *testing.T) {
	h := open(t, grouped, shadow.Config{})
	first := h.Decide(ctx(t), &policies.Request{Method: "POST", User: "ann"})
	_, denied := admitted(t, h, "GET", "ann")

	header := http.Header{}
	httplimit.FieldsDraft08.Write(header, first)
	if got := header.Get("RateLimit-Policy"); got != `"hour";q=3;w=3600, "writes";q=2;w=3600` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
	if got := header.Get("RateLimit"); !strings.HasPrefix(got, `"writes";r=1;t=`) {
		t.Errorf("RateLimit: %s", got)
	}

	header = http.Header{}
	httplimit.FieldsDraft08.Write(header, denied)
	if got := header.Get("RateLimit-Policy"); got != `"hour";q=3;w=3600` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
	if got := header.Get("RateLimit"); !strings.HasPrefix(got, `"hour";r=0;t=`) || header.Get("Retry-After") == "" {
		t.Errorf("%v", header)
	}

	header = http.Header{}
	httplimit.FieldsDraft06.Write(header, first)
	if header.Get("RateLimit-Policy") != "3;w=3600, 2;w=3600" || header.Get("RateLimit-Limit") != "2" {
		t.Errorf("%v", header)
	}
}

// While the store does not answer, each member has its share in the process.
func TestSharesOfAGroup(t *testing.T) {
	server := miniredis.RunT(t)
	h := open(t, grouped, shadow.Config{Redis: redisAt(t, server.Addr())})
	server.Close()

	if n, d := admitted(t, h, "POST", "ann"); n != 2 || d.Member != "writes" || !d.Fallback {
		t.Errorf("%d writes are allowed, then %+v, want 2 and the limit of writes", n, d)
	}
	if n, d := admitted(t, h, "GET", "ann"); n != 1 || d.Member != "hour" {
		t.Errorf("%d more reads are allowed, then %+v, want 1 and the limit of the hour", n, d)
	}
}

// Whatever becomes of the candidate, the authoritative decides and stores the same: a group whose candidate is refused
// decides as one without a candidate.
func TestCandidateOfAGroupDoesNotInterfere(t *testing.T) {
	refused := strings.Replace(grouped, "gcra, limit: 1,", "gcra, limit: 'int(request.user)',", 1)
	alone := strings.ReplaceAll(grouped, "    candidate: { algorithm: gcra, limit: 2, window: 1h }\n", "")
	alone = strings.Replace(alone, "    candidate: { algorithm: gcra, limit: 1, window: 1h }\n", "", 1)

	for store, cfg := range map[string]func() shadow.Config{
		"memory": func() shadow.Config { return shadow.Config{} },
		"Redis":  func() shadow.Config { return shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr())} },
	} {
		with, without := open(t, refused, cfg()), open(t, alone, cfg())
		for i, method := range []string{"POST", "GET", "POST", "POST", "GET", "GET"} {
			r := policies.Request{Method: method, User: "ann"}
			other := r
			a, b := with.Decide(ctx(t), &r), without.Decide(ctx(t), &other)
			if a.Allowed != b.Allowed || a.Remaining != b.Remaining || a.Limit != b.Limit || a.Member != b.Member || a.Fallback {
				t.Errorf("%s, request %d: %+v beside a candidate that fails, %+v without one", store, i, a, b)
			}
			if method == "POST" && a.Unenforced.Status != algorithms.Failed {
				t.Errorf("%s: the candidate's status is %s", store, a.Unenforced.Status)
			}
		}
	}
}

// The record of a group has the name of the group.
func TestRecordOfAGroup(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	h := open(t, grouped, shadow.Config{Redis: client})
	admitted(t, h, "POST", "ann")

	pair, err := lua.New(client, lua.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if key := pair.RecordKey("client", "ann"); !server.Exists(key) {
		t.Errorf("there is no record %s among %v", key, server.Keys())
	}
}

// While the store of a group does not answer, its share decides in the process, whatever the other side is.
func TestShareOfAGroupBesideAForeignLimiter(t *testing.T) {
	limit := algorithms.Limit{Requests: 2, Window: time.Hour}
	group := shadow.Side{Algorithm: &algorithms.Group{
		Members: []algorithms.Member{{Name: "hour", Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit}},
	}}
	foreign := shadow.Side{Limiter: shadow.AllowFunc(func(string) bool { return true }), Limit: limit}

	server := miniredis.RunT(t)
	pair, err := shadow.NewPair(shadow.PairConfig{
		Name: name, Authoritative: group, Candidate: foreign, Redis: redisAt(t, server.Addr()),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pair.Close(context.Background()) })
	server.Close()

	for i, want := range []bool{true, true, false} {
		if d := pair.Allow(ctx(t), "ann", 1); d.Allowed != want || !d.Fallback {
			t.Errorf("request %d: %+v, want allowed %t by the share of the group", i, d, want)
		}
	}
}
