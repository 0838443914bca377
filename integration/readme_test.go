package integration

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readmeBlock returns the first fenced block of the README that begins with a text,
// without its fences.
func readmeBlock(t *testing.T, fence, contains string) string {
	t.Helper()

	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(text), "\n```"+fence+"\n")[1:] {
		if block, _, _ := strings.Cut(rest, "\n```"); strings.Contains(block, contains) {
			return block + "\n"
		}
	}
	t.Fatalf("README.md has no %q block with %q", fence, contains)
	return ""
}

// shownIn reports the first line of an output shown in the README that is not in the
// real output, after the lines before it. A line of dots stands for lines left out.
func shownIn(shown, real string) (missing string, ok bool) {
	for line := range strings.Lines(shown) {
		line = strings.TrimRight(line, " \n")
		if strings.TrimSpace(line) == "..." {
			continue
		}

		_, after, found := strings.Cut(real, line)
		if !found {
			return line, false
		}
		real = after
	}
	return "", true
}

// A newcomer pastes what the README shows: the commands print what it says they print.
func TestREADMEShowsRealOutput(t *testing.T) {
	dir := commandsFolder(t)
	write(t, filepath.Join(dir, "policies.yaml"), readmeBlock(t, "yaml", "version: 1"))

	commands := 0
	for _, block := range []string{
		readmeBlock(t, "console", "$ ./shadowlimit replay"),
		readmeBlock(t, "console", "$ ./shadowlimit validate"),
	} {
		commands += runShown(t, dir, block)
	}
	if commands != 4 {
		t.Errorf("%d commands were run, want 4", commands)
	}
}

// commandsFolder is a folder in which the commands of a document run: the command line and the sample are in it.
func commandsFolder(t *testing.T) string {
	t.Helper()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for link, target := range map[string]string{"shadowlimit": path, "internal": "../internal"} {
		absolute, err := filepath.Abs(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(absolute, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runShown runs the commands of a console block, each of which must print what is shown below it, and returns how many there are.
func runShown(t *testing.T, dir, block string) (commands int) {
	t.Helper()
	for _, session := range strings.Split("\n"+block, "\n$ ")[1:] {
		line, shown, _ := strings.Cut(session, "\n")
		if strings.HasPrefix(line, "go build") {
			continue // the command that is there
		}

		commands++
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		if missing, ok := shownIn(shown, string(out)); !ok {
			t.Errorf("%s does not print the line\n%s\nin that place of\n%s", line, missing, out)
		}
	}
	return commands
}

// fenced returns the fenced blocks of a document in a language, without their fences.
func fenced(text, language string) (blocks []string) {
	for _, rest := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(rest, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}

// Each guide is one session in one folder. Its YAML is the files that their first lines name.
func TestGuides(t *testing.T) {
	guides, err := filepath.Glob("../docs/guides/*.md")
	if err != nil || len(guides) == 0 {
		t.Fatalf("%d guides (%v)", len(guides), err)
	}
	for _, guide := range guides {
		t.Run(filepath.Base(guide), func(t *testing.T) {
			text, err := os.ReadFile(guide)
			if err != nil {
				t.Fatal(err)
			}
			dir, commands := commandsFolder(t), 0
			for _, file := range fenced(string(text), "yaml") {
				name, _, _ := strings.Cut(strings.TrimPrefix(file, "# "), "\n")
				write(t, filepath.Join(dir, name), file)
			}
			for _, block := range fenced(string(text), "console") {
				commands += runShown(t, dir, block)
			}
			if commands == 0 {
				t.Error("no command was run")
			}
		})
	}
}

// The README's program serves, limits, and obeys the commands that the README shows.
func TestREADMEService(t *testing.T) {
	addr, stop, err := startRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	dir := t.TempDir()
	buildREADMEService(t, dir, addr)
	url := startREADMEService(t, dir)
	startREADMEService(t, dir)

	limited := 0
	for range 150 {
		response, err := httpClient.Post(url+"/orders/7", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			limited++
		}
	}
	// 100 a minute, and the minute may have changed once.
	if limited == 0 || limited > 50 {
		t.Errorf("%d of 150 requests were limited", limited)
	}

	ran := runREADMECommands(t, dir, addr)
	if ran < 11 {
		t.Errorf("%d commands of the README were run", ran)
	}
}

// buildREADMEService builds the README's program for a Redis at an address.
func buildREADMEService(t *testing.T, dir, addr string) {
	t.Helper()

	program := readmeBlock(t, "go", "func main()")
	if !strings.Contains(program, "localhost:6379") {
		t.Fatal("the README's program has no localhost:6379 to be replaced")
	}
	write(t, filepath.Join(dir, "main.go"), strings.ReplaceAll(program, "localhost:6379", addr))
	write(t, filepath.Join(dir, "policies.yaml"), readmeBlock(t, "yaml", "version: 1"))

	// Without a go.mod in its folder the file is built by this module's, which replaces
	// the library as the README says.
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "service"), filepath.Join(dir, "main.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// startREADMEService starts an instance and waits until it answers.
func startREADMEService(t *testing.T, dir string) (url string) {
	t.Helper()

	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("./service", net.JoinHostPort("127.0.0.1", port))
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the README's program ended with %v", err)
		}
	})

	url = "http://127.0.0.1:" + port
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if response, err := httpClient.Get(url + "/metrics"); err == nil {
			response.Body.Close()
			return url
		}
	}
	t.Fatal("the README's program does not answer")
	return ""
}

// runREADMECommands runs the block of commands, line by line, and returns how many it
// has run.
func runREADMECommands(t *testing.T, dir, addr string) (ran int) {
	t.Helper()

	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "shadowlimit")); err != nil {
		t.Fatal(err)
	}

	// Other statuses than 0: the gate has hardly any evidence yet, a policy in shadow is
	// not completed, one of a live instance is not forgotten, one file alone is not adopted, and watch runs until timeout ends it.
	want := map[string]int{`promote writes --reason "two quiet days"`: 3, "complete": 3, "forget": 3, "adopt": 3, "watch": 124}

	for line := range strings.Lines(readmeBlock(t, "", "export SHADOWLIMIT_REDIS")) {
		line, _, _ = strings.Cut(line, " #")
		_, args, ok := strings.Cut(strings.TrimSpace(line), "./shadowlimit ")
		if !ok {
			continue
		}

		status := 0
		for prefix, s := range want {
			if strings.HasPrefix(args, prefix) {
				status = s
			}
		}
		line = strings.ReplaceAll(line, "./shadowlimit watch", "timeout 2 ./shadowlimit watch")

		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SHADOWLIMIT_REDIS=redis://"+addr, "SHADOWLIMIT_NAME=checkout")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != status {
			t.Errorf("%s: exit status %d, want %d\n%s", line, got, status, out)
		}
		if testing.Verbose() {
			t.Logf("$ %s\n%s", line, out)
		}
		ran++
	}
	return ran
}

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
