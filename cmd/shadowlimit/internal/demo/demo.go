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

	fmt.Fprintf(cfg.Out, opening, humanize.Counted(int64(len(requests)), "request"))
	s := &scenario{environment: e, out: cfg.Out}
	if err := s.play(ctx, andAgain(requests)); err != nil {
		return err
	}
	fmt.Fprintf(cfg.Out, ending, s.state.Stage, s.sent-s.unharmed, s.harmed)

	if cfg.Ending == Stop {
		fmt.Fprint(cfg.Out, afterwards)
		return nil
	}
	e.wound.Store(false)
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

const opening = `A web site lets each client make 40 requests a minute, in fixed windows. It
wants a token bucket, 28 at once and then 20 a minute, and to hurt nobody. Its
traffic: %s of three and a half days, then the first once more.

`

const ending = `
The policy is %s, by itself, within %d requests of the proxy: %d of
them were denied that today's limiter allows, and none is any more.
`

const afterwards = `
The same over a log of your own, and then a look around in this service:
  shadowlimit replay --from fixed_window:100/1m \
      --to token_bucket:100/1m:burst=20 access.log
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
