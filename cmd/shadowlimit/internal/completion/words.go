package completion

import (
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// scripts are the writers of the scripts, by shell.
var scripts = map[string]func([]word) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}

// Script returns the completion script of a shell; ok is false if there is none for it.
func Script(shell string, commands []*cli.Command) (script string, ok bool) {
	write, ok := scripts[shell]
	if !ok {
		return "", false
	}
	return write(wordsOf(commands, "")), true
}

// word is a word that may come after certain others on a command line.
type word struct {
	after string // the command's words, "" at the beginning
	text  string // the word, or a placeholder
	usage string
	value bool // another word has to follow: a flag's value
	// choices are the values of a flag; nil if they are not a few words.
	choices []string
	file    bool // the value is the name of a file
}

// choicesIn are the values of a flag at the end of its usage, such as "...: text or json".
var choicesIn = regexp.MustCompile(`: ((?:\w+, )*\w+ or \w+)$`)

// choicesOf returns the values that a flag's usage lists.
func choicesOf(usage string) []string {
	m := choicesIn.FindStringSubmatch(usage)
	if m == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(m[1], " or ", ", "), ", ")
}

// Placeholders: the scripts complete the names of policies, or files.
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

		list = append(list, word{after: after, text: c.Name, usage: c.Usage})
		path := strings.TrimSpace(after + " " + c.Name)
		list = append(list, wordsOf(c.Subcommands, path)...)
		list = append(list, flagWords(c, path)...)
		list = append(list, argumentWords(c, path)...)
	}
	return list
}

// argumentWords goes by the usage of a command's arguments: "bash|zsh|fish", "envoy|nginx FILE...", "POLICY", "LOG...".
func argumentWords(c *cli.Command, path string) (list []word) {
	usage := c.ArgsUsage
	if choices, rest, _ := strings.Cut(usage, " "); strings.Contains(choices, "|") {
		for _, choice := range strings.Split(choices, "|") {
			list = append(list, word{after: path, text: choice})
		}
		usage = rest
	}

	switch {
	case strings.Contains(usage, anyPolicy):
		list = append(list, word{after: path, text: anyPolicy})
	case usage != "" && len(c.Subcommands) == 0: // FILE, LOG..., DIR
		list = append(list, word{after: path, text: anyFile})
	}
	return list
}

func flagWords(c *cli.Command, path string) (list []word) {
	for _, flag := range c.Flags {
		if flag == cli.HelpFlag { // the running command has it already; it is added below for all
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
			w := word{after: path, text: dashes + name, usage: usage, value: !isBool}
			if w.value {
				w.choices, w.file = choicesOf(usage), strings.Contains(flag.(cli.DocGenerationFlag).GetUsage(), "`FILE`")
			}
			list = append(list, w)
		}
	}
	return append(list, word{after: path, text: "--help", usage: "show help"})
}

// quoted is a text as one word of any of the shells.
func quoted(s string) string {
	return "'" + strings.NewReplacer("'", "’", `\`, "/").Replace(s) + "'"
}

// caseLine writes a line of a shell's case statement: the words that may come after others.
type caseLine func(after string, texts []string) string

// lookup writes the lines of a case statement: for each beginning the words that may follow, as
// spell writes them.
func lookup(words []word, matches func(word) bool, line caseLine, spell func(word) string) string {
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
