package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// notStored is the error of a rollback that Redis has not taken: what the fleet does meanwhile, and what an operator can do.
func notStored(err error) error {
	text := fmt.Sprintf("a rollback ends no outage: repair Redis; meanwhile promoted and completed stay, and a canary ends after %s\n", stages.LeaveCanaryAfter) + pressNext
	away := new(unreachableError)
	switch {
	case isRefusal(err):
		text = "Redis refuses this command, and not the service, which goes on in its stage\nnext: correct --redis or SHADOWLIMIT_REDIS, and roll back again"
	case errors.As(err, new(redis.Error)):
		text = "an instance whose Redis takes its commands stays in its stage, in a canary, too\n" + pressNext
	case errors.As(err, away):
		err = fmt.Errorf("%s: %w", away.problem, away.cause) // the next command is another one in an outage
	}
	return brief{fmt.Errorf("NOT STORED: %w", err), text}
}

// pressNext is what an operator can do without Redis. An instance knows whether it would make things worse.
const pressNext = `next: if a promoted candidate does harm, touch each red button's file, or run
  curl -X POST http://INSTANCE/PATH    # refuses where that makes things worse`

// brief is an error whose cause is cut off, so that what to do stands within mostLines.
type brief struct {
	cause error
	then  string
}

func (e brief) Unwrap() error { return e.cause }

func (e brief) Error() string {
	then := strings.TrimSpace(humanize.Wrap(e.then, usualColumns))
	lines := strings.Split(folded(e.cause.Error()), "\n")
	return strings.Join(append(lines[:min(len(lines), mostLines-1-strings.Count(then, "\n"))], then), "\n")
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

// folded breaks the lines of an error, before the first of which stands the name of the program.
func folded(text string) string {
	const name = "shadowlimit: "
	return strings.TrimPrefix(humanize.Wrap(name+text, usualColumns), name)
}
