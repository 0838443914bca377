package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// What an operator reads first of a fleet that goes on by itself: of a Redis that is silent, and of one that refuses writes.
const (
	whileSilent   = "Until Redis answers, every instance goes on by itself:\n"
	whileRefusing = "Instances whose Redis takes their commands go on in the present stage, in a canary, too.\n" +
		"Where it refuses them as well, every instance goes on by itself:\n"
)

// fleetInAnOutage says what instances do by themselves, and what an operator can do.
var fleetInAnOutage = `  promoted, completed  enforces the candidate until it is told otherwise
  canary               returns to the authoritative ` + stages.LeaveCanaryAfter.String() + ` after Redis last answered the instance
  started meanwhile    enforces the candidate if it was promoted or completed in its last run, by the file in its
                       StateDir, and else the authoritative
Only where a promoted candidate does harm, press the red button of every instance. It is for all policies of the service.
on_store_failure: see "store failure" on the status page of an instance, or the policy file:
  authoritative not in this Redis             press
  in it, on_store_failure: local, or absent   press
  in it, on_store_failure: deny               do NOT press: every request would be denied
  in it, on_store_failure: allow              press only if running without any limit is safer than the candidate
The button has three forms. Use one that the service has configured:
  file     touch FILE                          RedButton.File; pressed while it exists
  signal   kill -USR1 PID                      RedButton.Signal; ends a program that has not configured it
  handler  curl -X POST -u USER:PASSWORD http://INSTANCE/PATH   Harness.RedButtonHandler; -u where the service asks for it
A pressed instance keeps the order on its disk, and stores the rollback itself as soon as Redis answers.`

// refusedByRedis says what an operator can do where Redis answers, and refuses. That is no outage: instances have a URL of their own.
const refusedByRedis = `Redis refuses this command, and not the service: mend --redis or SHADOWLIMIT_REDIS, and roll back again. Instances
that reach Redis go on in the present stage, in a canary, too. Only if you cannot mend it, and a promoted candidate does harm,
press the red button: docs/failures.md#the-red-button`

// notStored is the error of a rollback that Redis has not taken: what the fleet does meanwhile, and what an operator can do.
func notStored(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("NOT STORED: %w\n%s", err, refusedByRedis)
	}
	fleet := whileSilent
	if errors.As(err, new(redis.Error)) {
		fleet = whileRefusing
	}
	return fmt.Errorf("NOT STORED: %w\n%s%s\nroll back again once Redis takes it", err, fleet, fleetInAnOutage)
}

// notReady are the replies of a server that may take the same order a little later.
var notReady = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF", "NOREPLICAS", "OOM",
}

// unanswered reports whether an error comes from a connection or from a server that is not ready,
// and is no refusal.
func unanswered(err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		kind, _, _ := strings.Cut(reply.Error(), " ")
		return slices.Contains(notReady, kind)
	}
	return !errors.Is(err, stages.ErrUnknownPolicy) && !errors.Is(err, stages.ErrConflict)
}

// isRefusal reports whether Redis has answered that it will not do what it is asked, now or later, as to a wrong password.
func isRefusal(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !unanswered(err) && !errors.Is(err, stages.ErrUnknownPolicy) && !errors.Is(err, stages.ErrConflict)
}

// sentStore notes whether Redis may have got a state to store although its answer did not come.
type sentStore struct {
	stages.Store
	sent *bool
}

// Put implements stages.Store. An error of the dial and a reply say that nothing was stored.
func (s *sentStore) Put(ctx context.Context, policy string, next stages.State, only stages.Condition) error {
	err := s.Store.Put(ctx, policy, next, only)
	var reply redis.Error
	var dial *net.OpError
	dialled := !errors.As(err, &dial) || dial.Op != "dial"
	if err != nil && dialled && !errors.As(err, &reply) && !errors.Is(err, stages.ErrConflict) {
		*s.sent = true
	}
	return err
}
