package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
)

const redisHint = "give --redis redis://HOST:PORT/DB, or set SHADOWLIMIT_REDIS; a cluster is redis+cluster://HOST:PORT?addr=HOST:PORT, a sentinel redis+sentinel://HOST:PORT?master_name=NAME; rediss is TLS"

const dialTimeout = 2 * time.Second

// Budgets of a command: a person at a terminal waits, a request of the demo does not.
const (
	commandBudget = 2 * time.Second
	demoBudget    = time.Second
)

// openRedis makes a client for the command line from a URL.
func openRedis(url string, budget time.Duration) (redis.UniversalClient, error) {
	if url == "" {
		return nil, usagef(redisHint, "no Redis to talk to")
	}
	options, err := parseRedis(url)
	if err != nil {
		return nil, usagef(redisHint, "--redis: %s", strings.ReplaceAll(err.Error(), url, "the given value")) // it may hold a password
	}
	redis.SetLogger(silence{}) // errors reach the user as errors
	options = lua.Tune(options, budget)
	options.DialTimeout = min(options.DialTimeout, dialTimeout)
	return redis.NewUniversalClient(options), nil
}

func parseRedis(url string) (*redis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return nil, errors.New("not a URL")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	switch kind {
	case "":
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return &redis.UniversalOptions{Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig}, nil
	case "cluster":
		o, err := redis.ParseClusterURL(base + "://" + rest)
		if err != nil {
			return nil, err
		}
		return &redis.UniversalOptions{Addrs: o.Addrs, IsClusterMode: true, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig}, nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(base + "://" + rest)
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
	return nil, fmt.Errorf("unknown scheme %q", scheme)
}

// reached says what the error of a PING means, and what to do about it; "" is
// nothing. Who may not PING has reached Redis.
func reached(err error) (problem, fix string) {
	var answer redis.Error
	switch {
	case err == nil, redis.IsPermissionError(err):
		return "", ""
	case redis.IsAuthError(err):
		return "Redis does not let this user in", "put user and password into the URL: redis://USER:PASSWORD@HOST:PORT"
	case errors.As(err, &answer):
		return "Redis answers, but only", "wait until it has started, or see to its replication and cluster"
	}
	return "no answer from Redis", "see that --redis, or SHADOWLIMIT_REDIS, is its address, and rediss only where it speaks TLS"
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
