package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/redisurl"
	"github.com/shadowlimit/shadowlimit/lua"
)

const redisHint = `give --redis redis://HOST:PORT/DB, or set SHADOWLIMIT_REDIS; ` +
	`a cluster is redis+cluster://HOST:PORT?addr=HOST:PORT, ` +
	`a sentinel redis+sentinel://HOST:PORT?master_name=NAME; rediss is TLS, with ?cacert=FILE&cert=FILE&key=FILE as in redis-cli`

// Timeouts of a command: of a dial, and of one script or command of Redis.
const (
	dialTimeout   = 2 * time.Second
	commandBudget = 2 * time.Second
)

func redisFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "redis", EnvVars: []string{"SHADOWLIMIT_REDIS"}, Usage: usage}
}

// pingOf asks any server of a client.
func pingOf(client redis.UniversalClient) func(context.Context) error {
	return func(ctx context.Context) error { return client.Ping(ctx).Err() }
}

// openRedis makes a client from the URL that --redis gives. It does not connect yet.
func openRedis(address string, budget time.Duration) (redis.UniversalClient, error) {
	if address == "" {
		return nil, usagef(redisHint, "no Redis to talk to")
	}

	options, err := redisurl.Parse(address)
	if err != nil {
		return nil, usagef(redisHint, "--redis: %v", err)
	}

	// A service may wait longer for a connection than a person at a terminal.
	options = lua.Tune(options, budget)
	options.DialTimeout = min(options.DialTimeout, dialTimeout)
	client := redis.NewUniversalClient(options)
	client.AddHook(discreet{})
	return client, nil
}

// discreet is a hook of a client that keeps passwords out of errors.
type discreet struct{}

func (discreet) DialHook(next redis.DialHook) redis.DialHook { return next }

func (discreet) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return humanize.Discreet(next(ctx, cmd)) }
}

func (discreet) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return humanize.Discreet(next(ctx, cmds)) }
}

// unreachableError says that Redis cannot be used.
type unreachableError struct {
	problem string
	cause   error
	fix     string
}

func (e unreachableError) Error() string { return fmt.Sprintf("%s: %s: %s", e.problem, e.cause, e.fix) }
func (e unreachableError) Unwrap() error { return e.cause }

// reach finds out whether Redis answers at all, so that the first failure says what to do.
func reach(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout+commandBudget)
	defer cancel()

	err := ping(ctx)
	if problem, fix := doctor.Diagnose(err); problem != "" {
		if errors.As(err, new(redis.Error)) && unanswered(err) {
			fix += "; meanwhile the status page of an instance shows the stages"
		}
		return unreachableError{problem, err, fix}
	}
	return nil
}

// silentLogger drops the log lines of go-redis: its errors reach the user as errors.
type silentLogger struct{}

func (silentLogger) Printf(context.Context, string, ...any) {}
