package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/lua"
)

const doctorDescription = `Checks the Redis that a service uses and says what to change: version, role,
memory and eviction, clock, latency. With --name it also

  * tries every operation of the library with the rights of this user, on
    a key of its own that it removes;
  * lists what instances report about the options of their Redis clients.

Exit status 1 if there is a problem; warnings alone leave it at 0.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit doctor
  shadowlimit doctor -o json`

func doctorCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "check the Redis of a service and say what to change",
		Description: doctorDescription,
		Flags:       fleetFlags(),
		Action:      func(c *cli.Context) error { return doctorAction(c, std.out) },
	}
}

func doctorAction(c *cli.Context, out io.Writer) error {
	if c.Args().Present() {
		return usagef(seeHelp(c), "doctor takes no arguments")
	}
	format, err := formatOf(c)
	if err != nil {
		return err
	}

	client, err := openRedis(c.String("redis"), commandBudget)
	if err != nil {
		return err
	}
	defer client.Close()

	// A name that no service can have would make checks of other keys than a service uses.
	name := c.String("name")
	if name != "" {
		if _, err := lua.New(client, lua.Config{Name: name}); err != nil {
			return usagef(`give the policy file's "name"`, "--name: %s", strings.TrimPrefix(err.Error(), "lua: new: "))
		}
	}

	// The findings of an interrupted examination would read as problems of the Redis.
	report := doctor.Examine(c.Context, client, name)
	if err := c.Context.Err(); err != nil {
		return err
	}

	err = format.print(out, report, func(out io.Writer) error {
		_, err := io.WriteString(out, report.Text(humanize.PageFor(out).Colors))
		return err
	})
	if err == nil && report.Problems > 0 {
		err = fmt.Errorf("%s with this Redis", humanize.Counted(int64(report.Problems), "problem"))
	}
	return err
}
