package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

const completionDescription = `Prints a script that completes commands, flags and files in a shell. It is
loaded when a shell begins:
  source <(shadowlimit completion bash)  # in ~/.bashrc
  source <(shadowlimit completion zsh)   # in ~/.zshrc, after compinit
  shadowlimit completion fish | source   # in config.fish

Examples:
  shadowlimit completion bash
  shadowlimit completion zsh
  shadowlimit completion fish`

// completionFlag is the library's: as the last word it asks for the words that may come next.
const completionFlag = "--generate-bash-completion"

// The scripts ask the program itself. The library's own for bash needs a package, and evaluates the line that is being typed.
const (
	bashCompletion = `_shadowlimit() {
  local word=${COMP_WORDS[COMP_CWORD]} typed=("${COMP_WORDS[@]:0:COMP_CWORD}")
  if [[ $word == -* ]]; then typed+=("$word"); fi
  COMPREPLY=($(compgen -W "$("${typed[@]}" ` + completionFlag + ` 2>/dev/null)" -- "$word"))
}
complete -o bashdefault -o default -F _shadowlimit shadowlimit
`
	zshCompletion = `#compdef shadowlimit
_shadowlimit() {
  local -a typed=("${words[@]:0:$((CURRENT-1))}") found
  if [[ ${words[CURRENT]} == -* ]]; then typed+=("${words[CURRENT]}"); fi
  found=(${(f)"$("${typed[@]}" ` + completionFlag + ` 2>/dev/null)"})
  if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _shadowlimit shadowlimit
`
	powershellCompletion = `Register-ArgumentCompleter -Native -CommandName shadowlimit -ScriptBlock {
  param($word, $line, $position)
  $typed = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
  & shadowlimit @typed ` + completionFlag + ` | Where-Object { $_ -like "$word*" } | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`
)

func completionCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands in a shell",
		ArgsUsage:   "bash|zsh|fish|powershell",
		Description: completionDescription,
		Action: func(c *cli.Context) error {
			const shells = "bash, zsh, fish or powershell"
			if c.NArg() != 1 {
				return usagef(shells, "completion needs one shell, got %d", c.NArg())
			}

			script, err := "", error(nil)
			switch shell := c.Args().First(); shell {
			case "bash":
				script = bashCompletion
			case "zsh":
				script = zshCompletion
			case "fish":
				script, err = c.App.ToFishCompletion()
			case "powershell":
				script = powershellCompletion
			default:
				return usagef(shells, "no completion for %q", shell)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(std.out, script)
			return err
		},
	}
}
