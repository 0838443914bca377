package shadow_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// setOf reads a file, changed by pairs of old and new text.
func setOf(t testing.TB, changes ...string) *policies.Set {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(strings.NewReplacer(changes...).Replace(file)))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestReloadKeepsWhatIsNotTouched(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client})
	store := stages.NewRedisStore(client, name)
	sync := func() {
		t.Helper()
		syncNow(t, h)
	}

	sync()
	advance(t, store, policy, stages.Step{Stage: stages.Canary, Percent: 100})
	sync()
	ask(t, h, "alice")

	if err := h.Reload(setOf(t, "key: request.user", "key: request.user\n    cost: '1'\n    on_error: deny")); err != nil {
		t.Fatal(err)
	}

	sync()
	ask(t, h, "alice")
	sync()
	a := assess(t, client)
	got := a.Evidence.History.Total()
	if a.State.Stage != stages.Canary || got[evidence.AgreeAllow] != 1 || got[evidence.NewlyDenied] != 1 {
		t.Errorf("with another cost the policy is %s with %v, want the canary and both comparisons",
			a.State.Describe(), got)
	}

	if err := h.Reload(setOf(t, "limit: 1,", "limit: 3,")); err != nil {
		t.Fatal(err)
	}
	if d := ask(t, h, "bob"); d.Limit != 2 {
		t.Errorf("before the fleet has heard of the new candidate, %+v decides", d)
	}

	sync()
	if d := ask(t, h, "bob"); d.Enforced.String() != "authoritative" {
		t.Errorf("while the former candidate is stored, %+v decides", d)
	}
}

// The series of a policy go with it.
func TestReloadForgetsPoliciesThatAreGone(t *testing.T) {
	h := open(t, file, shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr())})
	ask(t, h, "alice")
	syncNow(t, h) // the instance knows the stage
	before, _ := series(t, h)
	for n := range 5 {
		if err := h.Reload(setOf(t, "name: per-user", "name: other-"+string(rune('a'+n)))); err != nil {
			t.Fatal(err)
		}
		ask(t, h, "alice")
	}

	syncNow(t, h)
	if after, _ := series(t, h); after != before {
		t.Errorf("%d series after five policies in a row, %d with one", after, before)
	}

	// So do those of a candidate that is compared no more.
	for _, limit := range []string{"limit: 3,", "limit: 1,"} {
		if err := h.Reload(setOf(t, "limit: 1,", limit)); err != nil {
			t.Fatal(err)
		}
		ask(t, h, "alice")
		if after, _ := series(t, h); after > before { // one less until the stage is known again
			t.Errorf("%d series after another candidate in a row, %d with one", after, before)
		}
	}
}

func TestReloadRefusesAndKeepsTheLastGood(t *testing.T) {
	h := open(t, file, shadow.Config{})
	refused := map[string]*policies.Set{
		`the name is "other"`:   setOf(t, "name: test", "name: other"),
		`no limiter "mine"`:     setOf(t, "{ algorithm: gcra, limit: 1, window: 1h }", "{ limiter: mine }"),
		`no store "elsewhere"`:  setOf(t, "algorithm: gcra", "store: elsewhere, algorithm: gcra"),
		"policies are required": nil,
	}

	for want, set := range refused {
		if err := h.Reload(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		if got := metric(t, h, "shadowlimit_config_last_reload_successful"); got != 0 {
			t.Errorf("%s: successful is %g", want, got)
		}
	}

	if n := allowed(t, h, "alice"); n != 2 {
		t.Errorf("%d allowed, want the last good policy's 2", n)
	}
}

// metric returns the sum of a metric's values.
func metric(t testing.TB, h prometheus.Collector, name string) float64 {
	return metricOf(t, h, name, "")
}

// comparisons returns how often an outcome was counted.
func comparisons(t testing.TB, h prometheus.Collector, outcome string) float64 {
	return metricOf(t, h, "shadowlimit_comparisons_total", outcome)
}

// metricOf returns the sum of a metric's values that have a label of that value.
func metricOf(t testing.TB, h prometheus.Collector, name, value string) (sum float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(h)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, f := range families {
		for _, m := range f.GetMetric() {
			hasValue := func(l *dto.LabelPair) bool { return l.GetValue() == value }
			labelled := slices.ContainsFunc(m.GetLabel(), hasValue)
			if f.GetName() == name && (value == "" || labelled) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestFileIsWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	write(file)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h, err := shadow.New(shadow.Config{File: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		began := metric(t, h, "shadowlimit_config_last_reload_success_timestamp_seconds")
		steps := []struct {
			text       string
			allowed    int
			successful float64
		}{
			{file, 2, 1},
			{strings.Replace(file, "limit: 2", "limit: 4", 1), 4, 1},
			{strings.Replace(file, "limit: 2", "limit: two", 1), 4, 0},
			{"", 4, 0},
			{strings.Replace(file, "limit: 2", "limit: 4", 1), 4, 1},
			{strings.Replace(file, "limit: 2", "limit: 5", 1), 5, 1},
		}

		for i, step := range steps {
			write(step.text)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			user := strings.Repeat("u", i+1)
			if n := allowed(t, h, user); n != step.allowed {
				t.Errorf("step %d: %d allowed, want %d", i, n, step.allowed)
			}
			if got := metric(t, h, "shadowlimit_config_last_reload_successful"); got != step.successful {
				t.Errorf("step %d: successful is %g, want %g", i, got, step.successful)
			}
			if got := lookStale(t, h.StatusPage()).Here.FileTrouble; (got == "") != (step.successful == 1) {
				t.Errorf("step %d: the page says %q", i, got)
			}
		}

		// The fifth step brings back the file in use, and that ends a failure, too.
		if n := strings.Count(log.String(), "the policy file is valid again and in use"); n != 1 {
			t.Errorf("the repair was logged %d times:\n%s", n, log.String())
		}

		got := metric(t, h, "shadowlimit_config_last_reload_success_timestamp_seconds")
		if got <= began || got > float64(time.Now().Unix()) {
			t.Errorf("last success at %g, began at %g", got, began)
		}
	})
}

// A file that is read while it is written is not used, though half of it is valid.
func TestHalfAFileIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	whole := file + "  - name: second\n    key: request.user\n    authoritative: { algorithm: gcra, limit: 1, window: 1h }\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	write(whole)
	synctest.Test(t, func(t *testing.T) {
		h, err := shadow.New(shadow.Config{File: path, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		time.Sleep(1500 * time.Millisecond) // between two readings
		for range 5 {
			write(file)
			time.Sleep(time.Second)
			synctest.Wait()
			write(whole)
			time.Sleep(time.Second)
			synctest.Wait()
		}

		if n := allowed(t, h, "u"); n != 1 {
			t.Errorf("%d allowed, want 1 by the second policy", n)
		}
	})
}

// During reloads every request is judged by one file or the other as a whole, and every
// comparison is counted.
func TestReloadUnderLoad(t *testing.T) {
	h := open(t, file, shadow.Config{})
	sets := []*policies.Set{
		setOf(t, "limit: 2", "limit: 1000000"),
		setOf(t, "limit: 2", "limit: 2000000", "request.user", "request.user + 'x'"),
	}

	if err := h.Reload(sets[0]); err != nil {
		t.Fatal(err)
	}

	const workers, requests = 4, 2000
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for range requests {
				if d := ask(t, h, "alice"); !d.Allowed || d.Limit != 1000000 && d.Limit != 2000000 {
					t.Errorf("%+v", d)
					return
				}
			}
		})
	}

	for i := range 50 {
		if err := h.Reload(sets[i%2]); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
}

// promote has the candidate of a service enforced.
func promote(t testing.TB, h *shadow.Harness, client redis.UniversalClient) {
	t.Helper()
	syncNow(t, h)
	advance(t, stages.NewRedisStore(client, name), policy, stages.Step{Stage: stages.Promoted})
	syncNow(t, h)
}

func TestReloadTellsTheFleetOfNewThresholds(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client})
	syncNow(t, h)

	const candidate = "candidate: { algorithm: gcra, limit: 1, window: 1h }"
	automatic := setOf(t, candidate, candidate+"\n    promotion: { mode: automatic, soak: 72h }")
	if err := h.Reload(automatic); err != nil {
		t.Fatal(err)
	}

	h.Sync(ctx(t))

	a := assess(t, client)
	if !a.Spec.Config.Automatic || a.Spec.Config.Soak != 72*time.Hour {
		t.Errorf("fleet judges by %+v", a.Spec.Config)
	}
}

// The counts of a policy stay when the policy is removed and comes back unchanged.
func TestPolicyThatComesBackKeepsItsEvidence(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	two := file + strings.Replace(file[strings.Index(file, "  - name"):], "per-user", "other", 1)
	h := open(t, two, shadow.Config{Redis: client})
	for range 5 {
		ask(t, h, "alice")
	}

	h.Sync(ctx(t))
	load := func(s string) {
		set, err := policies.Load("t", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Reload(set); err != nil {
			t.Fatal(err)
		}
		h.Sync(ctx(t))
	}

	load(strings.Replace(two, "per-user", "renamed", 1))
	load(two)
	ask(t, h, "alice")
	h.Sync(ctx(t))
	list, err := stages.NewController(stages.NewRedisStore(client, name), ledgerOf(client), "x").Assess(ctx(t))
	if err != nil {
		t.Fatal(err)
	}

	for _, a := range list {
		if got := a.Evidence.History.Total(); a.Spec.Policy == policy && got.Comparisons() != 6 {
			t.Errorf("counted %v, want 5 comparisons from before and 1 more", got)
		}
	}
}
