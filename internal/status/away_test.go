package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// own puts both sides into the service's own Redis, by a rule for failures.
func own(a *promotion.Assessment, rule string) {
	a.Spec.AsksStore, a.Spec.OnStoreFailure = [2]bool{true, true}, rule
}

// An instance sends heartbeats again before its limiter's breaker has closed. Until then its requests fall back, and the repair is not over.
func TestOwnStoreIsUnreachableUntilTheLastBreakerCloses(t *testing.T) {
	denies := func(a *promotion.Assessment) {
		own(a, promotion.FailDeny)
		a.Live[0].OwnStoreUnreachable = true
	}
	a := assessed(promotion.Promoted, denies)
	if p := reportOf(t, a); !matches(p.StoreUnreachable, "own Redis.*authoritative.* 1 of 1 .* 36 s.* deny: .*repair") || !p.Instances[0].OwnStoreUnreachable {
		t.Error(p.StoreUnreachable)
	}
	repairs := func(s status.Step) bool { return matches(s.Text, "repair.*own Redis") }
	if steps := reportOf(t, a).Next; !a.RollbackDenies() || !slices.ContainsFunc(steps, repairs) {
		t.Errorf("a rollback: %t, %+v", a.RollbackDenies(), steps)
	}

	// A custom limiter has no name of a store either, and is in none.
	custom := assessed(promotion.Promoted, func(a *promotion.Assessment) {
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
	for stage, want := range map[promotion.Stage]string{
		promotion.Canary: want, promotion.Promoted: want, promotion.Shadow: "", promotion.Completed: "",
	} {
		a := assessed(stage, func(a *promotion.Assessment) {
			a.Spec.CandidateStore, a.Live[0].Failing = "west", []string{"west"}
		})
		if p := reportOf(t, a); !matches(p.FallbackActive, want) {
			t.Errorf("%s: %s, want %s", stage, p.FallbackActive, want)
		}
	}
}

// Nothing stands in for a first limit: its policy's rule decides while its store is away, and nobody is harmed in shadow.
func TestNothingStandsInForAFirstLimit(t *testing.T) {
	for stage, want := range map[promotion.Stage]string{
		promotion.Canary: "own Redis.*candidate.* deny", promotion.Promoted: "own Redis.*candidate.* deny", promotion.Shadow: "",
	} {
		a := assessed(stage, func(a *promotion.Assessment) {
			own(a, promotion.FailDeny)
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
	unheard := func(rule string, refused error) promotion.Assessment {
		return assessed(promotion.Promoted, func(a *promotion.Assessment) {
			own(a, rule)
			a.Silent, a.Live, a.Refused = a.Live, nil, refused
			a.Silent[0].At = a.Looked().Add(-25 * time.Second)
		})
	}

	for rule, want := range map[string]string{
		promotion.FailDeny: "deny denies every request", promotion.FailAllow: "allow limits no request", promotion.FailLocal: "its share of the limit",
	} {
		if p := reportOf(t, unheard(rule, nil)); !matches(p.NoHeartbeats, of+want) || p.StoreUnreachable != "" {
			t.Errorf("%s: %s, %s; want %s", rule, p.NoHeartbeats, p.StoreUnreachable, want)
		}
	}

	p := reportOf(t, unheard(promotion.FailDeny, reply("OOM command not allowed when used memory > 'maxmemory'.")))
	if !matches(p.StoreUnreachable, "authoritative.*refuses writes.*OOM.* deny: .*repair") || !matches(p.NoHeartbeats, of+"OOM") {
		t.Errorf("refused: %s\n%s", p.StoreUnreachable, p.NoHeartbeats)
	}
	if p := reportOf(t, assessed(promotion.Promoted, nil)); p.NoHeartbeats != "" {
		t.Errorf("with a live instance: %s", p.NoHeartbeats)
	}
}

// An instance of another fingerprint enforces the authoritative of its own file, whatever the fleet's stage.
func TestEnforcedNamesInstancesOfAnotherFingerprint(t *testing.T) {
	for stage, want := range map[promotion.Stage]string{
		promotion.Promoted: "^candidate .*authoritative on 1 instance", promotion.Shadow: "^authoritative$",
	} {
		a := assessed(stage, func(a *promotion.Assessment) {
			applied := a.Live[0].Policies["writes"]
			applied.Fingerprint = "another"
			a.Live = append(a.Live, promotion.Instance{ID: "odd", At: now, Policies: map[string]promotion.Applied{"writes": applied}})
		})
		p := reportOf(t, a)
		if !matches(p.EnforcedText(), want) || strings.Contains(p.Enforced, " ") {
			t.Errorf("%s: %s, %s", stage, p.EnforcedText(), p.Enforced)
		}
	}
}
