package status

import (
	"cmp"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// LatelyFailed is for how long a request without an answer is shown on its instance. A store that refuses some commands alone
// opens no breaker, so its failures are all that an instance can show.
const LatelyFailed = 15 * time.Second

// Answering is how a side answers an instance, as that instance knows by itself.
type Answering int

const (
	// Answers is a side without a failure that is known.
	Answers Answering = iota
	// Silent is a side that is not asked: its breaker is open.
	Silent
	// Refusing is a side whose store answers reads and refuses writes, so it can admit no request.
	Refusing
	// Lapsing is a side that has left some requests without an answer within LatelyFailed.
	Lapsing
)

// Outlook is what an instance knows of the sides of a policy.
type Outlook struct {
	Decides [2]bool      // by role: it decides requests; an enforced candidate has the authoritative to stand in for it
	Sides   [2]Answering // by role
	Reasons [2]string    // why, in plain words; "" if that is not known
	// OnStoreFailure is the policy's, in the words of stages.Spec.
	OnStoreFailure string
	// Alone says why the instance divides no limit by the number of instances; "" if it does.
	Alone string
}

// StoreUnreachable says which of the sides that decide on an instance does not answer it, and what decides meanwhile; "" if all
// of them answer. A policy is decided by the authoritative, by an enforced candidate with the authoritative to stand in for
// it, or in completed by the candidate alone.
func (o *Outlook) StoreUnreachable() string {
	away := func(role algorithms.Role) bool { return o.Decides[role] && o.Sides[role] != Answers }
	first, second := away(algorithms.Authoritative), away(algorithms.Candidate)

	switch {
	case !first && !second:
		return ""
	case first && second && o.Sides[0] == Lapsing:
		return "neither side has answered some requests of this instance within the last " + LatelyFailed.String() +
			o.because(algorithms.Authoritative) + o.now(Lapsing)
	case first && second:
		return "neither side answers this instance" + o.because(algorithms.Authoritative) + o.now(o.Sides[0])
	case first && !o.Decides[algorithms.Candidate]:
		return o.sideAway(algorithms.Authoritative) + o.now(o.Sides[0])
	case second && !o.Decides[algorithms.Authoritative]:
		return o.sideAway(algorithms.Candidate) + o.now(o.Sides[1])
	case second:
		return o.sideAway(algorithms.Candidate) + ": the authoritative decides in its place"
	}
	return o.sideAway(algorithms.Authoritative) + awayAfterRollback(o.OnStoreFailure)
}

// sideAway says how a side is away, and why.
func (o *Outlook) sideAway(role algorithms.Role) string {
	text := fmt.Sprintf("the %s does not answer this instance", role)
	switch o.Sides[role] {
	case Refusing:
		text = fmt.Sprintf("the store of the %s refuses the writes of this instance", role)
	case Lapsing:
		text = fmt.Sprintf("the %s has not answered some requests of this instance within the last %s", role, LatelyFailed)
	}
	return text + o.because(role)
}

// because gives the reason of a side, or of the other one where only that is known.
func (o *Outlook) because(role algorithms.Role) string {
	reason := o.Reasons[role]
	if reason == "" && o.Sides[role.Other()] != Answers {
		reason = o.Reasons[role.Other()]
	}
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// doctorNext is the command that says what to repair.
const doctorNext = "; repair that store; next: shadowlimit doctor"

// now says what clients get where no side that decides has answered.
func (o *Outlook) now(as Answering) string {
	share := "; this instance applies its share of the limit"

	// An instance that has never counted the others would promise a share that it does not take.
	if o.Alone != "" {
		share = "; this instance " + o.Alone + " and applies the whole limit: n such instances allow n times the limit"
	}

	// Of a side that lapses only some requests are known to have fallen back.
	clients := map[string]string{
		stages.FailDeny:  ", and on_store_failure is deny: every request is denied now",
		stages.FailAllow: ", and on_store_failure is allow: no request is limited now",
	}
	if as == Lapsing {
		clients = map[string]string{
			stages.FailDeny:  ", and on_store_failure is deny: each of them was denied",
			stages.FailAllow: ", and on_store_failure is allow: each of them was allowed",
		}
	}
	return cmp.Or(clients[o.OnStoreFailure], share) + doctorNext
}

// PressDenies says why the red button would have this instance deny every request of the policy: the authoritative does not answer,
// and the candidate, which decides now, does. It is "" if the button is safe. unasked says that nobody asks the authoritative's store.
func (o *Outlook) PressDenies(unasked bool) string {
	switch {
	case o.OnStoreFailure != stages.FailDeny || !o.Decides[algorithms.Candidate] || o.Sides[algorithms.Candidate] != Answers:
		return ""
	case o.Sides[algorithms.Authoritative] != Answers:
		return o.sideAway(algorithms.Authoritative) + ", and on_store_failure is deny: every request would be denied"
	case unasked:
		return "it is completed, so nobody knows whether the authoritative's store answers, and on_store_failure is deny"
	}
	return ""
}
