package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// browser is a page in a headless Chromium, spoken to by the DevTools protocol over
// a pair of pipes.
type browser struct {
	out     *os.File
	session string

	mu       sync.Mutex
	last     int
	waiting  map[int]chan reply
	loaded   chan struct{}
	problems []string // what the console and the log have complained of
}

// reply is an answer, or an event if it has no ID.
type reply struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// browserBudget bounds each thing that a browser is asked for.
const browserBudget = 30 * time.Second

// openBrowser starts Chromium. In CI it has to be there.
func openBrowser(t *testing.T) *browser {
	t.Helper()

	path, err := exec.LookPath("chromium")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("CI needs chromium: integration/components.sh installs it")
	case err != nil:
		t.Skip("chromium is not on PATH, so nobody has looked at the status page; it is in Debian's package chromium")
	}

	in, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	theirIn, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")

	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
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

// close ends the browser, by force if it does not go.
func (b *browser) close(cmd *exec.Cmd) {
	b.session = ""
	b.send("Browser.close", nil)
	force := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	cmd.Wait() // its status says nothing about the page
	force.Stop()
	b.out.Close()
}

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

// read takes what the browser says until it ends.
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
		b.out.Write(append(text, 0)) // a browser that has gone does not answer either
	}

	return wait
}

// call asks for something and waits for it.
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

	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	select { // of a page before
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

// eval returns what an expression comes to in the page.
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

// screenshot returns the whole page as PNG.
func (b *browser) screenshot(t *testing.T) []byte {
	t.Helper()
	var size [2]float64
	b.eval(t, "[document.documentElement.clientWidth, document.documentElement.scrollHeight]", &size)
	var got struct{ Data []byte }
	clip := map[string]any{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
	b.call(t, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": clip}, &got)
	return got.Data
}

// complaints are what the console and the log had to say so far.
func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) == 0 {
		return ""
	}
	return fmt.Sprint(b.problems)
}
