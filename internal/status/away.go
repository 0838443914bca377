package status

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// StoreFailure says what decides while the store of the enforced side does not answer, by the policy's on_store_failure;
// "" where no instance has announced it.
func StoreFailure(rule string) string {
	switch rule {
	case "":
		return ""
	case stages.FailLocal:
		return "local: each instance applies its share of the limit (on_store_failure)"
	case stages.FailAllow:
		return "allow: every request is allowed (on_store_failure)"
	case stages.FailDeny:
		return "deny: every request is denied (on_store_failure)"
	}
	return rule + " (on_store_failure)"
}

// StoreUnreachable says that a store does not answer, and what that means now or after a rollback; "" if the store of the side that
// decides and that of the authoritative answer, as far as the live instances say. It needs no evidence.
func StoreUnreachable(a *stages.Assessment) string {
	rule := a.Spec.OnStoreFailure
	away, candidateAway := a.Away(), a.CandidateAway()

	stage := a.State.Stage
	switch {
	case (stage == stages.Completed || standsAlone(a)) && len(candidateAway) > 0:
		return awayFrom(a, algorithms.Candidate, candidateAway) + awayNow(rule)
	case len(away) == 0:
		return ""
	}

	// A stage that could not be read may be one whose candidate decides: a rollback must not end what still works.
	if stage != stages.Shadow && stage != stages.RolledBack && len(candidateAway) == 0 {
		return awayFrom(a, algorithms.Authoritative, away) + awayAfterRollback(rule)
	}
	return awayFrom(a, algorithms.Authoritative, away) + awayNow(rule)
}

// FallbackActive says that the authoritative decides in the place of an enforced candidate whose store does not answer; "" if it
// answers, or neither side does.
func FallbackActive(a *stages.Assessment) string {
	away := a.CandidateAway()
	if len(away) == 0 || len(a.Away()) > 0 || !exposed(a) || standsAlone(a) {
		return ""
	}
	return awayFrom(a, algorithms.Candidate, away) + "; the authoritative decides there in its place"
}

// exposed reports whether the candidate decides for some keys, and something else for others or after a rollback.
func exposed(a *stages.Assessment) bool {
	return a.State.Stage == stages.Canary || a.State.Stage == stages.Promoted
}

// standsAlone reports whether an enforced candidate has no authoritative to stand in for it: it is a first limit.
func standsAlone(a *stages.Assessment) bool { return a.Spec.FirstLimit && exposed(a) }

// NoHeartbeats says that no instance has sent a heartbeat recently, although their Redis answers; "" if one has, or none is known. That
// Redis may refuse their writes: then every limit fails, and nothing else in a report shows it.
func NoHeartbeats(a *stages.Assessment) string {
	if len(a.Live) > 0 || len(a.Silent) == 0 {
		return ""
	}
	last := a.Silent[0].At
	for _, i := range a.Silent {
		if i.At.After(last) {
			last = i.At
		}
	}

	text := fmt.Sprintf("0 of %d live: no instance has written to the service's Redis for %s, although it answers this report",
		len(a.Silent), age(a.Looked().Sub(last)))
	if a.Refused != nil {
		return text + ": it refuses writes (" + redisreply.Reason(a.Refused) + ")"
	}
	return text + ": they have stopped, or cannot reach it, or it refuses their writes (OOM, READONLY, rights); then " +
		meanwhile(a.Spec.OnStoreFailure)
}

// meanwhile says what clients get from instances that can write nothing.
func meanwhile(rule string) string {
	switch rule {
	case stages.FailDeny:
		return "on_store_failure: deny denies every request now"
	case stages.FailAllow:
		return "on_store_failure: allow limits no request now"
	}
	return "each instance applies its share of the limit now"
}

// dataLost says that a store has lost what a side remembers; "" if a window has passed since.
func dataLost(a *stages.Assessment) string {
	if a.LostUntil.IsZero() || !a.LostUntil.After(a.Looked()) {
		return ""
	}
	return "a store has lost what a side remembers: clients may have fresh budgets, and the time until " + instant(a.LostUntil) + " is no evidence"
}

// storeOf names the store of a side.
func storeOf(a *stages.Assessment, role algorithms.Role) string {
	if store := [2]string{a.Spec.Store, a.Spec.CandidateStore}[role]; store != "" {
		return "the store " + store + " of the " + role.String()
	}
	return "the service's own Redis, the store of the " + role.String() + ","
}

// awayFrom says on how many instances a side's store does not answer.
func awayFrom(a *stages.Assessment, role algorithms.Role, away []string) string {
	own := [2]string{a.Spec.Store, a.Spec.CandidateStore}[role] == ""
	if own && a.Refused != nil {
		return storeOf(a, role) + " refuses writes (" + redisreply.Reason(a.Refused) + ")"
	}

	text := fmt.Sprintf("%s does not answer on %d of %d live instances", storeOf(a, role), len(away), len(a.Live))
	if own {
		text += " (it takes their heartbeats; each asks it again within 36 s)"
	}
	return text
}

// awayAfterRollback says what a rollback would do, to an authoritative whose store is away.
func awayAfterRollback(rule string) string {
	switch rule {
	case stages.FailDeny:
		return ", and on_store_failure is deny: do not roll back and press no button, because every request there would be " +
			"denied; repair that store first"
	case stages.FailAllow:
		return ", and on_store_failure is allow: after a rollback no request there is limited; repair that store first, " +
			"unless running without any limit is safer than the candidate"
	}
	return "; after a rollback each instance there applies its share of the authoritative's limit"
}

// awayNow says what decides now, where no side that decides is left.
func awayNow(rule string) string {
	switch rule {
	case stages.FailDeny:
		return ", and on_store_failure is deny: every request there is denied now; repair that store"
	case stages.FailAllow:
		return ", and on_store_failure is allow: no request there is limited now; repair that store"
	}
	return "; each instance there applies its share of the limit until it answers"
}
