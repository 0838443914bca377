package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// leaf is a command that does something, by the words that call it.
type leaf struct {
	words   []string
	command *cli.Command
}

func (l leaf) String() string { return strings.Join(l.words, " ") }

// leaves returns all commands without subcommands.
func leaves(commands []*cli.Command, before ...string) (list []leaf) {
	for _, c := range commands {
		words := append(slices.Clone(before), c.Name)
		if len(c.Subcommands) > 0 {
			list = append(list, leaves(c.Subcommands, words...)...)
		} else {
			list = append(list, leaf{words, c})
		}
	}
	return list
}

// received are the arguments and flags that a command got.
type received struct {
	args  []string
	flags map[string]string // only the given ones
}

// tryFlags runs a command whose action only notes what it receives.
func tryFlags(t *testing.T, words, args []string) (got received, status int) {
	t.Helper()
	var talk strings.Builder
	app := newApp(streams{strings.NewReader(""), &talk, &talk})
	for _, l := range leaves(app.Commands) {
		l.command.Action = func(c *cli.Context) error {
			got = received{c.Args().Slice(), map[string]string{}}
			for _, name := range c.LocalFlagNames() {
				if list, ok := c.Value(name).(cli.StringSlice); ok {
					got.flags[name] = strings.Join(list.Value(), ",")
					continue
				}
				got.flags[name] = fmt.Sprint(c.Value(name))
			}
			return nil
		}
	}

	std := streams{strings.NewReader(""), &talk, &talk}
	status = runApp(context.Background(), app, append(slices.Clone(words), args...), std)
	return got, status
}

// sampleOf returns the words that give a flag a value, in each way there is, and how
// the value reads.
func sampleOf(flag cli.Flag) (ways [][]string, value string) {
	switch flag.(type) {
	case *cli.BoolFlag:
		value = "true"
	case *cli.DurationFlag:
		value = (7 * time.Second).String()
	default:
		value = "7"
	}

	for _, name := range flag.Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		if value == "true" {
			ways = append(ways, []string{dashes + name}, []string{dashes + name + "=true"})
		} else {
			ways = append(ways, []string{dashes + name, value}, []string{dashes + name + "=" + value})
		}
	}
	return ways, value
}

// A flag is obeyed wherever it stands.
func TestFlagsAnywhere(t *testing.T) {
	places := []struct {
		where  string
		before []string
		after  []string
	}{{"first", nil, []string{"a", "b"}}, {"between", []string{"a"}, []string{"b"}}, {"last", []string{"a", "b"}, nil}}

	for _, l := range leaves(newApp(streams{}).Commands) {
		for _, flag := range l.command.Flags {
			ways, want := sampleOf(flag)
			for _, way := range ways {
				for _, p := range places {
					args := slices.Concat(p.before, way, p.after)
					got, status := tryFlags(t, l.words, args)
					value := got.flags[flag.Names()[0]]
					if status != exitOK || value != want || !slices.Equal(got.args, []string{"a", "b"}) {
						t.Errorf("%s %v: the flag comes %s: status %d, %+v", l, args, p.where, status, got)
					}
				}
			}

			// After "--" it is an argument.
			args := slices.Concat([]string{"a", "--"}, ways[0])
			got, status := tryFlags(t, l.words, args)
			_, given := got.flags[flag.Names()[0]]
			if status != exitOK || given || !slices.Equal(got.args, slices.Concat([]string{"a"}, ways[0])) {
				t.Errorf("%s %v: status %d, %+v", l, args, status, got)
			}
		}
	}
}

// All flags at once, between the arguments.
func TestFlagsTogether(t *testing.T) {
	for _, l := range leaves(newApp(streams{}).Commands) {
		args, want := []string{"a"}, map[string]string{}
		for _, flag := range l.command.Flags {
			ways, value := sampleOf(flag)
			args = append(args, ways[0]...)
			want[flag.Names()[0]] = value
		}

		got, status := tryFlags(t, l.words, append(args, "b"))
		for name, value := range want {
			if status != exitOK || got.flags[name] != value || !slices.Equal(got.args, []string{"a", "b"}) {
				t.Errorf("%s: --%s: status %d, %+v", l, name, status, got)
			}
		}
	}
}

// A flag that a command does not know, or that stands before the command, is refused by the real
// actions, too.
func TestFlagsThatAreRefused(t *testing.T) {
	for _, l := range leaves(newApp(streams{}).Commands) {
		for _, unknown := range []string{"--no-such-flag", "--no-such-flag=x", "-Z"} {
			for _, args := range [][]string{{unknown, "a", "b"}, {"a", unknown, "b"}, {"a", "b", unknown}} {
				if status, out, _ := shell(t, "", slices.Concat(l.words, args)...); status != exitUsage || out != "" {
					t.Errorf("%s %v: status %d, %s", l, args, status, out)
				}
			}
		}

		for _, flag := range l.command.Flags {
			ways, value := sampleOf(flag)
			for i := range l.words { // before the command, or between it and its subcommand
				args := slices.Concat(l.words[:i], ways[0], l.words[i:], []string{"a"})
				if status, _, _ := shell(t, "", args...); status != exitUsage {
					t.Errorf("%v: status %d", args, status)
				}
			}

			if value == "true" {
				continue
			}

			for _, args := range [][]string{{"a", ways[0][0]}, {ways[0][0], ways[0][0], value, "a"}} { // no value
				if got, status := tryFlags(t, l.words, args); status != exitUsage {
					t.Errorf("%s %v: status %d, %+v", l, args, status, got)
				}
			}
		}
	}
}

// A flag that only the environment gives is not one that the user has given.
func TestEnvironmentIsNoFlag(t *testing.T) {
	t.Setenv("SHADOWLIMIT_REDIS", "redis://127.0.0.1:1")
	args := []string{"replay", "--from", "gcra:1/1m", "--to", "gcra:2/1m", write(t, "log.csv", []byte("t_s,key\n1700000000,a\n"))}
	if status, _, talk := shell(t, "", args...); status != exitOK {
		t.Errorf("status %d: %s", status, talk)
	}
	if status, _, talk := shell(t, "", append(args, "--redis", "redis://127.0.0.1:2")...); status != exitUsage {
		t.Errorf("status %d: %s", status, talk)
	}
}

// A wrong step is refused before Redis is asked, which may not answer.
func TestStepsAreCheckedFirst(t *testing.T) {
	for to, want := range map[string]string{"ful": "no percentage", "110%": "no percentage", "10": "no percentage"} {
		status, _, talk := shell(t, "", "promote", "writes", "--reason", "x", "--to", to, "--redis", "redis://127.0.0.1:1", "--name", "a")
		if status != exitUsage || !strings.Contains(talk, want) {
			t.Errorf("%s: status %d: %s", to, status, talk)
		}
	}
}

// A report of a fault names the build.
func TestVersion(t *testing.T) {
	for _, arg := range []string{"--version", "-v", "version"} {
		if status, out, _ := shell(t, "", arg); status != exitOK || !strings.Contains(out, runtime.Version()) {
			t.Errorf("%s: status %d: %q", arg, status, out)
		}
	}
}

// A help fits a terminal of 100 columns, but for a word that is longer, such as the sample of a request.
func TestHelpFitsATerminal(t *testing.T) {
	for _, l := range leaves(newApp(streams{}).Commands) {
		_, help, _ := shell(t, "", append(slices.Clone(l.words), "--help")...)
		for _, line := range strings.Split(help, "\n") {
			if utf8.RuneCountInString(line) > 100 {
				t.Errorf("%s: break this line: %s", l, line)
			}
		}
	}
}
