package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

//go:embed demo.yaml
var policyFile []byte

// policy is the only policy of the file.
const policy = "per-client"

// Budget is how long a request of the demo waits for the user's Redis.
const Budget = time.Second

// ownBudget is how long the demo waits for its own Redis and its own server. They are in this
// process, so only a machine without time for it delays them, and the story must not end then.
const ownBudget = time.Minute

// Ending says what comes after the scenario.
type Ending int

// Endings of a demo.
const (
	Stop  Ending = iota // nothing
	Serve               // traffic in real time, until the context is over
)

// Config says where a demo plays.
type Config struct {
	Out    io.Writer
	Listen string // address of the service
	Ending Ending
	// WriteHistory writes an audit trail as the history command does.
	WriteHistory func(io.Writer, []stages.State) error
}

// Run plays the scenario on a Redis of its own.
func Run(ctx context.Context, cfg Config) (err error) {
	requests, err := readTraffic()
	if err != nil {
		return err
	}

	e, err := openEnvironment(requests[0].at, cfg.Listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()

	fmt.Fprintf(cfg.Out, opening, humanize.Counted(int64(len(requests)), "request"), e.url, e.redisURL)
	s := &scenario{environment: e, out: cfg.Out, writeHistory: cfg.WriteHistory}
	if err := s.play(ctx, andAgain(requests)); err != nil {
		return err
	}

	if cfg.Ending == Stop {
		fmt.Fprint(cfg.Out, ending)
		return nil
	}
	fmt.Fprintf(cfg.Out, serving, e.redisURL, e.url)
	return e.serve(ctx, requests)
}

// ServeOn is one instance of the service on a Redis of the user's, until the context is over. It
// closes the client.
func ServeOn(ctx context.Context, client redis.UniversalClient, cfg Config) (err error) {
	e := newEnvironment(client)
	requests, err := readTraffic()
	if err == nil {
		err = e.start(cfg.Listen, "")
	}
	if err != nil {
		return errors.Join(err, client.Close())
	}
	defer func() { err = errors.Join(err, e.close()) }()

	fmt.Fprintf(cfg.Out, servingOn, e.url)
	return e.serve(ctx, requests)
}

const opening = `A web site lets each client make 20 requests a minute, counted in fixed windows.
It wants sliding windows, without hurting a client. Its traffic is real:
%s of three and a half days, and then the first hours once more.

  server   %s/  (and /metrics, /status while the demo runs)
  Redis    %s  (in this process; its clock is wound)

A step is taken when all of its conditions are met. Among them are 48 hours seen,
and a score in every ratio (the table has the least one): 400, for half of the
clients 10,000, and for all of them 1,000,000. The policy file says 48 hours,
because the log is short: without that the last two steps need 72 and 168.

`

const ending = `
The same for your own service: see the README. To look around in this one:
  shadowlimit demo --serve
`

const serving = `
Still serving, now in real time, until interrupted. In another terminal:
  export SHADOWLIMIT_REDIS=%s SHADOWLIMIT_NAME=demo
  shadowlimit status
  shadowlimit history per-client
  shadowlimit resume per-client --reason "the candidate is mended"
  shadowlimit promote per-client --to 10%% --force --reason "a canary by hand"
  shadowlimit rollback per-client --reason "enough"
  curl %s/metrics
and in a browser:
  %[2]s/status
`

const servingOn = "Serving on %s/ (and /metrics, /status), with traffic, until interrupted. " +
	"For the commands: --name demo, and the same --redis.\n"
