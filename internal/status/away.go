package status

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// StoreFailure says what decides while the store of the enforced side does not answer, by the policy's on_store_failure;
// "" where no instance has announced it.
func StoreFailure(rule string) string {
	switch rule {
	case "":
		return ""
	case promotion.FailLocal:
		return "local: each instance applies its share of the limit (on_store_failure)"
	case promotion.FailAllow:
		return "allow: every request is allowed (on_store_failure)"
	case promotion.FailDeny:
		return "deny: every request is denied (on_store_failure)"
	}
	return rule + " (on_store_failure)" // of a later release
}

// StoreAway says that a store does not answer, and what that means now or after a rollback; "" if the store of the side that
// decides and that of the authoritative answer, as far as the live instances say. It needs no evidence.
func StoreAway(a *promotion.Assessment) string {
	rule := a.Spec.OnStoreFailure
	away, candidateAway := a.Away(), a.AwayFrom(a.Spec.CandidateStore)

	stage := a.State.Stage
	switch {
	case stage == promotion.Completed && len(candidateAway) > 0:
		return awayFrom(a, algorithms.Candidate, candidateAway) + awayNow(rule)
	case len(away) == 0:
		return ""
	}

	// A stage that could not be read may be one whose candidate decides: a rollback must not end what still works.
	if stage != promotion.Shadow && stage != promotion.RolledBack && len(candidateAway) == 0 {
		return awayFrom(a, algorithms.Authoritative, away) + awayAfterRollback(rule)
	}
	return awayFrom(a, algorithms.Authoritative, away) + awayNow(rule)
}

// awayFrom says on how many instances a side's store does not answer.
func awayFrom(a *promotion.Assessment, role algorithms.Role, away []string) string {
	store := [2]string{a.Spec.Store, a.Spec.CandidateStore}[role]
	return fmt.Sprintf("the store %s of the %s does not answer on %d of %d live instances", store, role, len(away), len(a.Live))
}

// ColdRollback says what a rollback of a completed policy would do.
func ColdRollback(a *promotion.Assessment) string {
	const cold = "the authoritative is cold: no request has been charged to it since the migration was completed, " +
		"so every client starts with a fresh budget"
	if !a.Unasked() {
		return cold
	}

	unknown := cold + "; its store " + a.Spec.Store + " is not asked either, so first see that it answers (redis-cli ping)"
	switch a.Spec.OnStoreFailure {
	case promotion.FailDeny:
		return unknown + ": if it does not, every request is denied after a rollback (on_store_failure: deny)"
	case promotion.FailAllow:
		return unknown + ": if it does not, no request is limited after a rollback (on_store_failure: allow)"
	}
	return unknown
}

// awayAfterRollback says what a rollback would do, to an authoritative whose store is away.
func awayAfterRollback(rule string) string {
	switch rule {
	case promotion.FailDeny:
		return ", and on_store_failure is deny: do not roll back and press no button, because every request there would be " +
			"denied; repair that store first"
	case promotion.FailAllow:
		return ", and on_store_failure is allow: after a rollback no request there is limited; repair that store first, " +
			"unless no limit is better than the candidate"
	}
	return "; after a rollback each instance there applies its share of the authoritative's limit"
}

// awayNow says what decides now, where no side that decides is left.
func awayNow(rule string) string {
	switch rule {
	case promotion.FailDeny:
		return ", and on_store_failure is deny: every request there is denied now; repair that store"
	case promotion.FailAllow:
		return ", and on_store_failure is allow: no request there is limited now; repair that store"
	}
	return "; each instance there applies its share of the limit now"
}
