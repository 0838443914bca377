package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shadowedNginx has limit_req, and two workers that write one log. %[3]s is the format of docs/follow.md.
const shadowedNginx = `daemon off;
user root;
worker_processes 2;
` + nginxHTTP + `  %[3]s
  limit_req_zone $binary_remote_addr zone=one:1m rate=5r/s;
  server {
    listen %[2]s reuseport;
    root %[1]s;
    location = /page { limit_req zone=one burst=10 nodelay; }
  }
}
`

// followPage returns the first fenced block of docs/follow.md that has a text.
func followPage(t *testing.T, contains string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/follow.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		if _, block, _ = strings.Cut(block, "\n"); i%2 == 1 && strings.Contains(block, contains) {
			lines := strings.Split(strings.TrimSpace(block), "\n")
			for i := range lines {
				lines[i] = strings.TrimSpace(lines[i])
			}
			return strings.Join(lines, "\n")
		}
	}
	t.Fatalf("docs/follow.md has no block with %q", contains)
	return ""
}

// shadowed is an nginx whose log is followed by the commands of docs/follow.md.
type shadowed struct {
	*testing.T
	dir, log, addr, path string
	env                  []string
	master               *exec.Cmd
	following            *exec.Cmd
	said                 strings.Builder
	rotations            int
	writing              sync.RWMutex // held for reading by each request, so that copytruncate itself loses nothing
}

func startShadowed(t *testing.T) *shadowed {
	program := requireProgram(t, "nginx", "its limit_req is shadowed")
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &shadowed{T: t, dir: t.TempDir(), addr: net.JoinHostPort("127.0.0.1", port), path: path}
	s.log = filepath.Join(s.dir, "shadow.log")
	s.env = append(os.Environ(), "SHADOWLIMIT_REDIS=redis://"+privateServer(t), "SHADOWLIMIT_NAME=edge", "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))

	policy, err := os.ReadFile("../examples/policies/nginx-log.yaml")
	if err != nil {
		t.Fatal(err)
	}
	format := strings.Replace(followPage(t, "log_format"), "/var/log/nginx/shadow.log", s.log, 1)
	conf := filepath.Join(s.dir, "nginx.conf")
	write(t, conf, fmt.Sprintf(shadowedNginx, s.dir, s.addr, format))
	write(t, filepath.Join(s.dir, "nginx-log.yaml"), string(policy))
	write(t, filepath.Join(s.dir, "page"), "ok")
	s.master = exec.Command(program, "-p", s.dir, "-c", conf, "-e", filepath.Join(s.dir, "start.log"))
	runPeer(t, s.addr, s.master)

	// A master that is killed leaves its workers behind.
	t.Cleanup(func() {
		_ = s.master.Process.Signal(syscall.SIGTERM)
		for tick, n := time.Tick(10*time.Millisecond), 0; n < 500; n++ {
			if _, err := os.Stat(filepath.Join(s.dir, "pid")); err != nil {
				return
			}
			<-tick
		}
	})
	return s
}

// follow starts the command of the document.
func (s *shadowed) follow() {
	s.following = exec.Command("sh", "-c", "exec "+followPage(s.T, "shadowlimit follow"))
	s.following.Dir, s.following.Env, s.following.Stderr = s.dir, s.env, &s.said
	if err := s.following.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = s.following.Process.Kill()
		_ = s.following.Wait()
	})
}

func (s *shadowed) kill() {
	_ = s.following.Process.Kill()
	_ = s.following.Wait()
}

// load sends requests of some clients until the test says so.
func (s *shadowed) load(until <-chan struct{}) (wait func()) {
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+n))}}
			transport := &http.Transport{DialContext: dialer.DialContext}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
			for {
				select {
				case <-until:
					return
				case <-time.After(time.Duration(rand.IntN(80*(n+1))) * time.Millisecond):
				}
				s.writing.RLock()
				answer, err := client.Get("http://" + s.addr + "/page")
				if err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				s.writing.RUnlock()
			}
		})
	}
	return all.Wait
}

// rename rotates as logrotate does with create.
func (s *shadowed) rename() {
	s.rotations++
	if err := os.Rename(s.log, fmt.Sprintf("%s.%d", s.log, s.rotations)); err != nil {
		s.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		s.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGUSR1)
	}
	if err != nil {
		s.Fatal(err)
	}
	for tick := time.Tick(10 * time.Millisecond); ; {
		if _, err := os.Stat(s.log); err == nil {
			return
		}
		<-tick
	}
}

// truncate rotates as logrotate does with copytruncate.
func (s *shadowed) truncate() {
	s.writing.Lock()
	defer s.writing.Unlock()
	time.Sleep(50 * time.Millisecond) // nginx writes the line behind the answer
	s.rotations++
	text, err := os.ReadFile(s.log)
	if err == nil {
		err = os.WriteFile(fmt.Sprintf("%s.%d", s.log, s.rotations), text, 0o644)
	}
	if err == nil {
		err = os.Truncate(s.log, 0)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// files are all that nginx has logged.
func (s *shadowed) files() (list []string) {
	for n := 1; n <= s.rotations; n++ {
		list = append(list, fmt.Sprintf("%s.%d", s.log, n))
	}
	return append(list, s.log)
}

// seen is what a replay and a status say of a policy.
type seen struct {
	Policies []struct {
		Comparisons     int64     `json:"comparisons"`
		AgreeAllow      int64     `json:"agree_allow"`
		AgreeDeny       int64     `json:"agree_deny"`
		NewlyDenied     int64     `json:"newly_denied"`
		NewlyAllowed    int64     `json:"newly_allowed"`
		Uncompared      int64     `json:"uncompared"`
		TopNewlyDenied  []seenKey `json:"top_newly_denied"`
		TopNewlyAllowed []seenKey `json:"top_newly_allowed"`
		Gate            struct {
			Verdict string `json:"verdict"`
		} `json:"gate"`
	} `json:"policies"`
}

type seenKey struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
}

func (s *shadowed) say(args ...string) string {
	s.Helper()
	cmd := exec.Command(s.path, append(args, "-o", "json")...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.Output()
	var said seen
	if failed := json.Unmarshal(out, &said); err != nil || failed != nil || len(said.Policies) != 1 {
		s.Fatalf("%q: %v %v: %s\n%s", args, err, failed, out, s.said.String())
	}
	return fmt.Sprintf("%+v", said)
}

// Behind a real nginx, whatever is rotated and killed, the counts, the verdict and the keys are those of a replay of all that nginx
// has logged.
func TestFollowBehindNginx(t *testing.T) {
	t.Parallel()
	long(t)
	s := startShadowed(t)
	s.follow()
	until := make(chan struct{})
	wait := s.load(until)
	await(t, "the log is followed: what was rotated before counts as of before the beginning", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "edge.state"))
		return err == nil
	})
	pause := func() { time.Sleep(time.Duration(500+rand.IntN(1000)) * time.Millisecond) }
	for _, step := range []func(){
		s.rename, s.kill, s.follow, s.truncate,
		s.kill, s.rename, s.follow, // rotated while nothing follows
		s.kill, s.truncate, s.follow, s.rename, s.truncate,
	} {
		pause()
		step()
	}
	time.Sleep(6 * time.Second) // for a checkpoint of all that
	s.kill()
	s.follow()
	pause()
	close(until)
	wait()
	time.Sleep(100 * time.Millisecond) // nginx writes the line behind the answer
	if err := s.following.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.following.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.said.String())
	}

	want := s.say(append([]string{"replay", "--config", "nginx-log.yaml", "--observed", `response.limited == "REJECTED"`}, s.files()...)...)
	s.follow() // whose leader judges what has been written
	got := ""
	for tick, begun := time.Tick(time.Second), time.Now(); got != want; <-tick {
		if got = s.say("status"); got != want && time.Since(begun) > time.Minute {
			t.Fatalf("followed %s\nreplayed %s\n%s", got, want, s.said.String())
		}
	}

	refused := exec.Command(s.path, "promote", "per-client", "--force", "--reason", "test")
	refused.Env = s.env
	if out, err := refused.CombinedOutput(); refused.ProcessState.ExitCode() != 3 {
		t.Errorf("promote: %v: %s", err, out)
	}
}
