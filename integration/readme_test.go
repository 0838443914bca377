package integration

import (
	"encoding/json"
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

// readFile returns the text of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readmeBlock returns the first fenced block of the README in a language that contains a text, without its fences.
func readmeBlock(t *testing.T, language, contains string) string {
	t.Helper()
	for _, block := range fenced(readFile(t, "../README.md"), language) {
		if strings.Contains(block, contains) {
			return block + "\n"
		}
	}
	t.Fatalf("README.md has no %q block with %q", language, contains)
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
	dir, commands := commandsFolder(t), 0
	for _, block := range fenced(readFile(t, "../README.md"), "console") {
		commands += runShown(t, dir, block)
	}
	if commands == 0 {
		t.Error("no command was run")
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

// The commands of the other pages print what the pages show.
func TestDocumentsShowRealOutput(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, commands := commandsFolder(t), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fenced(string(text), "console") {
			if strings.HasPrefix(block, "$ ./shadowlimit ") {
				commands += runShown(t, dir, block)
			}
		}
	}
	if commands == 0 {
		t.Error("no command was run")
	}
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

// The README's Pair limits, and counts whom its candidate would deny.
func TestREADMEPair(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	dir := t.TempDir()
	buildProgram(t, dir, readmeBlock(t, "go", "shadow.NewPair"), "localhost:8080", addr)
	url := startProgramOf(t, dir, addr, func(cmd *exec.Cmd) { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	// 20 a minute, and the minute may have changed once.
	if limited := limitedOf(t, 45, func() (*http.Response, error) { return httpClient.Get(url + "/") }); limited < 5 || limited > 25 {
		t.Errorf("%d of 45 requests were limited", limited)
	}

	var page struct {
		Policies []struct {
			NewlyDenied int `json:"newly_denied"`
		}
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if getJSON(t, url+"/status?format=json", &page); len(page.Policies) == 1 && page.Policies[0].NewlyDenied >= 5 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status page has counted %+v", page)
		}
	}
}

func getJSON(t *testing.T, url string, v any) {
	t.Helper()
	response, err := httpClient.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(v); err != nil {
		t.Fatal(err)
	}
}

// limitedOf sends n requests and returns how many were answered 429.
func limitedOf(t *testing.T, n int, send func() (*http.Response, error)) (limited int) {
	t.Helper()
	for range n {
		response, err := send()
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			limited++
		}
	}
	return limited
}

// The README's service, of which it shows a part, limits and obeys the commands that the README shows.
func TestREADMEService(t *testing.T) {
	t.Parallel()
	redisAddr, stop, err := startRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)

	program := readFile(t, "../examples/checkout/main.go")
	if part := readmeBlock(t, "go", "shadow.New("); !strings.Contains(program, part) {
		t.Errorf("examples/checkout/main.go does not have what the README shows of it:\n%s", part)
	}
	dir := t.TempDir()
	buildProgram(t, dir, program, "localhost:6379", redisAddr)
	write(t, filepath.Join(dir, "policies.yaml"), readmeBlock(t, "yaml", "version: 1"))

	var urls [2]string
	for i := range urls {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = startProgramOf(t, dir, net.JoinHostPort("127.0.0.1", port), func(cmd *exec.Cmd) {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("the README's service ended with %v", err)
			}
		})
	}

	order := func() (*http.Response, error) { return httpClient.Post(urls[0]+"/orders/7", "text/plain", nil) }
	if limited := limitedOf(t, 25, order); limited != 0 {
		t.Errorf("%d of 25 requests were limited", limited)
	}
	// 100 a minute, and the minute may have changed once.
	if limited := limitedOf(t, 125, order); limited == 0 || limited > 50 {
		t.Errorf("%d of 150 requests were limited", limited)
	}

	if runREADMECommands(t, dir, redisAddr) == 0 {
		t.Error("no command of the README was run")
	}
}

// buildProgram builds a program with an address in the place of the one that it names.
func buildProgram(t *testing.T, dir, program, named, addr string) {
	t.Helper()
	if !strings.Contains(program, named) {
		t.Fatalf("the program has no %s to be replaced", named)
	}
	write(t, filepath.Join(dir, "main.go"), strings.ReplaceAll(program, named, addr))

	// Without a go.mod in its folder the file is built by this module's, which replaces the library as the README says.
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "service"), filepath.Join(dir, "main.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// startProgramOf starts the program of a folder, which listens on an address, waits until it answers, and ends it after the test.
func startProgramOf(t *testing.T, dir, addr string, end func(*exec.Cmd)) (url string) {
	t.Helper()
	cmd := exec.Command("./service", addr)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })

	url = "http://" + addr
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if response, err := httpClient.Get(url + "/status"); err == nil {
			response.Body.Close()
			return url
		}
	}
	t.Fatal("the README's program does not answer")
	return ""
}

// runREADMECommands runs the lines of the README that are commands for a service, and returns how many there are.
func runREADMECommands(t *testing.T, dir, addr string) (ran int) {
	t.Helper()

	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "shadowlimit")); err != nil {
		t.Fatal(err)
	}

	// Other statuses than 0: the gate has hardly any evidence yet, and a policy in shadow is not completed.
	want := map[string]int{`promote writes --reason "two quiet days"`: 3, "complete": 3}

	for line := range strings.Lines(readFile(t, "../README.md")) {
		line, _, _ := strings.Cut(strings.TrimSpace(line), " #")
		args, ok := strings.CutPrefix(line, "./shadowlimit ")
		if !ok {
			continue
		}

		status := 0
		for prefix, s := range want {
			if strings.HasPrefix(args, prefix) {
				status = s
			}
		}

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
