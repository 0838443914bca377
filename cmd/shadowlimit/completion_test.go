package main

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// script is the completion script of a shell.
func script(t *testing.T, shellName string) string {
	t.Helper()
	status, out, talk := shell(t, "", "completion", shellName)
	if status != exitOK {
		t.Fatalf("%s: status %d: %s", shellName, status, talk)
	}
	return out
}

// lookUp finds a shell, which CI must have.
func lookUp(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("CI needs %s: integration/components.sh installs it", name)
	case err != nil:
		t.Skip(err)
	}
	return path
}

func TestCompletionInFish(t *testing.T) {
	fish := lookUp(t, "fish")
	file := write(t, "completion", []byte(script(t, "fish")))

	for line, want := range map[string]string{
		"shadowlimit pro":                 "promote",
		"shadowlimit promote --fo":        "--force",
		"shadowlimit alerts e":            "export",
		"shadowlimit status -o json --na": "--name",
		"shadowlimit replay --store r":    "redis",
	} {
		const complete = "function shadowlimit; end; source $argv[1]; complete -C $argv[2]"
		out, err := exec.Command(fish, "--no-config", "-c", complete, file, line).CombinedOutput()
		text, rest, _ := strings.Cut(string(out), "\n")
		if err != nil || rest != "" || firstField(text) != want {
			t.Errorf("%s: %v, %q, want %s alone", line, err, out, want)
		}
	}
}

func firstField(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\t")
	return first
}

func TestCompletionParses(t *testing.T) {
	for _, name := range []string{"bash", "zsh", "fish"} {
		t.Run(name, func(t *testing.T) {
			lookUp(t, name)
			file := write(t, "completion", []byte(script(t, name)))
			if out, err := exec.Command(name, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Every script knows every command and flag, and none that is hidden.
func TestCompletionIsComplete(t *testing.T) {
	for _, name := range []string{"bash", "zsh", "fish"} {
		text := script(t, name)
		for _, l := range leaves(newApp(streams{}).Commands) {
			if l.command.Hidden {
				continue
			}

			if !strings.Contains(text, "'"+l.String()+"'") {
				t.Errorf("%s: no %s", name, l)
			}

			for _, flag := range l.command.Flags {
				want := "--" + flag.Names()[0]
				if name == "fish" {
					want = "__shadowlimit_at '" + l.String() + "'\" -l " + flag.Names()[0] + " "
				}
				if !strings.Contains(text, want) {
					t.Errorf("%s: %s has no %s", name, l, want)
				}
			}
		}
	}
}

// driver completes a line as bash does when a tab is typed at its end.
const driver = `
source "$1"
COMP_LINE=$2
read -ra COMP_WORDS <<<"${2//=/ = }"
if [[ $2 == *' ' ]]; then COMP_WORDS+=(''); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shadowlimit
printf '%s\n' "${COMPREPLY[@]}"
`

func TestCompletionInBash(t *testing.T) {
	bash := lookUp(t, "bash")
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	dir := clone(t)
	file := write(t, "completion", []byte(script(t, "bash")))
	t.Setenv("SHADOWLIMIT_REDIS", "")
	known := "--redis redis://" + server.Addr() + " --name checkout "

	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	tests := []struct{ line, want string }{
		{"shadowlimit pro", "promote"},
		{"shadowlimit re", "replay resume"},
		{"shadowlimit __", ""},
		{"shadowlimit promote --f", "--force --full"},
		{"shadowlimit promote writes --reason x --f", "--force --full"},
		{"shadowlimit alerts ", "export"},
		{"shadowlimit alerts -", "--help"},
		{"shadowlimit replay -o ", "json text"},
		{"shadowlimit replay --store r", "redis"},
		{"shadowlimit replay --store=r", "redis"},
		{"shadowlimit replay --store=", "memory redis"},
		{"shadowlimit replay --html=LIC", "LICENSE"},
		{"shadowlimit top --output ", "csv json text"},
		{"shadowlimit replay --format c", "combined common csv"},
		{"shadowlimit import ng", "nginx"},
		{"shadowlimit import nginx LIC", "LICENSE"},
		{"shadowlimit alerts export --", "--force --help"},
		{"shadowlimit completion b", "bash"},
		{"shadowlimit validate LIC", "LICENSE"},
		{"shadowlimit validate --against LIC", "LICENSE"},
		{"shadowlimit promote LIC", ""},
		{"shadowlimit promote --reason LIC", ""},
		{"shadowlimit replay --time-zone LIC", ""},
		{"shadowlimit replay --html LIC", "LICENSE"},
		{"shadowlimit promote " + known + "w", "writes"},
		{"shadowlimit promote " + known, "writes"},
		{"shadowlimit promote " + known + "writes ", ""},
		{"shadowlimit promote --redis=redis://" + server.Addr() + " w", "writes"},
		{"shadowlimit promote " + known + "x", ""},
		{"shadowlimit promote w", ""}, // no Redis is known
		{"shadowlimit promote --redis redis://" + silent.Addr().String() + " w", ""},
		{"shadowlimit promote --redis redis://127.0.0.1:1 w", ""},
		{"shadowlimit promote --redis nonsense w", ""},
	}

	for _, tt := range tests {
		cmd := exec.Command(bash, "--norc", "-c", driver, "bash", file, tt.line)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()

		got := strings.Fields(string(out))
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, %v, want %q", tt.line, out, err, tt.want)
		}
	}
}

func TestCompletionRefuses(t *testing.T) {
	for _, args := range [][]string{{"completion"}, {"completion", "csh"}, {"completion", "bash", "zsh"}} {
		if status, _, talk := shell(t, "", args...); status != exitUsage || !strings.Contains(talk, "zsh") {
			t.Errorf("%v: status %d: %s", args, status, talk)
		}
	}
}
