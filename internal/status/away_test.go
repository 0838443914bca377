package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// own puts both sides into the service's own Redis, by a rule for failures.
func own(a *promotion.Assessment, rule string) {
	a.Spec.AsksStore, a.Spec.OnStoreFailure = [2]bool{true, true}, rule
}

// An instance beats again before its limiter's breaker has closed. Until then its requests fall back, and the repair is not over.
func TestOwnStoreIsAwayUntilTheLastBreakerCloses(t *testing.T) {
	denies := func(a *promotion.Assessment) {
		own(a, promotion.FailDeny)
		a.Live[0].OwnStoreAway = true
	}
	const want = "the service's own Redis, the store of the authoritative, does not answer on 1 of 1 live instances (it takes their " +
		"beats; each asks it again within 36 s), and on_store_failure is deny: every request there is denied now; repair that store"
	a := assessed(promotion.Promoted, denies)
	if p := reportOf(t, a); p.StoreAway != want || !p.Instances[0].OwnStoreAway {
		t.Errorf("%s, want\n%s", p.StoreAway, want)
	}
	if !a.RollbackDenies() || !strings.Contains(reportOf(t, a).NextStep, "repair the service's own Redis") {
		t.Errorf("a rollback: %t, %s", a.RollbackDenies(), reportOf(t, a).NextStep)
	}

	// A foreign limiter has no name of a store either, and is in none.
	foreign := assessed(promotion.Promoted, func(a *promotion.Assessment) {
		denies(a)
		a.Spec.AsksStore = [2]bool{}
	})
	if p := reportOf(t, foreign); p.StoreAway != "" || foreign.RollbackDenies() {
		t.Errorf("of a foreign limiter: %s", p.StoreAway)
	}
}

// The authoritative answers for a candidate whose store is dead: the word enforced alone would tell a reader the opposite.
func TestStandInIsShown(t *testing.T) {
	const want = "the store west of the candidate does not answer on 1 of 1 live instances; the authoritative decides there in its place"
	for stage, want := range map[promotion.Stage]string{
		promotion.Canary: want, promotion.Promoted: want, promotion.Shadow: "", promotion.Completed: "",
	} {
		a := assessed(stage, func(a *promotion.Assessment) {
			a.Spec.CandidateStore, a.Live[0].Failing = "west", []string{"west"}
		})
		if p := reportOf(t, a); p.StandsIn != want {
			t.Errorf("%s: %s, want %s", stage, p.StandsIn, want)
		}
	}
}

// Where no instance beats and Redis answers, the instances may have stopped, or every request is denied: the text is true of both.
func TestNotHeardDoesNotComfort(t *testing.T) {
	const (
		of    = "0 of 1 live: no instance has written to the service's Redis for 25 s, although it answers this report"
		maybe = of + ". They have stopped, or cannot reach it, or it refuses their writes (OOM, READONLY, rights): then "
		next  = "; next: shadowlimit doctor; and open the status page of an instance"
	)
	unheard := func(rule string, refused error) promotion.Assessment {
		return assessed(promotion.Promoted, func(a *promotion.Assessment) {
			own(a, rule)
			a.Silent, a.Live, a.Refused = a.Live, nil, refused
			a.Silent[0].At = a.Looked().Add(-25 * time.Second)
		})
	}

	for rule, want := range map[string]string{
		promotion.FailDeny:  maybe + "on_store_failure: deny denies every request now" + next,
		promotion.FailAllow: maybe + "on_store_failure: allow limits no request now" + next,
		promotion.FailLocal: maybe + "each instance applies its share of the limit now" + next,
	} {
		if p := reportOf(t, unheard(rule, nil)); p.NotHeard != want || p.StoreAway != "" {
			t.Errorf("%s: %s, %s; want %s", rule, p.NotHeard, p.StoreAway, want)
		}
	}

	p := reportOf(t, unheard(promotion.FailDeny, reply("OOM command not allowed when used memory > 'maxmemory'.")))
	const oom = "refuses writes (OOM: Redis has no memory left (maxmemory))"
	const away = "the service's own Redis, the store of the authoritative, " + oom +
		", and on_store_failure is deny: every request there is denied now; repair that store"
	if p.StoreAway != away || p.NotHeard != of+": it "+oom+next {
		t.Errorf("refused: %s\n%s", p.StoreAway, p.NotHeard)
	}
	if p := reportOf(t, assessed(promotion.Promoted, nil)); p.NotHeard != "" {
		t.Errorf("with a live instance: %s", p.NotHeard)
	}
}

// An instance of another epoch enforces the authoritative of its own file, whatever the fleet's stage.
func TestEnforcedNamesInstancesOfAnotherEpoch(t *testing.T) {
	for stage, want := range map[promotion.Stage]string{
		promotion.Promoted: "candidate (authoritative on 1 instance of another epoch)", promotion.Shadow: "authoritative",
	} {
		a := assessed(stage, func(a *promotion.Assessment) {
			applied := a.Live[0].Policies["writes"]
			applied.Epoch = "another"
			a.Live = append(a.Live, promotion.Instance{ID: "odd", At: now, Policies: map[string]promotion.Applied{"writes": applied}})
		})
		p := reportOf(t, a)
		if p.EnforcedText() != want || p.Enforced == want && stage == promotion.Promoted {
			t.Errorf("%s: %s, %s", stage, p.EnforcedText(), p.Enforced)
		}
	}
}
