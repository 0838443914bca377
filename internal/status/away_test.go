package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// own puts both sides into the service's own Redis, by a rule for failures.
func own(a *stages.Assessment, rule string) {
	a.Spec.AsksStore, a.Spec.OnStoreFailure = [2]bool{true, true}, rule
}

// An instance sends heartbeats again before its limiter's breaker has closed. Until then its requests fall back, and the repair is not over.
func TestOwnStoreIsUnreachableUntilTheLastBreakerCloses(t *testing.T) {
	denies := func(a *stages.Assessment) {
		own(a, stages.FailDeny)
		a.Live[0].OwnStoreUnreachable = true
	}
	elsewhere := assessed(stages.Promoted, func(a *stages.Assessment) {
		denies(a)
		a.Spec.CandidateStore = "west"
	})
	repairs := func(s status.Step) bool { return matches(s.Text, "repair.*own Redis") }
	if steps := reportOf(t, elsewhere).Next; !elsewhere.RollbackDenies() || !slices.ContainsFunc(steps, repairs) {
		t.Errorf("a rollback: %t, %+v", elsewhere.RollbackDenies(), steps)
	}

	// Where both sides are away a rollback makes nothing worse.
	a := assessed(stages.Promoted, denies)
	if a.RollbackDenies() {
		t.Error("a rollback is refused, and every request is denied already")
	}
	if p := reportOf(t, a); !matches(p.StoreUnreachable, "own Redis.*authoritative.* 1 of 1 .* 36 s.* deny: .*repair") || !p.Instances[0].OwnStoreUnreachable {
		t.Error(p.StoreUnreachable)
	}

	// A custom limiter has no name of a store either, and is in none.
	custom := assessed(stages.Promoted, func(a *stages.Assessment) {
		denies(a)
		a.Spec.AsksStore = [2]bool{}
	})
	if p := reportOf(t, custom); p.StoreUnreachable != "" || custom.RollbackDenies() {
		t.Errorf("of a custom limiter: %s", p.StoreUnreachable)
	}
}

// The authoritative answers for a candidate whose store is dead: the word enforced alone would tell a reader the opposite.
func TestFallbackIsShown(t *testing.T) {
	const want = "west.*candidate.* 1 of 1 .*authoritative"
	for stage, want := range map[stages.Stage]string{
		stages.Canary: want, stages.Promoted: want, stages.Shadow: "", stages.Completed: "",
	} {
		a := assessed(stage, func(a *stages.Assessment) {
			a.Spec.CandidateStore, a.Live[0].Failing = "west", []string{"west"}
		})
		if p := reportOf(t, a); !matches(p.FallbackActive, want) {
			t.Errorf("%s: %s, want %s", stage, p.FallbackActive, want)
		}
	}
}

// Nothing stands in for a first limit: its policy's rule decides while its store is away, and nobody is harmed in shadow.
func TestNothingStandsInForAFirstLimit(t *testing.T) {
	for stage, want := range map[stages.Stage]string{
		stages.Canary: "own Redis.*candidate.* deny", stages.Promoted: "own Redis.*candidate.* deny", stages.Shadow: "",
	} {
		a := assessed(stage, func(a *stages.Assessment) {
			own(a, stages.FailDeny)
			a.Spec.FirstLimit, a.Spec.AsksStore[0], a.Live[0].OwnStoreUnreachable = true, false, true
		})
		p := reportOf(t, a)
		if !matches(p.StoreUnreachable, want) || p.FallbackActive != "" || a.RollbackDenies() || p.Ratios.ExtraLoad != nil {
			t.Errorf("%s: %q, %q, a rollback denies: %t", stage, p.StoreUnreachable, p.FallbackActive, a.RollbackDenies())
		}
	}
}

// Where no instance sends heartbeats and Redis answers, the instances may have stopped, or every request is denied: the text is true of both.
func TestNoHeartbeatsDoesNotComfort(t *testing.T) {
	const of = "0 of 1 live: .* 25 s.*"
	unheard := func(rule string, refused error) stages.Assessment {
		return assessed(stages.Promoted, func(a *stages.Assessment) {
			own(a, rule)
			a.Silent, a.Live, a.Refused = a.Live, nil, refused
			a.Silent[0].At = a.Looked().Add(-25 * time.Second)
		})
	}

	for rule, want := range map[string]string{
		stages.FailDeny: "deny denies every request", stages.FailAllow: "allow limits no request", stages.FailLocal: "its share of the limit",
	} {
		if p := reportOf(t, unheard(rule, nil)); !matches(p.NoHeartbeats, of+want) || p.StoreUnreachable != "" {
			t.Errorf("%s: %s, %s; want %s", rule, p.NoHeartbeats, p.StoreUnreachable, want)
		}
	}

	p := reportOf(t, unheard(stages.FailDeny, reply("OOM command not allowed when used memory > 'maxmemory'.")))
	if !matches(p.StoreUnreachable, "authoritative.*refuses writes.*OOM.* deny: .*repair") || !matches(p.NoHeartbeats, of+"OOM") {
		t.Errorf("refused: %s\n%s", p.StoreUnreachable, p.NoHeartbeats)
	}
	if p := reportOf(t, assessed(stages.Promoted, nil)); p.NoHeartbeats != "" {
		t.Errorf("with a live instance: %s", p.NoHeartbeats)
	}
}

// An instance of another fingerprint enforces the authoritative of its own file, whatever the fleet's stage.
func TestEnforcedNamesInstancesOfAnotherFingerprint(t *testing.T) {
	for stage, want := range map[stages.Stage]string{
		stages.Promoted: "^candidate .*authoritative on 1 instance", stages.Shadow: "^authoritative$",
	} {
		a := assessed(stage, func(a *stages.Assessment) {
			applied := a.Live[0].Policies["writes"]
			applied.Fingerprint = "another"
			a.Live = append(a.Live, stages.Instance{ID: "odd", At: now, Policies: map[string]stages.Applied{"writes": applied}})
		})
		p := reportOf(t, a)
		if !matches(p.EnforcedText(), want) || strings.Contains(p.Enforced, " ") {
			t.Errorf("%s: %s, %s", stage, p.EnforcedText(), p.Enforced)
		}
	}
}

// reply is what a Redis answers in place of its work.
type reply string

func (r reply) Error() string { return string(r) }

func (reply) RedisError() {}
