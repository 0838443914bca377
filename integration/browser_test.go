package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// browser is a page in a headless Chromium, controlled by the DevTools protocol over a
// pair of pipes.
type browser struct {
	out     *os.File
	session string

	mu       sync.Mutex
	last     int
	waiting  map[int]chan reply
	loaded   chan struct{}
	problems []string // messages of the console and of the log
}

// reply is an answer, or an event if it has no ID.
type reply struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// browserBudget bounds each call.
const browserBudget = 30 * time.Second

// openBrowser starts Chromium.
func openBrowser(t *testing.T) *browser {
	t.Helper()

	path := requireProgram(t, "chromium", "the status page is tested in a browser")
	in, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirIn, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	// Pipes instead of a port: no other process can reach the browser.
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4, where Chromium expects them
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()

	b := &browser{out: out, waiting: map[int]chan reply{}, loaded: make(chan struct{}, 1)}
	go b.read(in)
	t.Cleanup(func() { b.close(cmd) })
	b.attach(t)
	return b
}

// close ends the browser, and kills it if it has not ended after ten seconds.
func (b *browser) close(cmd *exec.Cmd) {
	b.session = ""
	b.send("Browser.close", nil)

	force := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	cmd.Wait() // its status says nothing about the page
	force.Stop()

	b.out.Close()
}

// attach opens a page and begins to listen to its events.
func (b *browser) attach(t *testing.T) {
	t.Helper()

	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)

	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID

	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(t, domain+".enable", nil, nil)
	}
}

// read takes the messages of the browser until it ends.
func (b *browser) read(in *os.File) {
	defer in.Close()

	for r := bufio.NewReader(in); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}

		var said reply
		if json.Unmarshal(text[:len(text)-1], &said) == nil {
			b.take(said)
		}
	}
}

// take gives an answer to its caller, and remembers the events that a test looks at.
func (b *browser) take(said reply) {
	b.mu.Lock()
	defer b.mu.Unlock()

	switch said.Method {
	case "":
		if wait := b.waiting[said.ID]; wait != nil {
			wait <- said
			delete(b.waiting, said.ID)
		}

	case "Page.loadEventFired":
		select {
		case b.loaded <- struct{}{}:
		default:
		}

	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening":
		b.problems = append(b.problems, said.Method+" "+string(said.Params))
	}
}

func (b *browser) send(method string, params any) chan reply {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.last++
	wait := make(chan reply, 1)
	b.waiting[b.last] = wait

	message := map[string]any{"id": b.last, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}

	text, err := json.Marshal(message)
	if err == nil {
		b.out.Write(append(text, 0)) // if this fails the browser is gone, and call times out
	}

	return wait
}

// call sends a command and waits for its answer.
func (b *browser) call(t *testing.T, method string, params, result any) {
	t.Helper()

	select {
	case said := <-b.send(method, params):
		if said.Error != nil {
			t.Fatalf("%s: %s", method, said.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(said.Result, result); err != nil {
				t.Fatalf("%s: %v in %s", method, err, said.Result)
			}
		}
	case <-time.After(browserBudget):
		t.Fatalf("%s: no answer", method)
	}
}

// open loads a page at a width, in a colour scheme: light or dark.
func (b *browser) open(t *testing.T, url string, width int, scheme string) {
	t.Helper()

	metrics := map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
	b.call(t, "Emulation.setDeviceMetricsOverride", metrics, nil)
	feature := map[string]string{"name": "prefers-color-scheme", "value": scheme}
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{feature}}, nil)

	select { // forgets the event of the page before
	case <-b.loaded:
	default:
	}

	b.call(t, "Page.navigate", map[string]any{"url": url}, nil)
	select {
	case <-b.loaded:
	case <-time.After(browserBudget):
		t.Fatalf("%s does not load", url)
	}
}

// eval evaluates an expression in the page.
func (b *browser) eval(t *testing.T, expression string, into any) {
	t.Helper()

	var got struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails json.RawMessage
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, got.ExceptionDetails)
	}
	if err := json.Unmarshal(got.Result.Value, into); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

// shoot writes a screenshot of the whole page into the folder pageShots, if it is set.
func (b *browser) shoot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv(pageShots)
	if dir == "" {
		return
	}

	var size [2]float64
	b.eval(t, "[document.documentElement.clientWidth, document.documentElement.scrollHeight]", &size)

	var got struct{ Data []byte }
	clip := map[string]any{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
	b.call(t, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": clip}, &got)

	if err := os.WriteFile(filepath.Join(dir, name+".png"), got.Data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// complaints returns the messages of the console and of the log so far.
func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) == 0 {
		return ""
	}
	return fmt.Sprint(b.problems)
}
