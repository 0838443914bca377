package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const adoptDescription = `Stores what the instances of another policy file compare, at once. Instances
whose fingerprint is not the stored one enforce the authoritative. Most of
the time nothing is to be done: a larger generation takes over once it was
served for a while, and any other fingerprint when the stored one was served
nowhere for as long. Adopting is for the case in which instances of the
stored one go on, and are the ones that are old.

What is adopted goes on in the stage that it had, or begins in shadow. It
gets the largest generation that is alive, so that no other file takes it
back. See what status says of the instances first.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit adopt per-client \
      --reason "release 42 is undone"   # refused (3): it has one file only`

func adoptCommand(std streams) *cli.Command {
	m := move{needsReason: true, effect: adopted, do: func(ctx context.Context, t *task) (stages.State, error) {
		return stages.Adopt(ctx, t.fleet.store, t.policy(), t.cli.String("fingerprint"), t.order)
	}}

	return m.command(std, "adopt", "store what the instances of another policy file compare", adoptDescription,
		&cli.StringFlag{
			Name: "fingerprint", Usage: "`FINGERPRINT` to adopt, where live instances have more than one that is not stored",
		},
	)
}

// adopted says which fingerprint is adopted, and in place of which.
func adopted(a *stages.Assessment, next stages.State) string {
	var by []string
	for _, i := range a.Live {
		if i.Policies[a.Spec.Policy].Fingerprint == next.Fingerprint {
			by = append(by, i.ID)
		}
	}
	return fmt.Sprintf("adopts %s of %s, with generation %d, in place of %s, generation %d",
		next.Fingerprint, strings.Join(by, ", "), next.Generation, a.State.Fingerprint, a.State.Generation)
}
