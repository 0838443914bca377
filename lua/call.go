package lua

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
)

// call is one check on its way: its script, the sides that it judges, in the
// script's order, and where their answers go.
type call struct {
	script     *script
	args       []any // of the command; the first two are written when it is sent
	names      sequence
	roles      [2]algorithms.Role
	sides      int      // how many of the roles there are
	capacities [2]int64 // by role; the script does not send them back
	check      *algorithms.Check
	into       *[2]algorithms.Observation
	cmd        onceCmd
	reduced    bool // to the enforced side; see submitMigrating

	list []*call // instead of the above: the checks that the script judges together, each prepared as a call of its own
}

// order returns the roles in the script's order.
func (c *call) order() []algorithms.Role { return c.roles[:c.sides] }

// binds reports whether the first side of the script is the enforced one. It is not where that one is absent or refused.
func (c *call) binds() bool { return c.roles[0] == c.check.Enforced }

// onceCmd is a command that the client must not send twice: a script without an answer may
// have run, and a second run would charge the key again.
type onceCmd struct{ *redis.Cmd }

// NoRetry is what go-redis asks commands for, single and in pipelines.
func (onceCmd) NoRetry() bool { return true }

// submit sends the calls by the hash of their script, or with its text if no server is known
// to have it. A server that does not know a script has not run it, so that call is sent
// once more with the text: after a SCRIPT FLUSH, a restart, or on another node of a
// cluster. Only then may checks of one key change their order.
func submit(ctx context.Context, rdb redis.UniversalClient, all []*call) {
	// The hash is 40 bytes and the text some 25,000: it is sent until one server has run it.
	for _, c := range all {
		if c.script.known.Load() {
			c.cmd = c.command(ctx, "evalsha", c.script.sha1)
		} else {
			c.cmd = c.command(ctx, "eval", c.script.text)
		}
	}
	send(ctx, rdb, all)

	// All of them go in one pipeline again: a restart makes every call of a request unknown at once.
	var unknown []*call
	for _, c := range all {
		if err := c.cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			c.cmd = c.command(ctx, "eval", c.script.text)
			unknown = append(unknown, c)
		}
	}
	send(ctx, rdb, unknown)

	// It is read before it is written: an unconditional store would make all callers
	// contend for one cache line.
	for _, c := range all {
		if c.cmd.Err() == nil && !c.script.known.Load() {
			c.script.known.Store(true)
		}
	}
}

// command returns the command that runs the call's script by its hash or its text.
func (c *call) command(ctx context.Context, name string, script any) onceCmd {
	// A call may be sent again while a hook of the client still looks at the command before.
	args := c.args
	if c.cmd.Cmd != nil {
		args = slices.Clone(args)
	}

	args[0], args[1] = name, script
	return onceCmd{redis.NewCmd(ctx, args...)}
}

// send processes the commands, in a pipeline if there are several. It leaves every error
// in its command.
func send(ctx context.Context, rdb redis.UniversalClient, calls []*call) {
	switch len(calls) {
	case 0:
	case 1: // a pipeline of one would cost more
		_ = rdb.Process(ctx, calls[0].cmd)

	default:
		pipe := rdb.Pipeline()
		for _, c := range calls {
			_ = pipe.Process(ctx, c.cmd)
		}

		// A connection that Redis refuses, as after a change of its password, fails the
		// pipeline and no command: no reply would be taken for an answer.
		_, err := pipe.Exec(ctx)
		for _, c := range calls {
			if c.cmd.Err() == nil && c.cmd.Val() == nil {
				c.cmd.SetErr(err)
			}
		}
	}
}

// observe turns the reply into observations. A reply that is an error, or not of the
// script's form, fails every side of the call.
func (c *call) observe(took time.Duration) {
	// The slot of the record is migrating, and a log is a second key that may have moved already. The
	// enforced side was sent alone (submitMigrating), and the other one is skipped.
	if c.reduced {
		c.into[c.order()[0].Other()] = algorithms.Observation{Status: algorithms.Deferred}
	}

	checks, few := c.list, [1]*call{c}
	if checks == nil {
		checks = few[:]
	}
	text, err := c.cmd.Text()
	in := reply{text: text}
	at := in.integer()
	var some [1][2]answer
	answers := some[:]
	if len(checks) > 1 {
		answers = make([][2]answer, len(checks))
	}
	for n, c := range checks {
		for i := range c.order() {
			answers[n][i].read(&in, c.check.Receipt != nil)
		}
	}
	for n, c := range checks {
		for i := range c.order() {
			answers[n][i].readText(&in)
		}
	}
	if err == nil && (in.bad || in.text != "") {
		err = fmt.Errorf("%w: a text of %d bytes", errReply, len(text))
	}

	denying := 0
	for n, c := range checks {
		if c.denied(&answers[n]) {
			denying++
		}
	}
	for n, c := range checks {
		others := denying
		if c.denied(&answers[n]) {
			others--
		}
		c.write(&answers[n], at, took, others > 0, err)
	}
}

// denied reports whether the answers have the enforced side deny.
func (c *call) denied(answers *[2]answer) bool {
	first := &answers[0]
	return c.binds() && !first.failed && !first.decision.Allowed
}

// write writes the observations of a check.
func (c *call) write(answers *[2]answer, at int64, took time.Duration, blocked bool, err error) {
	// Each side has its own answer, or its own error. An error of the whole reply names the side, for the
	// breakers count failures by store and the log by side.
	for i, r := range c.order() {
		o := &c.into[r]
		switch a := &answers[i]; {
		case err != nil:
			*o = algorithms.Failure(&StoreError{r, err})
		case a.err != nil:
			*o = algorithms.Failure(a.err)
		default:
			a.decision.Capacity = c.capacities[r]
			*o = algorithms.Observation{Status: algorithms.Judged, At: time.UnixMicro(at), Decision: a.decision, Lost: a.lost, Blocked: blocked}
			if c.check.Receipt != nil && o.Counts(c.check.Cost) {
				c.check.Receipt.Sides[r] = algorithms.Charged{Side: c.check.Sides[r], At: a.last, Opened: a.aux}
			}
		}
		o.Took = took
	}
}

// settled reads the reply of a settlement.
func (c *call) settled(into *[2]algorithms.Settled) {
	text, err := c.cmd.Text()
	if err == nil && len(text) != 8*c.sides {
		err = errReply
	}
	in := reply{text: text}
	for _, r := range c.order() {
		switch status := in.integer(); {
		case err != nil:
			into[r].Err = &StoreError{r, err}
		case status == statusFailed:
			into[r].Err = errSettledLog
		default:
			into[r].Late = status == 1
		}
	}
}
