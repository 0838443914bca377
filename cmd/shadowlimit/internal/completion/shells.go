package completion

import (
	"fmt"
	"strings"
)

// The scripts have the same parts. The first words that are no flags are the command. A flag
// with a value is followed by one of its few values, by a file, or by what no script knows; else flags,
// subcommands, policies or files follow, as the table of words says.

func isPlain(w word) bool     { return w.text != anyPolicy && w.text != anyFile && !w.value }
func hasValue(w word) bool    { return w.value }
func takesFile(w word) bool   { return w.file }
func wantsPolicy(w word) bool { return w.text == anyPolicy }
func wantsFile(w word) bool   { return w.text == anyFile }
func completes(w word) bool   { return isPlain(w) || w.value }
func isFlag(w word) bool      { return strings.HasPrefix(w.text, "-") }
func isWord(w word) bool      { return isPlain(w) && !isFlag(w) }
func textOf(w word) string    { return w.text }

// shLine is a line of a case statement of bash and zsh.
func shLine(variable string) caseLine {
	return func(after string, texts []string) string {
		return fmt.Sprintf("    %s) %s=(%s) ;;\n", quoted(after), variable, strings.Join(texts, " "))
	}
}

// pathCases lists the words that continue a command.
func pathCases(words []word) string {
	var paths []string
	for _, w := range words {
		if !strings.HasPrefix(w.text, "-") && isPlain(w) && w.usage != "" {
			paths = append(paths, quoted(strings.TrimSpace(w.after+" "+w.text)))
		}
	}
	return strings.Join(paths, "|")
}

// choiceCases lists the values of flags that have a few, behind the command and the flag. spell writes the line of one.
func choiceCases(words []word, spell func(after, choices string) string) string {
	var b strings.Builder
	for _, w := range words {
		if w.choices != nil {
			b.WriteString(spell(w.after+" "+w.text, strings.Join(w.choices, " ")))
		}
	}
	return b.String()
}

// shChoices is a line of choiceCases of bash and zsh.
func shChoices(after, choices string) string {
	return fmt.Sprintf("    %s) choices=(%s) ;;\n", quoted(after), choices)
}

const bashText = `# Completion of shadowlimit for bash.
_shadowlimit() {
  local cur=${COMP_WORDS[COMP_CWORD]} path= i w values=() named=() words=() flags=() policies=() files=() choices=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    w=${COMP_WORDS[i]}
    if [[ $w == -* ]]; then continue; fi
    case "${path:+$path }$w" in
      %s) path="${path:+$path }$w" ;;
    esac
  done
  case "$path" in
%s  esac
  case "$path" in
%s  esac
  case "$path" in
%s  esac
  case "$path" in
%s  esac
  local before=${COMP_WORDS[COMP_CWORD-1]}
  # bash takes the "=" of --flag=value for a word.
  if [[ $cur == '=' ]]; then cur=; fi
  if [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  case "$path $before" in
%s  esac
  case "$path" in
%s  esac
  case "$path" in
%s  esac
  local IFS=$' \t\n'
  if [[ ${#choices[@]} -gt 0 ]]; then
    COMPREPLY=($(compgen -W "${choices[*]}" -- "$cur"))
    return
  fi
  for w in "${values[@]}"; do
    if [[ $w == "$before" ]]; then
      COMPREPLY=()
      for w in "${named[@]}"; do
        if [[ $w == "$before" ]]; then
          IFS=$'\n'
          COMPREPLY=($(compgen -f -- "$cur"))
        fi
      done
      return
    fi
  done
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "${flags[*]}" -- "$cur"))
    return
  fi
  COMPREPLY=($(compgen -W "${words[*]}" -- "$cur"))
  if [[ ${#policies[@]} -gt 0 ]]; then
    for w in $(compgen -W "$("${COMP_WORDS[0]}" __policies -- "$COMP_LINE" 2>/dev/null)" -- "$cur"); do
      case " ${COMP_WORDS[*]:0:COMP_CWORD} " in
        *" $w "*) ;;
        *) COMPREPLY+=("$w") ;;
      esac
    done
  fi
  if [[ ${#files[@]} -gt 0 ]]; then
    IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _shadowlimit shadowlimit
`

func bashScript(words []word) string {
	return fmt.Sprintf(bashText, pathCases(words),
		lookup(words, isWord, shLine("words"), textOf), lookup(words, hasValue, shLine("values"), textOf),
		lookup(words, wantsPolicy, shLine("policies"), textOf), lookup(words, wantsFile, shLine("files"), textOf),
		choiceCases(words, shChoices), lookup(words, isFlag, shLine("flags"), textOf),
		lookup(words, takesFile, shLine("named"), textOf))
}

const zshText = `#compdef shadowlimit
# Completion of shadowlimit for zsh.
_shadowlimit() {
  local cur=${words[CURRENT]} before=${words[CURRENT-1]} line="${words[*]}" cmd=${words[1]} where= w
  local -a known values policies files names choices named
  for w in ${words[2,CURRENT-1]}; do
    if [[ $w == -* ]]; then continue; fi
    case "${where:+$where }$w" in
      %s) where="${where:+$where }$w" ;;
    esac
  done
  case "$where" in
%s  esac
  case "$where" in
%s  esac
  case "$where" in
%s  esac
  case "$where" in
%s  esac
  case "$where $before" in
%s  esac
  if [[ ${#choices} -gt 0 ]]; then
    compadd -a choices
    return
  fi
  case "$where" in
%s  esac
  if (( ${named[(Ie)$before]} )); then
    _files
    return
  fi
  if (( ${values[(Ie)$before]} )); then
    return
  fi
  if [[ $cur != -* ]]; then
    known=(${known:#-*})
  fi
  _describe -o shadowlimit known
  if [[ ${#policies} -gt 0 && $cur != -* ]]; then
    names=(${(f)"$($cmd __policies -- "$line" 2>/dev/null)"})
    names=(${names:|words})
    compadd -a names
  fi
  if [[ ${#files} -gt 0 && $cur != -* ]]; then
    _files
  fi
}
compdef _shadowlimit shadowlimit
`

func zshScript(words []word) string {
	described := func(w word) string { return quoted(w.text + ":" + strings.ReplaceAll(w.usage, ":", ";")) }
	return fmt.Sprintf(zshText, pathCases(words),
		lookup(words, completes, shLine("known"), described), lookup(words, hasValue, shLine("values"), textOf),
		lookup(words, wantsPolicy, shLine("policies"), textOf), lookup(words, wantsFile, shLine("files"), textOf),
		choiceCases(words, shChoices), lookup(words, takesFile, shLine("named"), textOf))
}

const fishText = `# Completion of shadowlimit for fish.
function __shadowlimit_path
  set -l path
  for w in (commandline -opc)[2..-1]
    string match -q -- '-*' $w; and continue
    switch (string join ' ' $path $w)
      case %s
        set path $path $w
    end
  end
  string join ' ' $path
end
function __shadowlimit_at
  set -l path (__shadowlimit_path)
  test "$path" = "$argv[1]"
end
function __shadowlimit_policies
  shadowlimit __policies -- (commandline -p) 2>/dev/null
end
complete -c shadowlimit -f
`

func fishScript(words []word) string {
	var b strings.Builder
	fmt.Fprintf(&b, fishText, strings.ReplaceAll(pathCases(words), "|", " "))

	for _, w := range words {
		fmt.Fprintf(&b, "complete -c shadowlimit -n \"__shadowlimit_at %s\"", quoted(w.after))

		long, isLong := strings.CutPrefix(w.text, "--")
		short, isShort := strings.CutPrefix(w.text, "-")
		switch {
		case isLong:
			b.WriteString(" -l " + long)
		case isShort:
			b.WriteString(" -s " + short)
		case w.text == anyFile:
			b.WriteString(" -F")
		case w.text == anyPolicy:
			b.WriteString(" -a '(__shadowlimit_policies)'")
		default:
			b.WriteString(" -a " + w.text)
		}

		switch {
		case w.choices != nil:
			b.WriteString(" -x -a " + quoted(strings.Join(w.choices, " ")))
		case w.file:
			b.WriteString(" -r -F")
		case w.value:
			b.WriteString(" -x")
		}
		fmt.Fprintf(&b, " -d %s\n", quoted(w.usage))
	}
	return b.String()
}
