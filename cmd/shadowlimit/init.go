package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

const initDescription = `Writes a policy file with one policy from a few flags: which requests, by
what key, today's limiter (--from, or none if there is no limit yet) and
tomorrow's (--to; without it the policy is a plain limiter). The file is
commented, and valid as it is. A file that exists is never overwritten: exit
status 3.

Limiters are written as name:REQUESTS/WINDOW[:burst=N], as for replay. What
each process counts in its own memory is no --from: with n instances its
limit is n times as much. See "Per process to fleet" in docs/policies.md.

Examples, from the folder of the repository:
  shadowlimit init "$(mktemp -d)/policies.yaml" --from fixed_window:100/1m \
      --to token_bucket:100/1m:burst=20
  shadowlimit init "$(mktemp -d)/first.yaml" --from none \
      --to token_bucket:100/1m:burst=20
  shadowlimit init "$(mktemp -d)/orders.yaml" \
      --method POST --route '/orders/{id}' \
      --from fixed_window:100/1m`

func initCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "init",
		Usage:       "write a first policy file",
		ArgsUsage:   "FILE",
		Description: initDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "today's `LIMITER`, such as fixed_window:100/1m, or none (required)"},
			&cli.StringFlag{Name: "to", Usage: "tomorrow's `LIMITER`, such as token_bucket:100/1m:burst=20"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the file, its namespace in Redis (default: from FILE)"},
			&cli.StringFlag{Name: "policy", Value: "per-client", Usage: "`NAME` of the policy"},

			// The requests that the policy is for.
			&cli.StringFlag{Name: "route", Usage: "only requests of this `ROUTE`, a template such as /orders/{id}"},
			&cli.StringSliceFlag{Name: "method", Usage: "only requests with this `METHOD`; repeatable"},
			&cli.StringFlag{Name: "key", Value: "request.ip", Usage: "CEL `EXPRESSION` of the client"},
		},
		Action: func(c *cli.Context) error { return initAction(c, std) },
	}
}

func initAction(c *cli.Context, std streams) error {
	file := c.Args().First()
	if c.NArg() != 1 || file == "" {
		return usagef(seeHelp(c), "init needs one file, got %d", c.NArg())
	}
	s, err := starterOf(c)
	if err != nil {
		return err
	}

	if err := checkPlace("init", file); err != nil {
		return err
	}

	text := s.policyText()
	if _, err := policies.Load(filepath.Base(file), []byte(text), stages.Check); err != nil {
		return usagef("correct the flag that this text comes from", "the flags make no policy file: %v", err)
	}
	if err := createNew(file, text); err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.out, file)
	say(std.err, "next: %s\n", afterInit(c, file))
	return err
}

// afterInit is what one does with the file: a candidate is what a replay compares.
func afterInit(c *cli.Context, file string) string {
	if c.IsSet("to") {
		return "shadowlimit replay --config " + file + " LOG"
	}
	return "shadowlimit validate " + file + "   (a candidate, as --to makes one, can be replayed over a log)"
}

// nameOf is the name of the policy file that no flag names.
func nameOf(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

func starterOf(c *cli.Context) (*starter, error) {
	if !c.IsSet("from") {
		return nil, usagef("such as --from fixed_window:100/1m, or --from none", "init needs --from, today's limiter")
	}
	s := &starter{
		by: "init", file: c.Args().First(), name: c.String("name"), policy: c.String("policy"), route: c.String("route"), methods: c.StringSlice("method"),
		key: c.String("key"),
	}
	for role, flag := range []string{"from", "to"} {
		if !c.IsSet(flag) {
			continue
		}
		side, err := parseSide(flag, c.String(flag))
		if err != nil {
			return nil, err
		}
		if !side.Present() && !c.IsSet("to") {
			return nil, usagef("such as --to token_bucket:100/1m:burst=20", "--from none needs --to, the first limit")
		}
		s.sides = append(s.sides, side)
		s.roles = append(s.roles, algorithms.Role(role))
	}

	if s.name == "" {
		s.name = nameOf(s.file)
	}
	for flag, name := range map[string]string{"name": s.name, "policy": s.policy} {
		if !policies.ValidName(name) {
			return nil, usagef("a name has letters, digits, '.', '_' and '-'", "--%s %q is no name", flag, name)
		}
	}
	return s, nil
}

// createNew writes a file that does not exist.
func createNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return statusf(exitNotMet, "not written: %s exists: name another file, or remove it", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, reason(err))
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
