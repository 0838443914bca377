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
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const initDescription = `Writes a policy file with one policy, and its tests beside it, from a few flags: which
requests, by what key, today's limiter (--from) and tomorrow's (--to; without it the
policy is a plain limiter). Both files are commented, and pass validate and test as
they are. A file that exists is never overwritten: exit status 3.

Limiters are written as name:REQUESTS/WINDOW[:burst=N][:OPTION...], as for replay. A
policy file of the configuration of another limiter is made by shadowlimit import.

Examples:
  shadowlimit init "$(mktemp -d)/policies.yaml" --from fixed_window:100/1m --to token_bucket:100/1m:burst=20
  shadowlimit init "$(mktemp -d)/orders.yaml" --method POST --route '/orders/{id}' --from fixed_window:100/1m`

func initCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "init",
		Usage:       "write a first policy file with its tests",
		ArgsUsage:   "FILE",
		Description: initDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "today's `LIMITER`, such as fixed_window:100/1m (required)"},
			&cli.StringFlag{Name: "to", Usage: "tomorrow's `LIMITER`, such as token_bucket:100/1m:burst=20"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the file, its namespace in Redis (default: from FILE)"},
			&cli.StringFlag{Name: "policy", Value: "per-client", Usage: "`NAME` of the policy"},

			// The requests that the policy is for.
			&cli.StringFlag{Name: "route", Usage: "only requests of this `ROUTE`, a template such as /orders/{id}"},
			&cli.StringSliceFlag{Name: "method", Usage: "only requests with this `METHOD`; may be repeated"},
			&cli.StringFlag{Name: "key", Value: "request.ip", Usage: "CEL `EXPRESSION` of the client"},
		},
		Action: func(c *cli.Context) error { return initAction(c, std) },
	}
}

func initAction(c *cli.Context, std streams) error {
	if c.NArg() != 1 || c.Args().First() == "" {
		return usagef(seeHelp(c), "init needs one file, got %d", c.NArg())
	}
	s, err := starterOf(c)
	if err != nil {
		return err
	}

	// Half of a pair would be in the way of the next try.
	s.file = c.Args().First()
	for _, name := range []string{s.file, s.testsFile()} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return statusf(exitNotMet, "not written: %s exists: name another file, or remove it", name)
		}
	}
	if err := s.write(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s\n%s\n", s.file, s.testsFile())
	fmt.Fprintf(std.err, "next: shadowlimit test %s ; shadowlimit replay --config %s LOG\n", s.testsFile(), s.file)
	return err
}

// starterOf reads the flags.
func starterOf(c *cli.Context) (*starter, error) {
	if !c.IsSet("from") {
		return nil, usagef("such as --from fixed_window:100/1m", "init needs --from, today's limiter")
	}
	s := &starter{
		name: c.String("name"), policy: c.String("policy"), route: c.String("route"), methods: c.StringSlice("method"), key: c.String("key"),
	}
	for role, flag := range []string{"from", "to"} {
		if !c.IsSet(flag) {
			continue
		}
		side, err := parseSide(flag, c.String(flag))
		if err != nil {
			return nil, err
		}
		s.sides = append(s.sides, side)
		s.roles = append(s.roles, algorithms.Role(role))
	}

	if s.name == "" {
		base := filepath.Base(c.Args().First())
		s.name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	for flag, name := range map[string]string{"name": s.name, "policy": s.policy} {
		if !policies.ValidName(name) {
			return nil, usagef("a name has letters, digits, '.', '_' and '-'", "--%s %q is no name", flag, name)
		}
	}
	return s, nil
}

// write checks both texts in a folder of their own, and then writes them where they belong.
func (s *starter) write() error {
	trial, err := os.MkdirTemp("", "shadowlimit-init-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(trial)

	text := s.policyText()
	set, err := policies.Load(filepath.Base(s.file), []byte(text), shadow.CheckPromotion)
	if err != nil {
		return fmt.Errorf("the flags make no policy file: %w", err)
	}
	tests, err := s.testsText(set)
	if err != nil {
		return err
	}

	trialTests := filepath.Join(trial, filepath.Base(s.testsFile()))
	err = errors.Join(createNew(filepath.Join(trial, filepath.Base(s.file)), text), createNew(trialTests, tests))
	if err != nil {
		return err
	}
	report, _, err := policies.TestFile(trialTests)
	if err == nil && report.Failed > 0 {
		err = report
	}
	if err != nil {
		return fmt.Errorf("the tests do not fit the policy file: %w", err)
	}

	return errors.Join(createNew(s.file, text), createNew(s.testsFile(), tests))
}

// createNew writes a file that does not exist.
func createNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
