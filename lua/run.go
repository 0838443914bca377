package lua

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// onceCmd is a command that the client must not send twice: a script without an answer may
// have run, and a second run would charge the key again.
type onceCmd struct{ *redis.Cmd }

// NoRetry is what go-redis asks commands for, single and in pipelines.
func (onceCmd) NoRetry() bool { return true }

// run has Redis judge the calls, each of them once.
func (p *Pair) run(ctx context.Context, calls []call) {
	all := make([]*call, len(calls))
	for i := range calls {
		all[i] = &calls[i]
	}
	p.submit(ctx, all)
	p.submitMigrating(ctx, all)
}

// submit sends the calls by the hash of their script, or with its text if no server is known
// to have it. A server that does not know a script has not run it, so that call is sent
// once more with the text: after a SCRIPT FLUSH, a restart, or on another node of a
// cluster. Only then may charges of one key change their order.
func (p *Pair) submit(ctx context.Context, all []*call) {
	// The hash is 40 bytes and the text some 25,000: it is sent until one server has run it.
	for _, c := range all {
		if c.script.known.Load() {
			c.cmd = newOnce(ctx, "evalsha", c.script.sha1, c.args)
		} else {
			c.cmd = newOnce(ctx, "eval", c.script.text, c.args)
		}
	}
	p.send(ctx, all)

	// All of them go in one pipeline again: a restart makes every call of a request unknown at once.
	var unknown []*call
	for _, c := range all {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			c.cmd = newOnce(ctx, "eval", c.script.text, c.args)
			unknown = append(unknown, c)
		}
	}
	p.send(ctx, unknown)

	// It is read before it is written: an unconditional store would make all callers
	// contend for one cache line.
	for _, c := range all {
		if c.cmd.Err() == nil && !c.script.known.Load() {
			c.script.known.Store(true)
		}
	}
}

// newOnce returns the command that runs a script by its hash or its text. It makes a list of its own: a call may be sent
// again, while a hook of the client still looks at the first command.
func newOnce(ctx context.Context, name, script string, args []any) onceCmd {
	all := append(make([]any, 0, 2+len(args)), name, script)
	return onceCmd{redis.NewCmd(ctx, append(all, args...)...)}
}

// send processes the commands, in a pipeline if there are several. It leaves every error
// in its command.
func (p *Pair) send(ctx context.Context, calls []*call) {
	switch len(calls) {
	case 0:
	case 1: // a pipeline of one would cost more
		_ = p.rdb.Process(ctx, calls[0].cmd)

	default:
		pipe := p.rdb.Pipeline()
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
	reply, err := c.reply()
	var all common
	if err == nil {
		all, err = c.common(reply)
	}

	// The slot of the record is migrating, and a log is a second key that may have moved already. The
	// enforced side was sent alone (submitMigrating), and the other one follows behind the request.
	if c.reduced {
		c.into[c.roles[0].Other()] = algorithms.Unjudged(algorithms.Deferred)
	}

	// Each side has its own answer, or its own error. An error of the whole reply names the side, for the
	// breakers count failures by store and the log by side.
	for i, r := range c.roles {
		o := &c.into[r]
		if err != nil {
			*o = algorithms.Failure(&StoreError{r, err})
			o.Took = took
			continue
		}

		*o = algorithms.Observation{At: time.UnixMicro(all.at), Took: took}
		values := reply[1+i*c.sideReply():][:c.sideReply()]
		if c.group {
			c.observeGroup(r, values, o)
		} else {
			o.Decision, o.Err = decision(values)
		}

		// The number and the instant apart are those of the record, so both sides have the same. A failed side has
		// neither: its part of the record may be any.
		switch {
		case o.Err == errDeferred:
			*o = algorithms.Unjudged(algorithms.Deferred)
			o.Took = took
		case o.Err != nil:
			o.Status = algorithms.Failed
		default:
			if !c.group {
				o.Decision.Limit = c.capacities[r]
				o.Unused = c.charge.Sides[r].WasUnused(c.cost, &o.Decision)
			}
			o.Number, o.Apart = algorithms.Number(all.number), all.apart
		}
	}
}

// reply returns the values of the reply, which straight.lua packs.
func (c *call) reply() ([]any, error) {
	if text, ok := c.cmd.Val().(string); ok {
		return c.unpack(text)
	}
	return c.cmd.Slice()
}

// common are the values of a reply that belong to both sides. Only those of a charge with
// an epoch have the last two.
type common struct{ at, number, apart int64 }

// common reads the values, and refuses a reply that is not of the script's length.
func (c *call) common(reply []any) (all common, err error) {
	// A reply of another length is of another release's script, or of no script.
	last := 1 + c.sideReply()*len(c.roles)
	want := last
	if c.numbered {
		want += 2
	}
	if len(reply) != want {
		return all, fmt.Errorf("%w: %d values", ErrReply, len(reply))
	}

	all.at, err = integer(reply[0])
	if err == nil && c.numbered {
		all.number, err = integer(reply[last])
	}
	if err == nil && c.numbered {
		all.apart, err = integer(reply[last+1])
	}
	return all, err
}

// sideReply is how many values of the reply belong to a side. A group's has two more, behind them.
const sideReply = 5

// sideReply returns how many values of the call's reply belong to a side.
func (c *call) sideReply() int {
	if c.group {
		return sideReply + 2
	}
	return sideReply
}

// errDeferred stands for a side that is ahead of its predecessors and was left unjudged.
var errDeferred = errors.New("lua: deferred")

// decision reads one side's values: status, remaining, retry, reset, delay. A status of -1
// is an error of this side alone, with its text in the place of remaining.
func decision(reply []any) (algorithms.Decision, error) {
	status, err := integer(reply[0])
	if err != nil {
		return algorithms.Decision{}, err
	}
	switch status {
	case -1:
		return algorithms.Decision{}, sideError(fmt.Sprint(reply[1]))
	case -2:
		return algorithms.Decision{}, errDeferred
	}

	// Redis may lie: a text in the place of a number fails this side, and the other one has its answer. A wait of -1 is
	// one that does not end, for which Go has a duration of its own.
	var n [sideReply]int64
	for i, v := range reply {
		if n[i], err = integer(v); err != nil {
			return algorithms.Decision{}, err
		}
	}

	d := algorithms.Decision{
		Allowed:    n[0] == 1,
		Remaining:  n[1],
		RetryAfter: wait(n[2]),
		ResetAfter: wait(n[3]),
		Delay:      wait(n[4]),
	}
	if n[2] == -1 { // NEVER in prelude.lua
		d.RetryAfter = algorithms.Never
	}

	return d, nil
}

// wait turns a count of microseconds into a duration.
func wait(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// sideError returns the error of one side within the script from its text.
func sideError(message string) error {
	switch message {
	case "LOGFULL":
		return algorithms.ErrLogFull
	case "LOGSHED":
		return ErrLogShed
	}
	return errors.New("lua: step: " + message)
}

// integer reads a value of a reply that must be one.
func integer(v any) (int64, error) {
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%w: %T for an integer", ErrReply, v)
	}
	return n, nil
}
