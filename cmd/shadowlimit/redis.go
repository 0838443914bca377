package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/lua"
)

const redisHint = `give --redis redis://HOST:PORT/DB, or set SHADOWLIMIT_REDIS; ` +
	`a cluster is redis+cluster://HOST:PORT?addr=HOST:PORT, ` +
	`a sentinel redis+sentinel://HOST:PORT?master_name=NAME; rediss is TLS`

// Timeouts of a command: of a dial, and of one script or command of Redis.
const (
	dialTimeout   = 2 * time.Second
	commandBudget = 2 * time.Second
)

func redisFlag() cli.Flag {
	return &cli.StringFlag{Name: "redis", EnvVars: []string{"SHADOWLIMIT_REDIS"}, Usage: "`URL` of Redis"}
}

// openRedis makes a client from the URL that --redis gives. It does not connect yet.
func openRedis(address string, budget time.Duration) (redis.UniversalClient, error) {
	if address == "" {
		return nil, usagef(redisHint, "no Redis to talk to")
	}

	// A URL may hold a password. The parsers quote theirs in errors, so only the cause is shown.
	options, err := parseRedis(address)
	var quoting *url.Error
	if errors.As(err, &quoting) {
		err = quoting.Err
	}
	if err != nil {
		return nil, usagef(redisHint, "--redis: %s", strings.ReplaceAll(err.Error(), address, "the given value"))
	}

	// A service may wait longer for a connection than a person at a terminal.
	options = lua.Tune(options, budget)
	options.DialTimeout = min(options.DialTimeout, dialTimeout)
	return redis.NewUniversalClient(options), nil
}

// unreachableError says that Redis cannot be used.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// reach finds out whether Redis answers at all, so that the first failure says what to do.
func reach(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout+commandBudget)
	defer cancel()

	err := client.Ping(ctx).Err()
	if problem, fix := doctor.Diagnose(err); problem != "" {
		return unreachableError{fmt.Errorf("%s: %w: %s", problem, err, fix)}
	}
	return nil
}

func parseRedis(address string) (*redis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return nil, errors.New("not a URL")
	}

	base, kind, _ := strings.Cut(scheme, "+")
	switch kind {
	case "":
		return parseServer(address)
	case "cluster":
		return parseCluster(base + "://" + rest)
	case "sentinel":
		return parseSentinel(base + "://" + rest)
	}
	return nil, fmt.Errorf("unknown scheme %q", scheme)
}

func parseServer(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
	}, nil
}

func parseCluster(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: o.Addrs, IsClusterMode: true, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
	}, nil
}

func parseSentinel(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseFailoverURL(address)
	if err != nil {
		return nil, err
	}
	if o.MasterName == "" {
		return nil, errors.New("a sentinel needs ?master_name=NAME")
	}
	return &redis.UniversalOptions{
		Addrs: o.SentinelAddrs, MasterName: o.MasterName, DB: o.DB, Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword, TLSConfig: o.TLSConfig,
	}, nil
}

// silentLogger drops the log lines of go-redis: its errors reach the user as errors.
type silentLogger struct{}

func (silentLogger) Printf(context.Context, string, ...any) {}
