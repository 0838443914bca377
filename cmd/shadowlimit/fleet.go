package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// fleet is the running service that a command talks to, by way of its Redis.
type fleet struct {
	name   string
	client redis.UniversalClient
	store  *promotion.RedisStore
	ledger *divergence.RedisLedger
	judge  *promotion.Controller
	json   bool
}

func fleetFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		redisFlag(),
		nameFlag(),
		outputFlag(),
	}, more...)
}

func nameFlag() cli.Flag {
	return &cli.StringFlag{Name: "name", EnvVars: []string{"SHADOWLIMIT_NAME"}, Usage: "`NAME` of the service, as in its policy file"}
}

// openFleet reads the flags that all fleet commands have.
func openFleet(c *cli.Context, asJSON bool) (*fleet, error) {
	if c.String("name") == "" {
		return nil, usagef("give --name, as in the policy file's \"name\", or set SHADOWLIMIT_NAME", "no service named")
	}
	client, err := openRedis(c.String("redis"), commandBudget)
	if err != nil {
		return nil, err
	}
	name := c.String("name")
	store, ledger := promotion.NewRedisStore(client, name), divergence.NewRedisLedger(client, name)
	return &fleet{name, client, store, ledger, promotion.NewController(store, ledger, actor()), asJSON}, nil
}

func (f *fleet) close() { f.client.Close() }

// reach finds out whether Redis answers at all, to say so plainly.
func (f *fleet) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*commandBudget)
	defer cancel()
	err := f.client.Ping(ctx).Err()
	if problem, fix := reached(err); problem != "" {
		return fmt.Errorf("%s: %w: %s", problem, err, fix)
	}
	return nil
}

// withFleet makes an action of one that talks to a fleet.
func withFleet(do func(*cli.Context, *fleet) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		asJSON, err := wantsJSON(c)
		if err != nil {
			return err
		}
		return onFleet(c, asJSON, do)
	}
}

func onFleet(c *cli.Context, asJSON bool, do func(*cli.Context, *fleet) error) error {
	f, err := openFleet(c, asJSON)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.reach(c.Context); err != nil {
		return err
	}
	return do(c, f)
}

// onePolicy returns the policy that a command is about.
func onePolicy(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("see: "+c.Command.HelpName+" --help", "%s needs one policy, got %d", c.Command.Name, c.NArg())
	}
	return c.Args().First(), nil
}

// assess judges all policies, or one if policy is not "".
func (f *fleet) assess(ctx context.Context, policy string) ([]promotion.Assessment, error) {
	all, err := f.judge.Assess(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i, a := range all {
		if names[i] = a.Spec.Policy; a.Spec.Policy == policy {
			return all[i : i+1], nil
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("no instance of %q has announced a policy here: is --name the file's name, and the service on this Redis?", f.name)
	case policy != "":
		return nil, fmt.Errorf("%s has no policy %q: it has %s", f.name, policy, strings.Join(names, ", "))
	}
	return all, nil
}

// actor says who gives an order: user@host.
func actor() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // "" will do
	return name + "@" + host
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// statusOf gives the errors of moves their exit statuses, and says what to do.
func statusOf(err error) error {
	switch {
	case errors.Is(err, promotion.ErrConflict):
		return statusError{exitConflict, fmt.Errorf("%w: look at status and try again", err)}
	case errors.Is(err, promotion.ErrHold):
		return statusError{exitNotMet, fmt.Errorf("%w: resume it first", err)}
	case errors.Is(err, promotion.ErrSameEpoch), errors.Is(err, promotion.ErrNowhere):
		return statusError{exitNotMet, err}
	case errors.Is(err, promotion.ErrUnknownPolicy):
		return fmt.Errorf("%w: status shows those there are", err)
	}
	return err
}
