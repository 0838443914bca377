package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/completion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const completionDescription = `Prints a script that completes commands, flags and files in a shell. It also completes
the names of policies, which it asks of the service's Redis, if --redis or
SHADOWLIMIT_REDIS and the name are known.

Examples:
  shadowlimit completion bash  # ~/.bashrc: source <(shadowlimit completion bash)
  shadowlimit completion zsh   # ~/.zshrc, after compinit: source <(shadowlimit completion zsh)
  shadowlimit completion fish  # config.fish: shadowlimit completion fish | source`

func completionCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands in a shell",
		ArgsUsage:   "bash|zsh|fish",
		Description: completionDescription,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("bash, zsh or fish", "completion needs one shell, got %d", c.NArg())
			}
			script, ok := completion.Script(c.Args().First(), c.App.Commands)
			if !ok {
				return usagef("bash, zsh or fish", "no completion for %q", c.Args().First())
			}

			_, err := fmt.Fprint(std.out, script)
			return err
		},
	}
}

// policiesTimeout is how long a key press may wait for Redis.
const policiesTimeout = 500 * time.Millisecond

// policiesCommand prints the announced policies for a completion. Its argument is the command
// line so far, for --redis and --name. It is silent on any failure: a message would end up on
// the command line that is being typed.
func policiesCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:   "__policies",
		Hidden: true,
		Flags:  fleetFlags(),
		Action: func(c *cli.Context) error {
			typed := strings.Fields(strings.Join(c.Args().Slice(), " "))
			address := typedFlag(typed, "redis", c.String("redis"))
			name := typedFlag(typed, "name", c.String("name"))
			listPolicies(c.Context, address, name, std.out)
			return nil
		},
	}
}

func listPolicies(ctx context.Context, address, name string, out io.Writer) {
	if address == "" || name == "" {
		return
	}
	client, err := openRedis(address, commandBudget)
	if err != nil {
		return
	}

	// A dial does not always heed its context, so the wait is bounded here.
	ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
	defer cancel()
	found := make(chan []promotion.Spec, 1)
	go func() {
		defer client.Close()
		specs, _ := promotion.NewRedisStore(client, name).Specs(ctx)
		found <- specs
	}()

	select {
	case specs := <-found:
		for _, s := range specs {
			fmt.Fprintln(out, s.Policy)
		}
	case <-ctx.Done():
	}
}

// typedFlag returns the value that a command line gives a flag, else the known one. The shell has
// not parsed the line yet, so a value may still have its quotes.
func typedFlag(typed []string, name, known string) string {
	for i, text := range typed {
		flag, value, found := strings.Cut(text, "=")
		switch {
		case strings.TrimLeft(flag, "-") != name || flag == name:
		case found:
			known = value
		case i+1 < len(typed):
			known = typed[i+1]
		}
	}

	return strings.Trim(known, `'"`)
}
