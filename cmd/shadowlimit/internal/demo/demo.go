package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

//go:embed demo.yaml
var policyFile []byte

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
	WriteHistory func(io.Writer, []promotion.State) error
}

// story is what a demo plays: a policy, its traffic, and what goes wrong with it.
type story struct {
	set        *policies.Set
	policy     string // the one that is promoted
	requests   []*Request
	broken     http.Header   // of every request, once the candidate goes wrong
	opening    string        // with the URLs of the service and of Redis
	regression string        // with the time at which it begins
	aftermath  time.Duration // after the rollback, until the story ends; 0: with the log
}

// bundled is the story of the bundled log.
func bundled() (*story, error) {
	set, err := policies.Load("demo.yaml", policyFile)
	if err != nil {
		return nil, err
	}
	requests, err := readTraffic()
	if err != nil {
		return nil, err
	}
	return &story{
		set: set, policy: set.Policies[0].Name, requests: requests, broken: http.Header{"X-Plan": {"trial"}},
		opening: fmt.Sprintf(opening, humanize.Counted(int64(len(requests)), "request")), regression: regression,
	}, nil
}

// Run plays the scenario on a Redis of its own.
func Run(ctx context.Context, cfg Config) error {
	told, err := bundled()
	if err != nil {
		return err
	}
	return run(ctx, cfg, told)
}

// run plays a story on a Redis of its own.
func run(ctx context.Context, cfg Config, told *story) (err error) {
	e, err := openEnvironment(told, cfg.Listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()

	fmt.Fprintf(cfg.Out, told.opening, e.url, e.redisURL)
	s := &scenario{environment: e, out: cfg.Out, writeHistory: cfg.WriteHistory}
	if err := s.play(ctx); err != nil {
		return err
	}

	if cfg.Ending == Stop {
		if told.aftermath == 0 {
			fmt.Fprint(cfg.Out, ending)
		}
		return nil
	}
	fmt.Fprintf(cfg.Out, serving, e.redisURL, told.set.Name, told.policy, e.url)
	return e.serve(ctx)
}

// ServeOn is one instance of the service on a Redis of the user's, until the context is over. It
// closes the client.
func ServeOn(ctx context.Context, client redis.UniversalClient, cfg Config) (err error) {
	told, err := bundled()
	e := newEnvironment(client, told)
	if err == nil {
		err = e.start(cfg.Listen, "")
	}
	if err != nil {
		return errors.Join(err, client.Close())
	}
	defer func() { err = errors.Join(err, e.close()) }()

	fmt.Fprintf(cfg.Out, servingOn, e.url)
	return e.serve(ctx)
}

const opening = `A web site lets each client make 20 requests a minute, counted in fixed windows. It
wants sliding windows, without hurting a client. %s of real traffic, three and a half days of it:

  server   %%s/  (and /metrics, and /status to look at, while the demo runs)
  Redis    %%s  (in this process; its clock is wound forward)

Each step needs a score of at least 20 in every ratio (the table shows the least one), and
48 clean hours, without a strike. The policy file says 48 because the log is short: without
that, the last two steps need 72 and 168.

`

const ending = `
The same for your own service: see the README. To look around in this one:
  shadowlimit demo --serve
`

const serving = `
Still serving, now in real time, until interrupted. In another terminal:
  export SHADOWLIMIT_REDIS=%s SHADOWLIMIT_NAME=%s
  shadowlimit status
  shadowlimit history %[3]s
  shadowlimit resume %[3]s --force --reason "the candidate is mended"
  shadowlimit promote %[3]s --to 10%% --force --reason "a canary by hand"
  shadowlimit rollback %[3]s --reason "enough"
  curl %[4]s/metrics
and in a browser:
  %[4]s/status
`

const servingOn = "Serving on %s/ (and /metrics, /status), with traffic, until interrupted. " +
	"For the commands: --name demo, and the same --redis.\n"
