package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Headings of flags. The library lists them in the order of the alphabet.
const (
	aboutLimiters = "Limiters"
	aboutLogs     = "Logs"
	aboutReport   = "Report"
	aboutGate     = "Thresholds and times of the gate"
	aboutStores   = "Where limiters keep their state"
)

// under gives flags the heading under which the help lists them.
func under(heading string, flags ...cli.Flag) []cli.Flag {
	for _, flag := range flags {
		switch f := flag.(type) {
		case *cli.StringFlag:
			f.Category = heading
		case *cli.StringSliceFlag:
			f.Category = heading
		case *cli.BoolFlag:
			f.Category = heading
		case *cli.DurationFlag:
			f.Category = heading
		default:
			// Without a heading, the help would list the flag above all of them.
			panic(fmt.Sprintf("a flag of type %T: set its heading here", flag))
		}
	}
	return flags
}

// given reports whether a flag stands on the command line. IsSet is true for a flag that only the environment gives, too.
func given(c *cli.Context, name string) bool {
	if !c.IsSet(name) {
		return false
	}

	// A flag that repeats the environment adds nothing to it.
	for _, flag := range c.Command.Flags {
		of, documented := flag.(cli.DocGenerationFlag)
		if !documented || !slices.Contains(flag.Names(), name) {
			continue
		}
		for _, variable := range of.GetEnvVars() {
			if value, set := os.LookupEnv(variable); set && value == c.String(name) {
				return false
			}
		}
	}
	return true
}

// flagsFirst moves the flags of a command before its other arguments: urfave/cli v2 takes every
// flag after the first argument for an argument. Everything after "--" stays an argument.
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

		// Help is for the command, whatever else the line says.
		if arg == "-h" || arg == "--help" {
			return []string{args[0], "--help"}
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}

		flags = append(flags, arg)
		if !takesValue(command, arg) {
			continue
		}

		// Without its value the flag goes alone: urfave/cli then reports it as incomplete.
		if i+1 == len(args) || isFlag(command, args[i+1]) {
			return []string{args[0], arg}
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

// colorOf takes the flag --color out of a command line, where it may stand anywhere before "--", and sets the displays by it.
func colorOf(args []string, std streams) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		name, when, joined := strings.Cut(args[i], "=")
		if args[i] == "--" {
			return append(rest, args[i:]...), err
		}
		if name != "--color" && name != "-color" {
			rest = append(rest, args[i])
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			when = args[i]
		}
		if when != colorAuto && when != colorAlways && when != colorNever {
			err = usagef("write --color never", "--color %s: want auto, always or never", when)
		}
		for _, out := range []io.Writer{std.out, std.err} {
			if d, ok := out.(*display); ok {
				d.when = when
			}
		}
	}
	return rest, err
}
