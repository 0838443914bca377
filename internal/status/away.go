package status

import (
	"fmt"

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

// StoreAway says that the authoritative's store does not answer, and what a rollback would do then; "" if it answers as far
// as the live instances say. It needs no evidence.
func StoreAway(a *promotion.Assessment) string {
	away := a.Away()
	if len(away) == 0 {
		return ""
	}

	text := fmt.Sprintf("the store %s of the authoritative does not answer on %d of %d live instances",
		a.Spec.Store, len(away), len(a.Live))
	if !a.State.Exposed() {
		return text + awayNow(a.Spec.OnStoreFailure)
	}
	switch a.Spec.OnStoreFailure {
	case promotion.FailDeny:
		return text + ", and on_store_failure is deny: do not roll back and press no button, because every request there would be " +
			"denied; repair that store first"
	case promotion.FailAllow:
		return text + ", and on_store_failure is allow: after a rollback no request there is limited; repair that store first, " +
			"unless no limit is better than the candidate"
	}
	return text + "; after a rollback each of them applies its share of the authoritative's limit"
}

// awayNow says what decides now, where the authoritative is enforced for every key and its store is away.
func awayNow(rule string) string {
	switch rule {
	case promotion.FailDeny:
		return ", and on_store_failure is deny: every request there is denied now; repair that store"
	case promotion.FailAllow:
		return ", and on_store_failure is allow: no request there is limited now; repair that store"
	}
	return "; each of them applies its share of the authoritative's limit"
}
