package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit statuses, the command line's contract.
const (
	exitOK        = 0
	exitFailure   = 1   // unreadable input, invalid policy, no Redis
	exitUsage     = 2   // wrong invocation or short form
	exitNotMet    = 3   // the gate, or another condition of a step, is not met
	exitConflict  = 4   // the state changed meanwhile
	exitTimeout   = 5   // not everybody has applied the step in time
	exitInterrupt = 130 // stopped by the user
)

// usageError is a wrong invocation.
type usageError struct{ message, hint string }

func (e usageError) Error() string { return e.message }

func usagef(hint, format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...), hint}
}

// statusError is a failure with an exit status of its own.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

// run is the whole program but for the process around it. It returns the exit
// status.
func run(ctx context.Context, args []string, io streams) int {
	return runApp(ctx, newApp(io), args, io)
}

// runApp runs an app of the program.
func runApp(ctx context.Context, app *cli.App, args []string, io streams) int {
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	err := app.RunContext(ctx, append([]string{app.Name}, flagsFirst(app.Commands, args)...))
	if err == nil {
		return exitOK
	}
	var usage usageError
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(io.err, "shadowlimit: interrupted")
		return exitInterrupt
	case errors.As(err, &usage):
		fmt.Fprintf(io.err, "shadowlimit: %s\n", usage.message)
		if usage.hint != "" {
			fmt.Fprintf(io.err, "hint: %s\n", usage.hint)
		}
		return exitUsage
	}
	fmt.Fprintf(io.err, "shadowlimit: %v\n", err)
	var status statusError
	if errors.As(err, &status) {
		return status.status
	}
	return exitFailure
}

func newApp(io streams) *cli.App {
	app := &cli.App{
		Name:            "shadowlimit",
		Usage:           "replace a rate limiter in production without hurting anyone",
		HideVersion:     true,
		HideHelpCommand: true,
		Reader:          io.in, Writer: io.out, ErrWriter: io.err,
		Commands:       commands(io),
		Suggest:        true,
		ExitErrHandler: func(*cli.Context, error) {}, // run alone decides the status
		OnUsageError:   onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("the commands are: "+commandNames(c.App.Commands), "no command %q", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	tame(app.Commands)
	return app
}

// tame makes all commands report wrong invocations alike.
func tame(commands []*cli.Command) {
	for _, command := range commands {
		command.OnUsageError = onUsageError
		command.HideHelpCommand = true
		tame(command.Subcommands)
	}
}

func commands(io streams) []*cli.Command {
	return []*cli.Command{
		demoCommand(io), replayCommand(io), validateCommand(io), testCommand(io), explainCommand(io),
		statusCommand(io), watchCommand(io), topCommand(io), historyCommand(io), doctorCommand(io),
		promoteCommand(io), rollbackCommand(io), pauseCommand(io), resumeCommand(io), completeCommand(io), controllerCommand(io),
		alertsCommand(io), dashboardsCommand(io), completionCommand(io), policiesCommand(io),
	}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usagef(fmt.Sprintf("see: %s --help", c.Command.HelpName), "%v", err)
}

func commandNames(commands []*cli.Command) string {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// flagsFirst moves the flags of a command before its other arguments: urfave/cli
// v2 would take every flag after the first argument for an argument itself.
// Everything after "--" stays an argument.
func flagsFirst(commands []*cli.Command, args []string) []string {
	if len(args) == 0 {
		return args
	}
	command := find(commands, args[0])
	if command == nil {
		return args
	}
	if len(args) > 1 && find(command.Subcommands, args[1]) != nil {
		return append(args[:1:1], flagsFirst(command.Subcommands, args[1:])...)
	}
	var flags, rest []string
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if arg == "-h" || arg == "--help" {
			return []string{args[0], "--help"} // of the command, whatever else is said
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		flags = append(flags, arg)
		if !takesValue(command, arg) {
			continue
		}
		if i+1 == len(args) || isFlag(command, args[i+1]) {
			return []string{args[0], arg} // for urfave/cli to say that its value is missing
		}
		i++
		flags = append(flags, args[i])
	}
	if len(rest) > 0 {
		flags = append(flags, "--")
	}
	return append(append(args[:1:1], flags...), rest...)
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// takesValue reports whether the next argument is the flag's value.
func takesValue(command *cli.Command, arg string) bool {
	flag := flagOf(command, arg)
	_, isBool := flag.(*cli.BoolFlag)
	return flag != nil && !isBool && !strings.Contains(arg, "=")
}

// isFlag reports whether an argument is one of the command's flags.
func isFlag(command *cli.Command, arg string) bool {
	return strings.HasPrefix(arg, "-") && flagOf(command, arg) != nil
}

func flagOf(command *cli.Command, arg string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, flag := range command.Flags {
		if slices.Contains(flag.Names(), name) {
			return flag
		}
	}
	return nil
}
