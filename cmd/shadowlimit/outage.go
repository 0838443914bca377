package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
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

// progressEvery is how often a rollback that cannot be stored says so.
const progressEvery = 5 * time.Second

// outage is a rollback that has to wait for its Redis.
type outage struct {
	policy string
	until  time.Time
	std    streams
	sent   bool      // Redis may have stored the order although no answer came
	began  time.Time // of the outage; zero while Redis answers
	told   time.Time // when the operator was last told
}

// tryOn repeats an order until Redis answers: one that fails over may answer soon. A rollback
// whose answer was lost is stored already, and the second order finds it.
func (o *outage) tryOn(ctx context.Context, t *task, do func() (stages.State, error)) (stages.State, error) {
	var last error
	for {
		s, err := do()
		if err == nil && !o.began.IsZero() {
			fmt.Fprintf(o.std.err, "Redis %s again after %s\n", wordsOf(last).again, time.Since(o.began).Round(time.Second))
		}
		if isRefusal(err) {
			_, fix := doctor.Diagnose(err)
			return s, fmt.Errorf("NOT STORED: rollback of %s: %w: %s\n%s", humanize.Printable(o.policy), plainError{err}, fix, refusedByRedis)
		}
		if err == nil || !unanswered(err) {
			return s, err
		}

		// A try that the deadline has cut short says nothing of Redis.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		o.tell(last)

		select {
		case <-ctx.Done():
			return s, o.giveUp(t.cli, last)
		case <-time.After(pollEvery):
		}
	}
}

// tell tells the operator what the fleet does meanwhile, and later that nothing has changed.
func (o *outage) tell(err error) {
	now := time.Now()
	if now.Sub(o.told) < progressEvery {
		return
	}

	o.told = now
	if !o.began.IsZero() {
		fmt.Fprintf(o.std.err, "%s: %s for %s\n", o.storedYet(), wordsOf(err).still, now.Sub(o.began).Round(time.Second))
		return
	}
	o.began = now
	fmt.Fprintf(o.std.err, "%s: %v; trying on for %s\n%s%s\n", o.storedYet(), withRemedy(plainError{err}),
		o.until.Sub(now).Round(time.Second), wordsOf(err).fleet, fleetInAnOutage)
}

// outageWords tell one kind of outage.
type outageWords struct{ still, again, fleet string }

// wordsOf returns those for an error: of a Redis that does not answer, or of one that answers and is not ready to write.
func wordsOf(err error) outageWords {
	var reply redis.Error
	if errors.As(err, &reply) {
		return outageWords{"still refused", "takes commands", whileRefusing}
	}
	return outageWords{"no answer", "answers", whileSilent}
}

func (o *outage) storedYet() string {
	if o.sent {
		return "not known to be stored yet"
	}
	return "NOT STORED yet"
}

// giveUp ends an order that Redis has not answered in time. Status 5 is for --wait alone, as every
// other command that finds no Redis ends with 1.
func (o *outage) giveUp(c *cli.Context, err error) error {
	err = fmt.Errorf("NOT STORED: rollback of %s: %w\n%s", humanize.Printable(o.policy), withRemedy(plainError{err}), again(c, o.policy))
	if o.sent {
		err = fmt.Errorf("%w\nRedis has got the order and has not answered, so it may be stored all the same: see history", err)
	}

	// An interrupt is reported as such, without the error.
	if interrupted := c.Context.Err(); interrupted != nil {
		fmt.Fprintln(o.std.err, err)
		return interrupted
	}
	if c.Bool("wait") {
		return statusError{exitTimeout, err}
	}
	return err
}

// sayNotStored adds the meaning for the service to the error of a rollback that has found no Redis.
func sayNotStored(c *cli.Context, err error) error {
	var unreachable unreachableError
	if !errors.As(err, &unreachable) {
		return err
	}
	if isRefusal(err) {
		return fmt.Errorf("NOT STORED: %w\n%s", err, refusedByRedis)
	}
	return fmt.Errorf("NOT STORED: %w\n%s%s\n%s", err, wordsOf(err).fleet, fleetInAnOutage, again(c, c.Args().First()))
}

// again is the command that stores a rollback once Redis answers.
func again(c *cli.Context, policy string) string {
	return fmt.Sprintf("To store it as soon as Redis takes it: shadowlimit rollback %s%s --reason %s --wait --timeout 1h",
		humanize.ShellWord(policy), fleetOf(c), humanize.ShellWord(c.String("reason")))
}

// fleetOf returns the flags that name the fleet, where the environment does not.
func fleetOf(c *cli.Context) (flags string) {
	if address := c.String("redis"); address != os.Getenv("SHADOWLIMIT_REDIS") {
		// A log of the terminal must not show a password, which may stand before the host or, of Sentinel, among the options.
		if u, err := url.Parse(address); err != nil || u.User != nil || u.RawQuery != "" {
			address = "URL"
		}
		flags += " --redis " + humanize.ShellWord(address)
	}
	if name := c.String("name"); name != os.Getenv("SHADOWLIMIT_NAME") {
		flags += " --name " + humanize.ShellWord(name)
	}
	return flags
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
