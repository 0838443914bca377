package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const rollbackDescription = `Returns a policy to its authoritative side at once, whatever its stage, and sets it
on hold. It looks at no evidence, wins over every other move, and waits until every
live instance has applied it. The authoritative has counted all the time, unless the
migration was completed: then every client starts with a fresh budget.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit rollback per-client --reason "429s for acme"`

func rollbackCommand(std streams) *cli.Command {
	m := move{needsReason: true, blind: true, do: rollbackDo}
	return &cli.Command{
		Name:        "rollback",
		Usage:       "return a policy to its authoritative side at once",
		ArgsUsage:   "POLICY",
		Description: rollbackDescription,
		Flags:       orderFlags(),
		Action:      orRedButton(m.action(std)),
	}
}

// orRedButton names the way that is left if Redis cannot be reached: a rollback is urgent.
func orRedButton(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		err := action(c)
		var unreachable unreachableError
		if errors.As(err, &unreachable) {
			err = fmt.Errorf("%w; nothing was stored: until Redis answers, press the red button of every instance", err)
		}
		return err
	}
}

func rollbackDo(ctx context.Context, t *task) (promotion.State, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cli.Duration("timeout"))
	defer cancel()

	return retry(ctx, func() (promotion.State, error) {
		return promotion.Rollback(ctx, t.fleet.store, t.policy(), t.order)
	})
}

// retry repeats an order until Redis answers: one that fails over may answer soon. A rollback
// whose answer was lost is stored already, and the second order finds it.
func retry(ctx context.Context, do func() (promotion.State, error)) (promotion.State, error) {
	for {
		s, err := do()
		if err == nil || !unanswered(err) {
			return s, err
		}

		select {
		case <-ctx.Done():
			return s, fmt.Errorf("%w; it may be stored all the same: see history", err)
		case <-time.After(pollEvery):
		}
	}
}

// unanswered reports whether an error comes from a connection or from a server that is not ready,
// and is no refusal.
func unanswered(err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		kind, _, _ := strings.Cut(reply.Error(), " ")
		return slices.Contains([]string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"}, kind)
	}
	return !errors.Is(err, promotion.ErrUnknownPolicy) && !errors.Is(err, promotion.ErrConflict)
}
