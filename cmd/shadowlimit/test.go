package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

const testDescription = `Runs the tests of a policy file: which checks a request makes, and what both
limiters decide over a sequence of requests in virtual time. It also names
the policies that the tests have not seen match, or have not seen not match.
Exit status 1 if a test fails.

  policies: checkout.yaml                  # beside this file
  tests:
    - name: bulk writes cost ten
      request: { method: POST, route: /v1/bulk, headers: { x-tenant: acme } }
      charges:
        - { policy: tenant-writes, key: acme, cost: 10,
            candidate: "token_bucket:100/1m:burst=20" }
    - name: a burst is for the window, not for the bucket
      sequence:
        - { at: 0s, repeat: 20, request: { method: POST, route: /v1/a },
            authoritative: allow, candidate: allow }
        - { at: 0s, request: { method: POST, route: /v1/a },
            authoritative: allow, candidate: deny }

A test lists every check of its request, in the order of the policies; what a
check leaves out is not compared. A step of a sequence is denied if any
policy that it matches denies it.

Example, from the folder of the repository:
  shadowlimit test examples/policies/per-plan-tiers.tests.yaml`

func testCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "test",
		Usage:       "run the tests of a policy file",
		ArgsUsage:   "FILE...",
		Description: testDescription,
		Flags:       []cli.Flag{outputFlag()},
		Action:      func(c *cli.Context) error { return testAction(c, std.out) },
	}
}

func testAction(c *cli.Context, out io.Writer) error {
	if !c.Args().Present() {
		return usagef(seeHelp(c), "test needs a file of tests")
	}
	format, err := formatOf(c)
	if err != nil {
		return err
	}

	failed := 0
	for _, file := range c.Args().Slice() {
		report, err := policies.TestFile(file)
		if err != nil {
			return inFile(file, err)
		}

		failed += report.Failed
		err = format.print(out, report, func(out io.Writer) error { return writeTests(out, file, report) })
		if err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s failed", humanize.Counted(int64(failed), "test"))
	}
	return nil
}

func writeTests(out io.Writer, file string, r *policies.SuiteReport) error {
	if r.Failed > 0 {
		fmt.Fprintln(out, r.Error())
	}
	_, err := fmt.Fprintf(out, "%s: %d passed, %d failed\n", file, r.Passed, r.Failed)
	return err
}
