package lua

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
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
// cluster. Only then may checks of one key change their order.
func (p *Pair) submit(ctx context.Context, all []*call) {
	// The hash is 40 bytes and the text some 25,000: it is sent until one server has run it.
	for _, c := range all {
		if c.script.known.Load() {
			c.cmd = c.command(ctx, "evalsha", c.script.sha1)
		} else {
			c.cmd = c.command(ctx, "eval", c.script.text)
		}
	}
	p.send(ctx, all)

	// All of them go in one pipeline again: a restart makes every call of a request unknown at once.
	var unknown []*call
	for _, c := range all {
		if err := c.cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			c.cmd = c.command(ctx, "eval", c.script.text)
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
