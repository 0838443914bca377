package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// fleet is the running service that a command talks to, by way of its Redis.
type fleet struct {
	name       string
	client     redis.UniversalClient
	store      *stages.RedisStore
	ledger     *evidence.RedisLedger
	controller *stages.Controller
	format     format
}

// fleetFlags are those of a command about a running service.
func fleetFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		redisFlag("`URL` of Redis (required)"),
		&cli.StringFlag{
			Name: "name", EnvVars: []string{"SHADOWLIMIT_NAME"},
			Usage: "`NAME` of the service, as the field name of its policy file has it (required)",
		},
		outputFlag(),
	}, more...)
}

// openFleet reads the flags that all fleet commands have.
func openFleet(c *cli.Context, f format) (*fleet, error) {
	name := c.String("name")
	if name == "" {
		return nil, usagef("give --name, as in the policy file's \"name\", or set SHADOWLIMIT_NAME", "no service named")
	}
	client, err := openRedis(c.String("redis"), commandBudget)
	if err != nil {
		return nil, err
	}

	store, ledger := stages.NewRedisStore(client, name), evidence.NewRedisLedger(client, name)
	controller := stages.NewController(store, ledger, actor())
	return &fleet{name: name, client: client, store: store, ledger: ledger, controller: controller, format: f}, nil
}

func (f *fleet) close() { f.client.Close() }

// withFleet makes an action of a function that needs a fleet.
//
// It checks the arguments first: a wrong invocation is one whether Redis answers or not. A fleet that does not answer is refused, so
// that the first failure says what to do.
func withFleet(check func(*cli.Context) error, do func(*cli.Context, *fleet) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		format, err := formatOf(c)
		if err != nil {
			return err
		}
		if err := check(c); err != nil {
			return err
		}

		f, err := openFleet(c, format)
		if err != nil {
			return err
		}
		defer f.close()
		if err := reach(c.Context, f.store.Ping); err != nil {
			return withRemedy(err)
		}
		return withRemedy(do(c, f))
	}
}

// withRemedy adds to an error of Redis what to do about it, unless the error says so already.
func withRemedy(err error) error {
	if remedy := doctor.Remedy(err); remedy != "" && !strings.Contains(err.Error(), remedy) {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

// needsPolicy refuses an invocation without one policy.
func needsPolicy(c *cli.Context) error {
	_, err := onePolicy(c)
	return err
}

// takesPolicy refuses an invocation with several policies.
func takesPolicy(c *cli.Context) error {
	if c.NArg() > 1 {
		return usagef(seeHelp(c), "%s takes one policy, got %d", c.Command.Name, c.NArg())
	}
	return nil
}

// onePolicy returns the policy that a command is about.
func onePolicy(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", usagef(seeHelp(c), "%s needs one policy, got %d", c.Command.Name, c.NArg())
	}
	return c.Args().First(), nil
}

// assess judges one policy. The evidence of others is not read: it may be on a node of a cluster that hangs.
func (f *fleet) assess(ctx context.Context, policy string) ([]stages.Assessment, error) {
	list, err := f.controller.Assess(ctx, policy)
	if err == nil && len(list) == 0 {
		err = cmp.Or(f.unknown(ctx, policy, stages.ErrUnknownPolicy), stages.ErrUnknownPolicy)
	}
	return list, err
}

// glanceBudget is short: a rollback must not wait for a warning.
const glanceBudget = time.Second

// glance returns a policy's state, and what instances say of it and of themselves, without any evidence. Where that cannot be read it has
// the policy's name alone. announced is false if the specs were read and the policy has none.
func (f *fleet) glance(ctx context.Context, policy string) (a *stages.Assessment, announced bool) {
	ctx, cancel := context.WithTimeout(ctx, glanceBudget)
	defer cancel()

	a = &stages.Assessment{Spec: stages.Spec{Policy: policy}}
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return a, true
	}
	if spec, there := fleet.Announced(policy); there {
		a.Spec, announced = spec, true
	}
	a.Live, a.Silent = fleet.With(policy)

	// The stage decides what a rollback would change. One that is not known may enforce the candidate.
	if states, err := f.store.States(ctx, []string{policy}); err == nil {
		a.State = states[0]
	}
	list := []stages.Assessment{*a}
	f.tryWrite(ctx, list)
	return &list[0], announced
}

// look returns the published assessments of these policies, or of all without a name.
func (f *fleet) look(ctx context.Context, names ...string) (list []stages.Assessment, err error) {
	all, err := f.controller.Look(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return f.only("", all)
	}
	for _, name := range names {
		one, err := f.only(name, all)
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	return list, nil
}

// unknown says which policies there are, for an error of a policy that no instance has announced. Any other error stays as it is. The
// time of the order may be over, so it takes one of its own.
func (f *fleet) unknown(ctx context.Context, policy string, err error) error {
	if !errors.Is(err, stages.ErrUnknownPolicy) {
		return err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), glanceBudget)
	defer cancel()
	fleet, failure := f.store.Fleet(ctx)
	if failure != nil {
		return err
	}

	announced := make([]stages.Assessment, len(fleet.Specs))
	for i, spec := range fleet.Specs {
		announced[i].Spec = spec
	}
	_, err = f.only(policy, announced)
	return err
}

// only returns the assessment of one policy, or all if policy is "".
func (f *fleet) only(policy string, all []stages.Assessment) ([]stages.Assessment, error) {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Spec.Policy
		if a.Spec.Policy == policy {
			return all[i : i+1], nil
		}
	}

	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("no instance of %q has announced a policy here: "+
			"check that --name is the policy file's name, and that the service uses this Redis", f.name)
	case policy != "":
		return nil, fmt.Errorf("%s has no policy %q: it has %s", f.name, policy, strings.Join(names, ", "))
	}
	return all, nil
}

// report is the status of these policies, or of all without a name.
func (f *fleet) report(ctx context.Context, names ...string) (status.Report, error) {
	list, err := f.look(ctx, names...)
	if err != nil {
		return status.Report{}, err
	}
	f.tryWrite(ctx, list)
	report, err := status.Of(ctx, f.name, f.ledger, list)
	if err != nil {
		return report, err
	}
	policies := make([]string, len(list))
	for i := range list {
		policies[i] = list[i].Spec.Policy
	}
	report.Nodes = doctor.SilentNodes(ctx, f.client, f.name, policies)
	return report, nil
}

// tryWrite notes in assessments that the service's Redis refuses writes. It answers every question of this command then, while
// no limit works and no instance can say so.
func (f *fleet) tryWrite(ctx context.Context, list []stages.Assessment) {
	err := f.store.TryWrite(ctx)
	if !redisreply.RefusesWrites(err) {
		return
	}

	// Beside live instances this may be the user of the command, or a replica that it was pointed at.
	for i := range list {
		if redisreply.RefusesAll(err) || len(list[i].Live) == 0 && redisreply.IsReplica(err) {
			list[i].Refused = err
		}
	}
}

// actor is the origin of an order, for the audit trail: user@host.
func actor() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // "" will do
	return name + "@" + host
}

// plainError words an error of the library for an operator: without the name of the package, and without
// the kind of the error where the sentence before it has said that.
type plainError struct{ error }

func (e plainError) Error() string {
	text := strings.TrimPrefix(e.error.Error(), "stages: ")
	if at, there := strings.CutSuffix(text, " already: "+stages.ErrConflict.Error()); there {
		return at + " already, and nothing was done: history shows the step that led there"
	}
	if errors.Is(e.error, stages.ErrConflict) {
		return text + ", and nothing was done: look at status and try again"
	}
	return strings.TrimSuffix(text, ": "+stages.ErrNowhere.Error())
}

func (e plainError) Unwrap() error { return e.error }

// refusedMove gives the errors of a policy's moves their exit statuses, and says what to do.
func refusedMove(policy string, err error) error {
	if has := new(statusError); errors.As(err, has) {
		return err
	}

	err = plainError{err}
	switch {
	case errors.Is(err, stages.ErrConflict):
		return statusError{exitConflict, err}
	case errors.Is(err, stages.ErrStale):
		return statusf(exitConflict, "%w, and nothing was done: look at status and try again", err)
	case errors.Is(err, stages.ErrHold):
		return statusf(exitNotMet, "%w; end that first: shadowlimit resume %s", err, policy)
	case errors.Is(err, stages.ErrPressed), errors.Is(err, stages.ErrNowhere), errors.Is(err, stages.ErrFollowed):
		return statusError{exitNotMet, err}
	}
	return err
}
