package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

const testDescription = `Runs the tests of a policy file: what requests are charged, and what both limiters
decide over a sequence of requests in virtual time. It also says which policies
the tests have not seen match, or not match. Exit status 1 if a test fails.

  policies: checkout.yaml                  # beside this file
  tests:
    - name: bulk writes cost ten
      request: { method: POST, route: /v1/bulk, headers: { x-tenant: acme } }
      charges:
        - { policy: tenant-writes, key: acme, cost: 10, candidate: "token_bucket:100/1m:burst=20" }
    - name: a burst is for the window, not for the bucket
      sequence:
        - { at: 0s, repeat: 20, request: { method: POST, route: /v1/a }, authoritative: allow, candidate: allow }
        - { at: 1s, request: { method: POST, route: /v1/a }, authoritative: allow, candidate: deny }

Example:
  shadowlimit test examples/policies/per-plan-tiers.tests.yaml`

func testCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "test", Usage: "run the tests of a policy file", ArgsUsage: "FILE...", Description: testDescription,
		Flags:  []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error { return testAction(c, io) },
	}
}

func testAction(c *cli.Context, io streams) error {
	if !c.Args().Present() {
		return usagef("see: shadowlimit test --help", "test needs a file of tests")
	}
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	failed := 0
	for _, file := range c.Args().Slice() {
		report, set, err := policies.TestFile(file)
		if err != nil {
			return placed(file, err)
		}
		failed += report.Failed
		if asJSON {
			if err := writeJSON(io.out, report); err != nil {
				return err
			}
			continue
		}
		if report.Failed > 0 {
			fmt.Fprintln(io.out, report.Error())
		}
		fmt.Fprintf(io.out, "%s: %d passed, %d failed\n", file, report.Passed, report.Failed)
		if names := report.Uncovered(set); len(names) > 0 {
			fmt.Fprintf(io.out, "  not seen both to match and not to match: %s\n", strings.Join(names, ", "))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s failed", humanize.Counted(int64(failed), "test"))
	}
	return nil
}
