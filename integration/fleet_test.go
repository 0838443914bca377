package integration

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// command is the program, built once.
var command = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "shadowlimit")
	build := exec.Command("go", "build", "-o", path, "./cmd/shadowlimit")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// shell runs the program against a fleet.
func shell(t *testing.T, s server, name string, args ...string) (status int, out string) {
	t.Helper()

	path, err := command()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(path, append(args, "--redis", "redis://"+s.addr, "--name", name)...)
	text, err := cmd.CombinedOutput()

	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}

	return cmd.ProcessState.ExitCode(), string(text)
}

// Several processes on one Redis count together and move together. The commands name a
// process that does not follow.
func TestFleetOfProcesses(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		name := namespace()
		const instances, users, asks = 4, 50, 7

		fleet := make([]*service, instances)
		for i := range fleet {
			fleet[i] = startService(t, s.addr, name)
		}

		served := load(t, fleet, users, asks)
		if want := users * 5; served != want {
			t.Errorf("%d requests were served, want 5 of each of %d users", served, users)
		}

		expect := func(status int, want string, args ...string) {
			t.Helper()
			if got, out := shell(t, s, name, args...); got != status || !strings.Contains(out, want) {
				t.Errorf("%s: status %d, want %d with %q:\n%s", args, got, status, want, out)
			}
		}

		expect(3, "the verdict is wait", "promote", "per-user", "--reason", "too early")
		expect(0, "4/4 applied", "promote", "per-user", "--full", "--force", "--reason", "test", "--timeout", "2s")
		checkStage(t, fleet, "promoted")

		// A process that hangs is named, and follows when it continues.
		if err := fleet[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		expect(5, "not applied by", "pause", "per-user", "--timeout", "1s")
		if err := fleet[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		expect(0, "4/4 applied", "resume", "per-user", "--timeout", "10s")

		expect(0, "4/4 applied", "rollback", "per-user", "--reason", "test", "--timeout", "2s")
		checkStage(t, fleet, "rolled_back")

		// The authoritative has kept counting while the candidate was enforced.
		if served = load(t, fleet, users, 1); served != 0 {
			t.Errorf("%d more were served after the rollback, want none: all budgets are used up", served)
		}

		counted := comparisons(t, fleet)
		for _, one := range fleet {
			one.stop(t)
		}
		checkLedger(t, s, name, counted)
	})
}

// checkStage holds that every instance has applied the stage that it has acknowledged.
func checkStage(t *testing.T, fleet []*service, stage string) {
	t.Helper()
	for i, one := range fleet {
		if n := one.metric(t, "shadowlimit_stage", `stage="`+stage+`"`); n != 1 {
			t.Errorf("instance %d has acknowledged %s and has not applied it", i, stage)
		}
	}
}

// comparisons returns the counters of all instances together, by outcome.
func comparisons(t *testing.T, fleet []*service) map[string]int64 {
	t.Helper()

	counted := map[string]int64{}
	for _, one := range fleet {
		for _, outcome := range []string{"agree_allow", "agree_deny", "newly_denied", "newly_allowed", "candidate_error"} {
			counted[outcome] += one.metric(t, "shadowlimit_comparisons_total", `outcome="`+outcome+`"`)
		}
	}
	return counted
}

// load lets every user ask the instances in turn and returns the number of requests that
// were served.
func load(t *testing.T, fleet []*service, users, asks int) (served int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for n := range asks {
				status, _ := fleet[(user+n)%len(fleet)].get(t, "/", fmt.Sprint("user-", user))

				mu.Lock()
				if status == 200 {
					served++
				}
				mu.Unlock()
			}
		})
	}

	all.Wait()
	return served
}

// checkLedger compares the whole ledger with the counters of the instances.
func checkLedger(t *testing.T, s server, name string, counted map[string]int64) {
	t.Helper()

	client := clientOf(t, s)
	store, ledger := stages.NewRedisStore(client, name), evidence.NewRedisLedger(client, name)

	states, err := store.States(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}

	heard, err := store.Heartbeat(t.Context(), stages.Heartbeat{})
	if err != nil {
		t.Fatal(err)
	}
	now := heard.Now

	h, err := evidence.NewReader(ledger, states[0].LedgerID("per-user"), now.Add(-time.Hour)).History(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}

	got := status.Summarize(h.Total())
	for outcome, n := range map[string]int64{
		"agree_allow": got.AgreeAllow, "agree_deny": got.AgreeDeny,
		"newly_denied": got.NewlyDenied, "newly_allowed": got.NewlyAllowed, "candidate_error": got.CandidateError,
	} {
		if n != counted[outcome] {
			t.Errorf("%s: the ledger has %d, the instances counted %d", outcome, n, counted[outcome])
		}
	}

	if got.Comparisons == 0 {
		t.Error("the ledger is empty")
	}
	if f, err := store.Fleet(t.Context()); err != nil || len(f.Instances) != 0 {
		t.Errorf("instances %v are listed after all have ended, %v", f.Instances, err)
	}
}
