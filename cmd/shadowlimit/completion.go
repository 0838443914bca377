package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const completionDescription = `Prints a script that completes commands, flags and files in a shell, and policies by
asking the service's Redis, if --redis or SHADOWLIMIT_REDIS and the name are known.

Examples:
  shadowlimit completion bash        # in ~/.bashrc: source <(shadowlimit completion bash)
  shadowlimit completion zsh         # in ~/.zshrc, after compinit: source <(shadowlimit completion zsh)
  shadowlimit completion fish        # in config.fish: shadowlimit completion fish | source`

func completionCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a script that completes commands in a shell", ArgsUsage: "bash|zsh|fish", Description: completionDescription,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("bash, zsh or fish", "completion needs one shell, got %d", c.NArg())
			}
			write := map[string]func([]word) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Args().First()]
			if write == nil {
				return usagef("bash, zsh or fish", "no completion for %q", c.Args().First())
			}
			_, err := fmt.Fprint(io.out, write(wordsOf(c.App.Commands, "")))
			return err
		},
	}
}

// word is what may come after certain words on a command line.
type word struct {
	after string // the command's words, "" at the beginning
	text  string // the word, or what it stands for
	usage string
	value bool // another word has to follow: a flag's value
}

// Words that stand for others.
const (
	anyPolicy = "POLICY"
	anyFile   = "FILE"
)

// wordsOf returns the words of commands, from their own tables.
func wordsOf(commands []*cli.Command, after string) (list []word) {
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		list = append(list, word{after, c.Name, c.Usage, false})
		path := strings.TrimSpace(after + " " + c.Name)
		list = append(list, wordsOf(c.Subcommands, path)...)
		list = append(list, flagWords(c, path)...)
		switch {
		case strings.Contains(c.ArgsUsage, "|"):
			for _, choice := range strings.Split(c.ArgsUsage, "|") {
				list = append(list, word{path, choice, "", false})
			}
		case strings.Contains(c.ArgsUsage, anyPolicy):
			list = append(list, word{path, anyPolicy, "", false})
		case c.ArgsUsage != "" && len(c.Subcommands) == 0: // FILE, LOG..., DIR
			list = append(list, word{path, anyFile, "", false})
		}
	}
	return list
}

func flagWords(c *cli.Command, path string) (list []word) {
	for _, flag := range c.Flags {
		if flag == cli.HelpFlag { // which a command gets when it runs
			continue
		}
		_, isBool := flag.(*cli.BoolFlag)
		usage := ""
		if f, ok := flag.(cli.DocGenerationFlag); ok {
			usage = strings.ReplaceAll(f.GetUsage(), "`", "")
		}
		for _, name := range flag.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			list = append(list, word{path, dashes + name, usage, !isBool})
		}
	}
	return append(list, word{path, "--help", "show help", false})
}

// quoted is a text as one word of any of the shells.
func quoted(s string) string {
	return "'" + strings.NewReplacer("'", "’", `\`, "/").Replace(s) + "'"
}

// lookup writes the lines of a shell's case statement: for each beginning what may
// follow, as spell writes it.
func lookup(words []word, matches func(word) bool, line func(after string, texts []string) string, spell func(word) string) string {
	var b strings.Builder
	var seen []string
	for _, w := range words {
		if slices.Contains(seen, w.after) {
			continue
		}
		seen = append(seen, w.after)
		var texts []string
		for _, other := range words {
			if other.after == w.after && matches(other) {
				texts = append(texts, spell(other))
			}
		}
		if len(texts) > 0 {
			b.WriteString(line(w.after, texts))
		}
	}
	return b.String()
}

// policiesBudget is how long a person who presses a key waits.
const policiesBudget = 500 * time.Millisecond

// policiesCommand prints the announced policies for a completion; its argument is the
// command line so far, for --redis and --name. It is silent on any failure.
func policiesCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "__policies", Hidden: true, Flags: fleetFlags(),
		Action: func(c *cli.Context) error {
			redis, name := c.String("redis"), c.String("name")
			typed := strings.Fields(strings.Join(c.Args().Slice(), " "))
			redis, name = typedFlag(typed, "redis", redis), typedFlag(typed, "name", name)
			listPolicies(c.Context, redis, name, io.out)
			return nil
		},
	}
}

func listPolicies(ctx context.Context, url, name string, out io.Writer) {
	if url == "" || name == "" {
		return
	}
	client, err := openRedis(url, commandBudget)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, policiesBudget)
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
	case <-ctx.Done(): // a dial does not always heed it
	}
}

// typedFlag returns what a command line gives a flag, else what is known of it.
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
