package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/urfave/cli/v2"
)

// example is a line of a help, to paste into a shell.
type example struct {
	line  string
	after string // the situation that the help asks for; "" is any
}

// examplesOf returns the lines below "Example:" or "Examples:". The heading, or the comment of a
// line, may end in "after a SITUATION": the line then needs that situation.
func examplesOf(c *cli.Command) (list []example) {
	inside, heading := false, ""

	for line := range strings.Lines(c.Description) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "Example"):
			inside = true
			heading = situationIn(strings.TrimSuffix(line, ":"))
		case inside && continued(list):
			last := &list[len(list)-1]
			last.line = strings.TrimSuffix(last.line, `\`) + strings.TrimSpace(line)
			last.after = situationIn(line)
		case inside && strings.HasPrefix(line, "  "):
			list = append(list, example{strings.TrimSpace(line), situationIn(line)})
		default:
			inside = false
		}
	}

	// The heading is about the state before the first line. Each line leaves the state of the next.
	if len(list) > 0 && list[0].after == "" {
		list[0].after = heading
	}
	return list
}

// continued reports whether the last line goes on in the next.
func continued(list []example) bool {
	return len(list) > 0 && strings.HasSuffix(list[len(list)-1].line, `\`)
}

func situationIn(text string) string {
	_, situation, _ := strings.Cut(text, "after a ")
	return situation
}

// situations say how to get from any state of the demo's policy to one that a help names.
var situations = map[string][]string{
	"rollback":          {"rollback --reason x"},
	"resume":            {"rollback --reason x", "resume --reason x"},
	"pause":             {"rollback --reason x", "resume --reason x", "pause --reason x"},
	"promote --to full": {"rollback --reason x", "resume --reason x", "promote --to full --force --reason x"},
}

// prepare brings about a situation.
func prepare(t *testing.T, situation string) {
	t.Helper()
	steps, known := situations[situation]
	if !known {
		t.Fatalf("the help asks for the situation %q: say in situations how to get there", situation)
	}

	for _, step := range steps {
		if status, out, talk := shell(t, "", append(strings.Fields(step), "per-client")...); status != exitOK {
			t.Fatalf("%s: status %d\n%s%s", step, status, out, talk)
		}
	}
}

// Every example of every command's help works beside the demo, pasted into a shell in the root of
// a clone. The examples of a command run in their order, and need no other command's.
func tryExamples(t *testing.T) {
	root := clone(t)

	// The addresses in the examples may be taken on this machine.
	url := "redis://" + miniredis.RunT(t).Addr()
	free := strings.NewReplacer("redis://localhost:6379", url, "127.0.0.1:8080", "127.0.0.1:0")
	pasted := map[string]bool{}
	for _, l := range leaves(newApp(streams{}).Commands) {
		examples := examplesOf(l.command)
		if len(examples) == 0 {
			t.Errorf("%s has no example", l)
		}
		for _, e := range examples {
			if pasted[e.line] {
				continue // alerts and alerts export have the same help
			}
			pasted[e.line] = true

			if e.after != "" {
				prepare(t, e.after)
			}
			tryExample(t, root, free.Replace(e.line))
		}
	}
}

func tryExample(t *testing.T, root, line string) {
	t.Helper()
	if tool := strings.Fields(line)[0]; tool != "shadowlimit" {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("not run, because there is no %s: %s", tool, line)
			return
		}
	}

	status, out := paste(t, root, line)
	if status != exitOK && !(status == exitNotMet && strings.Contains(line, "refused (3)")) {
		t.Errorf("%s: status %d\n%s", line, status, out)
	}
}

// clone returns a folder that looks like the root of a clone, and puts the program on the path.
func clone(t *testing.T) string {
	t.Helper()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}

	root, bin := t.TempDir(), t.TempDir()
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(repository, e.Name()), filepath.Join(root, e.Name())); err != nil {
			t.Fatal(err)
		}
	}

	build := exec.Command("go", "build", "-o", filepath.Join(bin, "shadowlimit"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return root
}

// paste runs a line in a shell. One that does not end by itself is interrupted.
func paste(t *testing.T, dir, line string) (status int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	// The shell survives the interrupt of its group, so that it can return the command's status.
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT\n"+line)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		write.Close()
	}()

	says, running := endless(line)
	var all bytes.Buffer
	for scanner := bufio.NewScanner(read); scanner.Scan(); { // both streams, to their end
		all.WriteString(scanner.Text() + "\n")
		if running && strings.Contains(scanner.Text(), says) {
			running = false
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		}
	}

	var exit *exec.ExitError
	if err := <-ended; err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}

// untilInterrupted stands in the usage of every command and flag that goes on and on.
const untilInterrupted = "until interrupted"

// endless reports whether an example does not end by itself, and what it says once it runs: a
// command says anything, a flag says that it goes on.
func endless(line string) (says string, is bool) {
	words := strings.Fields(line)
	command := find(newApp(streams{}).Commands, words[min(1, len(words)-1)])
	if command == nil {
		return "", false
	}
	if strings.Contains(command.Usage, untilInterrupted) {
		return "", true
	}

	for _, flag := range command.Flags {
		usage := flag.(cli.DocGenerationFlag).GetUsage()
		if strings.Contains(usage, untilInterrupted) && slices.Contains(words, "--"+flag.Names()[0]) {
			return untilInterrupted, true
		}
	}
	return "", false
}

// serveDemo starts the demo's service. It returns the URL of its Redis, and the story that it
// told before.
func serveDemo(t *testing.T) (url, story string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"demo", "--serve"}, streams{strings.NewReader(""), in, in})
		in.Close()
	}()
	t.Cleanup(func() {
		interrupt()
		if status := <-done; status != exitOK {
			t.Errorf("interrupted, the demo ends with status %d", status)
		}
	})

	var told strings.Builder
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		told.WriteString(scanner.Text() + "\n")
		if _, after, found := strings.Cut(scanner.Text(), "SHADOWLIMIT_REDIS="); found {
			url = strings.Fields(after)[0]
		}
		if url != "" && strings.Contains(scanner.Text(), "/metrics") {
			go io.Copy(io.Discard, out) // else the demo would wait for its reader
			return url, told.String()
		}
	}

	t.Fatalf("the demo does not serve: %s", told.String())
	return "", ""
}
