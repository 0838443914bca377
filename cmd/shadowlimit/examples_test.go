package main

import (
	"bufio"
	"bytes"
	"cmp"
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

// examplesOf returns the lines below "Example:" or "Examples:", whatever stands
// between.
func examplesOf(c *cli.Command) (lines []string) {
	inside := false
	for line := range strings.Lines(c.Description) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "Example"):
			inside = true
		case inside && strings.HasPrefix(line, "  "):
			lines = append(lines, strings.TrimSpace(line))
		default:
			inside = false
		}
	}
	return lines
}

// order has the beginnings of examples that need each other; the rest comes after
// them, as in the help. The service of the demo has been rolled back.
var order = []string{
	"shadowlimit status", "shadowlimit top", "shadowlimit history", "shadowlimit watch", "shadowlimit doctor", "shadowlimit controller",
	"shadowlimit resume per-client --force", "shadowlimit promote", "shadowlimit complete", "shadowlimit pause", "shadowlimit resume", "shadowlimit rollback",
}

// endless are the beginnings of examples that run until they are interrupted, and
// what they say once they do.
var endless = []struct{ prefix, says string }{
	{"shadowlimit demo --serve", "until interrupted"}, {"shadowlimit controller", "the gate says"}, {"shadowlimit watch", ""},
}

// Every example of every command's help works, pasted into a shell in the root of a
// clone.
func TestExamples(t *testing.T) {
	var lines []string
	for _, l := range leaves(newApp(streams{}).Commands) {
		examples := examplesOf(l.command)
		if len(examples) == 0 && !l.command.Hidden {
			t.Errorf("%s has no example", l)
		}
		for _, line := range examples {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(turn(a), turn(b)) })
	root := clone(t)
	t.Setenv("SHADOWLIMIT_REDIS", serveDemo(t))
	t.Setenv("SHADOWLIMIT_NAME", "demo")
	own := strings.NewReplacer("redis://localhost:6379", "redis://"+miniredis.RunT(t).Addr(), "127.0.0.1:8080", "127.0.0.1:0") // addresses that may be taken
	for _, line := range lines {
		if tool := strings.Fields(line)[0]; tool != "shadowlimit" {
			if _, err := exec.LookPath(tool); err != nil {
				t.Logf("not run, for there is no %s: %s", tool, line)
				continue
			}
		}
		status, out := paste(t, root, own.Replace(line))
		if status != exitOK && !(status == exitNotMet && strings.Contains(line, "refused (3)")) {
			t.Errorf("%s: status %d\n%s", line, status, out)
		}
	}
}

// turn is when an example's turn is.
func turn(line string) int {
	turn, longest := len(order), 0
	for i, prefix := range order {
		if strings.HasPrefix(line, prefix) && len(prefix) > longest {
			turn, longest = i, len(prefix)
		}
	}
	return turn
}

// clone returns a folder that looks like the root of a clone, and puts the program
// on the path.
func clone(t *testing.T) string {
	t.Helper()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	root, bin := t.TempDir(), t.TempDir()
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(repository, e.Name()), filepath.Join(root, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "shadowlimit"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return root
}

// paste runs a line in a shell. One that does not end by itself is interrupted.
func paste(t *testing.T, dir, line string) (status int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT\n"+line) // the shell lives on, to tell the status
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
	says, forever := endlessly(line)
	var all bytes.Buffer
	for scanner := bufio.NewScanner(read); scanner.Scan(); { // of both streams, to their end
		all.WriteString(scanner.Text() + "\n")
		if forever && strings.Contains(scanner.Text(), says) {
			forever = false
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		}
	}
	var exit *exec.ExitError
	if err := <-ended; err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}

// endlessly reports whether an example does not end, and what it says meanwhile.
func endlessly(line string) (says string, forever bool) {
	for _, e := range endless {
		if strings.HasPrefix(line, e.prefix) {
			return e.says, true
		}
	}
	return "", false
}

// serveDemo starts the demo's service and returns the URL of its Redis.
func serveDemo(t *testing.T) string {
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
	var url string
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if _, after, found := strings.Cut(scanner.Text(), "SHADOWLIMIT_REDIS="); found {
			url = strings.Fields(after)[0]
		}
		if url != "" && strings.Contains(scanner.Text(), "/metrics") {
			go io.Copy(io.Discard, out)
			return url
		}
	}
	t.Fatal("the demo does not serve")
	return ""
}
