package shadow_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// promoting is a policy file of one policy with these fields of a promotion.
func promoting(fields string) string {
	return withSides("{algorithm: fixed_window, limit: 2, window: 1h}", "{algorithm: gcra, limit: 1, window: 1h}") +
		"promotion: {" + fields + "}\n"
}

const oursFirst = `first: 'key[0].startsWith("ours")'`

// someKeys are first or not: each with keys all over the hash.
func someKeys() (keys []string) {
	for n := range 120 {
		keys = append(keys, fmt.Sprint("user", n), fmt.Sprint("ours", n))
	}
	return keys
}

// wantEnforced is the side that the policy file and the hash mean for a key.
func wantEnforced(s stages.Step, key string) algorithms.Role {
	rank := evidence.Hash(name, policy, key) % 10_000
	candidate := false
	switch {
	case s.Stage == stages.Promoted || s.Stage == stages.Completed:
		candidate = true
	case s.Stage == stages.Canary:
		candidate = strings.HasPrefix(key, "ours") || float64(rank) < 100*s.Percent
	}

	if candidate {
		return algorithms.Candidate
	}
	return algorithms.Authoritative
}

// Two instances with one file have the same candidate keys, as the file and the hash say, whatever else
// the request has. The ticks, by which triggers judge, count the keys that are really enforced.
func TestKeysArePinnedByTheFile(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	instances := []*shadow.Harness{
		open(t, promoting(oursFirst), shadow.Config{Redis: client}), open(t, promoting(oursFirst), shadow.Config{Redis: client}),
	}
	store := stages.NewRedisStore(client, name)

	for _, step := range []stages.Step{
		{Stage: stages.Shadow}, {Stage: stages.Canary, Percent: 0.01}, {Stage: stages.Canary, Percent: 50},
		{Stage: stages.Canary, Percent: 100}, {Stage: stages.Promoted}, {Stage: stages.Completed},
	} {
		switch step.Stage {
		case stages.Canary, stages.Promoted:
			advance(t, store, policy, step)
		case stages.Completed:
			if _, err := stages.Complete(ctx(t), store, policy, stages.Order{}); err != nil {
				t.Fatal(err)
			}
		}

		for i, h := range instances {
			syncNow(t, h)
			for _, key := range someKeys() {
				got := h.Decide(context.Background(), &policies.Request{User: key, Method: fmt.Sprint(i), Path: key}).Enforced
				if want := wantEnforced(step, key); got != want {
					t.Errorf("%s %g %%, instance %d: %s has the %s, want the %s", step.Stage, step.Percent, i, key, got, want)
				}
			}
		}
	}
}

// counted returns what the minutes of a harness have counted, and the keys for which the candidate was enforced, by ticks.
func counted(t *testing.T, h *shadow.Harness, client *redis.Client) (compared, ticked int64) {
	t.Helper()
	syncNow(t, h)
	list, err := inside.Assess(ctx(t), h)
	if err != nil {
		t.Fatal(err)
	}
	reader := evidence.NewReader(evidence.NewRedisLedger(client, name), list[0].State.LedgerID(policy), list[0].State.Since)
	ticks, err := reader.Ticks(ctx(t), list[0].Evidence.Now, gate.TicksBack)
	if err != nil {
		t.Fatal(err)
	}

	for _, tick := range ticks {
		ticked += tick.Tally.Comparisons()
	}
	return list[0].Evidence.History.Total().Comparisons(), ticked
}

// The ticks have the keys for which the candidate is enforced, and all other counts have every key.
func TestTicksLeaveOutKeysOfTheAuthoritative(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, promoting(oursFirst), shadow.Config{Redis: client})
	var enforced int64
	use := func(step stages.Step) {
		for _, key := range someKeys() {
			ask(t, h, key)
			if wantEnforced(step, key) == algorithms.Candidate {
				enforced++
			}
		}
	}

	use(stages.Step{Stage: stages.Shadow})
	if compared, ticked := counted(t, h, client); compared != int64(len(someKeys())) || ticked != 0 {
		t.Errorf("shadow: %d compared, want %d; %d in ticks", compared, len(someKeys()), ticked)
	}

	half := stages.Step{Stage: stages.Canary, Percent: 50}
	advance(t, inside.Stages(h), policy, half)
	syncNow(t, h)
	use(half)
	if compared, ticked := counted(t, h, client); compared != 2*int64(len(someKeys())) || ticked != enforced {
		t.Errorf("canary: %d compared; %d in ticks, want %d", compared, ticked, enforced)
	}

	promoted := stages.Step{Stage: stages.Promoted}
	advance(t, inside.Stages(h), policy, promoted)
	syncNow(t, h)
	use(promoted)
	if _, ticked := counted(t, h, client); ticked != enforced {
		t.Errorf("promoted: %d in ticks, want %d", ticked, enforced)
	}
}

// wantErrors compares how often expressions of the policy failed.
func wantErrors(t *testing.T, h *shadow.Harness, want int) {
	t.Helper()
	text, err := testutil.CollectAndFormat(h, expfmt.TypeTextPlain, "shadowlimit_policy_errors_total")
	if err != nil {
		t.Fatal(err)
	}
	if line := fmt.Sprintf("policy=\"per-user\"} %d\n", want); !strings.Contains(string(text), line) {
		t.Errorf("no %q in\n%s", line, text)
	}
}

// After a promotion first decides nothing, and the key is not asked.
func TestFirstIsAskedWhereItDecides(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, promoting(`first: 'int(key[0]) > 0'`), shadow.Config{Redis: client})
	advance(t, inside.Stages(h), policy, stages.Step{Stage: stages.Promoted})
	syncNow(t, h)

	ask(t, h, "no number")
	wantErrors(t, h, 0)
	if compared, _ := counted(t, h, client); compared != 1 {
		t.Errorf("%d compared", compared)
	}
}

// An expression that fails is counted and logged, the hash decides, and the request is charged.
func TestAFirstThatFailsIsCounted(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(promoting(`first: 'int(key[0]) > 0'`)))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	h, err := shadow.New(shadow.Config{Policies: set, Logger: slog.New(slog.NewTextHandler(&log, nil)), StateDir: t.TempDir()})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(ctx(t))

	advance(t, inside.Stages(h), policy, stages.Step{Stage: stages.Canary, Percent: 50})
	syncNow(t, h)

	for _, key := range someKeys() {
		want := algorithms.Authoritative
		if evidence.InCanary(evidence.Hash(name, policy, key), 50) {
			want = algorithms.Candidate
		}
		if d := ask(t, h, key); d.Enforced != want || d.Policy != policy {
			t.Errorf("%s has the %s of %q, want the %s", key, d.Enforced, d.Policy, want)
		}
	}

	wantErrors(t, h, len(someKeys()))

	// The log is complete when its writers are gone, and one kind of failure is one line a minute.
	h.Close(ctx(t))
	if n := strings.Count(log.String(), "first fails; the key is not pinned"); n != 1 {
		t.Errorf("%d lines of it in the log:\n%s", n, log.String())
	}
}

// What a request pays for first, in the stage in which it is asked for.
func BenchmarkDecidePinned(b *testing.B) {
	h := open(b, promoting(oursFirst), shadow.Config{})
	advance(b, inside.Stages(h), policy, stages.Step{Stage: stages.Canary, Percent: 50})
	syncNow(b, h)
	r := &policies.Request{User: "alice"}
	b.ReportAllocs()
	for b.Loop() {
		h.Decide(context.Background(), r)
	}
}
