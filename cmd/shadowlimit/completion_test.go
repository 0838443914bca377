package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestCompletionParsesInBash(t *testing.T) {
	status, out, talk := shell(t, "", "completion", "bash")
	if status != exitOK || !strings.Contains(out, completionFlag) {
		t.Fatalf("status %d: %s%s", status, out, talk)
	}
	if text, err := exec.Command("bash", "-n", write(t, "completion", []byte(out))).CombinedOutput(); err != nil || len(text) > 0 {
		t.Errorf("%v: %s", err, text)
	}
}

// The words that may come next are printed, and no command is carried out.
func TestCompletionSuggests(t *testing.T) {
	t.Setenv("SHADOWLIMIT_REDIS", "redis://127.0.0.1:1")
	t.Setenv("SHADOWLIMIT_NAME", "shop")
	defer func(args []string) { os.Args = args }(os.Args)

	for line, want := range map[string]string{
		"":                                     "rollback",
		"alerts":                               "export",
		"rollback --rea":                       "--reason",
		"rollback writes --reason x --t":       "--timeout",
		"rollback writes --reason x -- writes": "",
	} {
		args := append(strings.Fields(line), completionFlag)
		os.Args = append([]string{"shadowlimit"}, args...) // the library looks there for the last word
		status, out, talk := shell(t, "", args...)
		if status != exitOK || talk != "" || want != "" && !slices.Contains(strings.Fields(out), want) || want == "" && out != "" {
			t.Errorf("%q: status %d, want %s in %q %s", line, status, want, out, talk)
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
