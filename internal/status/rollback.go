package status

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// AfterRollback says what clients get after a rollback, where that is not what the authoritative always decides; else "".
func AfterRollback(a *stages.Assessment) string {
	switch hurt := a.RollbackHurts(); {
	case a.Spec.FirstLimit && a.State.Stage != stages.Shadow:
		return "no request is limited: there is no authoritative"
	case len(hurt) > 0:
		text := fmt.Sprintf("%s is away on %d of %d instances: ", storeName(a), len(hurt), len(a.Live))
		switch a.Spec.OnStoreFailure {
		case stages.FailDeny:
			return text + "every request there is denied"
		case stages.FailAllow:
			return text + "no request there is limited"
		}
		return text + "each applies its share of the limit"
	case a.Unasked():
		return storeName(a) + " has not been asked since it was completed; every client begins afresh"
	case a.State.Stage == stages.Completed:
		return "the authoritative is cold: every client begins with a fresh budget"
	}
	return ""
}

// storeName is the authoritative's store, in short.
func storeName(a *stages.Assessment) string {
	if a.Spec.Store == "" {
		return "the service's own Redis"
	}
	return "store " + a.Spec.Store
}

// RollbackRefused says why a rollback would be worse than none, and what to repair; "" if it is safe.
func RollbackRefused(a *stages.Assessment) string {
	const rule = ", and on_store_failure is deny: every request "
	switch {
	case a.RollbackDenies():
		return awayFrom(a, algorithms.Authoritative, a.RollbackHurts()) + rule + "there would be denied; repair that store first"
	case a.RollbackMayDeny():
		return "it is completed, so no instance knows whether " + storeOf(a, algorithms.Authoritative) + " answers" + rule +
			"would be denied if not; see that it answers first"
	}
	return ""
}

// RepairCommand is the command that says what to repair about the authoritative's store.
func RepairCommand(a *stages.Assessment) string {
	if a.Spec.Store == "" {
		return "shadowlimit doctor"
	}
	return "shadowlimit doctor --redis redis://HOST:6379    # HOST of the store " + a.Spec.Store
}
