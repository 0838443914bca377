package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const completeDescription = `Ends a migration: the candidate stays enforced and the authoritative is not judged
any more, on any instance. A rollback is still possible, but finds the authoritative
cold: everybody starts with a fresh budget. It refuses, with exit status 3, unless
the policy has been promoted for 7 days and nothing is wrong with it. Afterwards make
the candidate the authoritative in the policy file; it keeps its counts. Deploy that
everywhere before a side changes or the next candidate comes: those are a new epoch,
and instances that still have the old file go back to the old authoritative, cold.

Examples, with the variables that "shadowlimit demo --serve" prints, after a promote --to full:
  shadowlimit complete per-client --reason "a week without a complaint"   # refused (3) in the first week
  shadowlimit complete per-client --force --reason "drill in staging"`

func completeCommand(io streams) *cli.Command {
	m := move{needsReason: true, dangerous: true, check: completeCheck, do: completeDo}
	return &cli.Command{
		Name: "complete", Usage: "end a migration: the authoritative is not judged any more", ArgsUsage: "POLICY", Description: completeDescription,
		Flags:  orderFlags(&cli.BoolFlag{Name: "force", Usage: "however long it has been promoted, and whatever is wrong"}),
		Action: m.action(io),
	}
}

func completeCheck(a *promotion.Assessment) error {
	rest := promotion.RollbackWindow - a.Evidence.Now.Sub(a.State.StageAt)
	switch {
	case a.Alarm.Reason != "":
		return fmt.Errorf("not completed: %s (--force overrules this)", a.Alarm.Reason)
	case a.Gate.Verdict == gate.Fail:
		return fmt.Errorf("not completed: %s (--force overrules this)", a.Gate.Reason)
	case len(a.Pressed()) > 0:
		return errors.New("not completed: the red button is pressed on " + strings.Join(a.Pressed(), ", ") + " (--force overrules this)")
	case len(a.Evidence.OtherEpoch) > 0:
		return errors.New("not completed: instances run another configuration (--force overrules this)")
	case rest > 0:
		return fmt.Errorf("not completed: a rollback is to be warm for another %s, until a week after the promotion (--force overrules this)", rest.Round(time.Minute))
	}
	return nil
}

func completeDo(ctx context.Context, f *fleet, _ *cli.Context, a *promotion.Assessment, o promotion.Order) (promotion.State, error) {
	if o.Expect == nil {
		o.Expect = &a.State.Version
	}
	o.Evidence = a.Gate.Brief()
	return promotion.Complete(ctx, f.store, a.Spec.Policy, o)
}
