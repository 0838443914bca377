package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/flaghelp"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Exit statuses, the command line's contract.
const (
	exitOK        = 0
	exitFailure   = 1   // unreadable input, invalid policy, no Redis
	exitUsage     = 2   // wrong invocation or short form
	exitNotMet    = 3   // the gate, or another condition of a step, is not met
	exitConflict  = 4   // the state changed meanwhile
	exitTimeout   = 5   // some instances have not applied the step in time
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

func statusf(status int, format string, args ...any) error {
	return statusError{status, fmt.Errorf(format, args...)}
}

// run is the whole program except for the process around it. It returns the exit status.
func run(ctx context.Context, args []string, std streams) int {
	redis.SetLogger(silentLogger{})
	std.out, std.err = newDisplay(std.out), newDisplay(std.err)
	return runApp(ctx, newApp(std), args, std)
}

func runApp(ctx context.Context, app *cli.App, args []string, std streams) int {
	// Behind "--" the library takes its flag for an argument, and would carry the command out.
	completes := len(args) > 0 && args[len(args)-1] == completionFlag
	if completes && slices.Contains(args, "--") {
		return exitOK
	}

	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	if len(args) == 1 && args[0] == "version" {
		args = []string{"--version"}
	}

	var err error
	if !completes {
		args, err = colorOf(args, std)
		args = flagsFirst(app.Commands, args)
	}
	if err == nil {
		err = app.RunContext(ctx, append([]string{app.Name}, args...))
	}
	if err == nil {
		return exitOK
	}

	// An interrupt that the user gave is the reason of whatever else has failed.
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = statusError{exitInterrupt, errors.New("interrupted")}
	}

	// A URL in the wrong place, as an argument, is shown without its password.
	f := failure{Error: humanize.WithoutSecrets(err.Error()), status: exitFailure}
	var usage usageError
	var status statusError
	switch {
	case errors.As(err, &usage):
		f.Hint, f.status = usage.hint, exitUsage
	case errors.As(err, &status):
		f.status = status.status
	}

	if asksJSON(args) {
		humanize.WriteJSON(std.err, "", f)
		return f.status
	}
	// A problem of a file begins with its place, as an editor wants it.
	name := "shadowlimit: "
	if _, inFile := err.(*policies.Problems); inFile {
		name = ""
	}
	say(std.err, "%s%s\n", name, f.Error)
	if f.Hint != "" {
		say(std.err, "hint: %s\n", f.Hint)
	}
	return f.status
}

// failure is the contract of a command that fails with -o json: the last line on standard error.
type failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`

	status int
}

// asksJSON reports whether the output is to be JSON. A wrong invocation is told so as well, and the library then has no flags.
func asksJSON(args []string) bool {
	asked := false
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if arg == "--" {
			break
		}
		if name != "-o" && name != "--o" && name != "-output" && name != "--output" {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		asked = value == string(formatJSON)
	}
	return asked
}

const appDescription = `Begin with "shadowlimit demo", which needs nothing, and then replay a log of
your own:
  shadowlimit replay --from fixed_window:100/1m \
      --to token_bucket:100/1m:burst=20 access.log

The commands of groups 3 and 4 below need --name, the field name of the
policy file, and --redis, the URL of the service's Redis. SHADOWLIMIT_NAME
and SHADOWLIMIT_REDIS set the same. Each command has --help with examples.
The README and docs/ beside it explain the rest.

Exit status: 0 done, 1 a failure, 2 a wrong invocation, 3 the gate or another
condition is not met, 4 the state has changed meanwhile, 5 not applied or not
stored in time, 130 interrupted. Errors are text on standard error; with -o
json its last line is the error as JSON, {"error": "...", "hint": "..."}.`

func newApp(std streams) *cli.App {
	app := &cli.App{
		Name:            "shadowlimit",
		Usage:           "replace a rate limiter in production without hurting anyone",
		Description:     appDescription,
		Version:         versionText(),
		HideHelpCommand: true,
		Reader:          std.in, Writer: std.out, ErrWriter: std.err,
		// It stands anywhere: colorOf has read it before.
		Flags:    []cli.Flag{&cli.StringFlag{Name: "color", Value: colorAuto, Usage: "`WHEN` words get a colour: auto, always or never"}},
		Commands: commands(std),
		// A comma may be in a template of a route or in the name of a field.
		DisableSliceFlagSeparator: true,
		Suggest:                   true,
		EnableBashCompletion:      true,
		ExitErrHandler:            func(*cli.Context, error) {}, // run alone decides the status
		OnUsageError:              onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return noCommand(c.Args().First(), c.App.Commands)
			}
			return cli.ShowAppHelp(c)
		},
	}

	unify(app.Commands)
	return app
}

// helpWithoutCategory is the help of a command without its heading in the list of all.
func helpWithoutCategory() string {
	return strings.Replace(cli.CommandHelpTemplate, "{{if .Category}}\n\nCATEGORY:\n   {{.Category}}{{end}}", "", 1)
}

// versionText names this build, for a report of a fault.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}

	text := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && !strings.Contains(text, setting.Value[:min(12, len(setting.Value))]) {
			text += ", revision " + setting.Value
		}
	}
	return text + ", " + info.GoVersion
}

func init() { flaghelp.Use() }

// unify makes all commands report wrong invocations alike, and their help say no more than it must.
func unify(commands []*cli.Command) {
	for _, command := range commands {
		command.OnUsageError = onUsageError
		command.HideHelpCommand = true
		command.CustomHelpTemplate = helpWithoutCategory()
		unify(command.Subcommands)
	}
}

func commands(std streams) []*cli.Command {
	// The library sorts the groups by their names.
	return slices.Concat(
		group("1. Try it", demoCommand(std), replayCommand(std), suggestCommand(std)),
		group("2. Write a policy file",
			initCommand(std), importCommand(std), validateCommand(std), testCommand(std), explainCommand(std)),
		group("3. Look at a running service",
			statusCommand(std), watchCommand(std), topCommand(std), keyCommand(std), historyCommand(std), reportCommand(std), doctorCommand(std)),
		group("4. Move a policy", promoteCommand(std), rollbackCommand(std), pauseCommand(std), resumeCommand(std), completeCommand(std),
			adoptCommand(std), forgetCommand(std)),
		group("5. Run and install", serveCommand(std), followCommand(std), controllerCommand(std),
			alertsCommand(std), dashboardsCommand(std), completionCommand(std)),
	)
}

// group gives commands the heading under which the help lists them.
func group(heading string, list ...*cli.Command) []*cli.Command {
	for _, command := range list {
		command.Category = heading
	}
	return list
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	// The library names the flag with one dash, however it was written.
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usagef(seeHelp(c), "%s", err)
	}
	name, _, _ = strings.Cut(name, "=") // a value may be a secret

	hint := seeHelp(c)
	if c.Command.Name == c.App.Name && ofSomeCommand(c.App.Commands, name) {
		hint = "flags stand behind the command: shadowlimit COMMAND " + dashed(name)
	}
	if ofSomeCommand(c.Command.Subcommands, name) {
		hint = "flags stand behind the last word of the command: " + c.Command.HelpName + " " + c.Command.Subcommands[0].Name + " " + dashed(name)
	}
	if name == "config" && strings.HasPrefix(c.Command.ArgsUsage, "FILE") {
		hint = c.Command.Name + " takes the policy file as an argument: " + c.Command.HelpName + " FILE"
	}
	if meant := humanize.Nearest(name, flagNames(c)); meant != "" {
		hint = "did you mean --" + meant + "? " + hint
	}
	return usagef(hint, "no flag %s", dashed(name))
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func ofSomeCommand(commands []*cli.Command, name string) bool {
	return slices.ContainsFunc(commands, func(command *cli.Command) bool {
		return flagOf(command, name) != nil || ofSomeCommand(command.Subcommands, name)
	})
}

// flagNames are the names of the flags that a command takes.
func flagNames(c *cli.Context) (names []string) {
	for _, flag := range slices.Concat(c.Command.Flags, c.App.Flags) {
		names = append(names, flag.Names()...)
	}
	return names
}

// noCommand refuses a name that is no command, with the one that was probably meant.
func noCommand(name string, commands []*cli.Command) error {
	if meant := humanize.Nearest(name, strings.Split(commandNames(commands), ", ")); meant != "" {
		return usagef("did you mean "+meant+"?", "no command %q", name)
	}
	return usagef("the commands are: "+commandNames(commands), "no command %q", name)
}

// seeHelp is the hint that names a command's help.
func seeHelp(c *cli.Context) string { return "see: " + c.Command.HelpName + " --help" }

func commandNames(commands []*cli.Command) string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
