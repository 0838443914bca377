package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// soakFiles are the policy files of a soak, by release: the second has another candidate. The
// sides of a file are alike, so that no regression moves the policy.
var soakFiles = [...]string{soakFile("gcra, id: next, limit: 60, window: 10s"), soakFile("token_bucket, limit: 60, window: 10s")}

func soakFile(candidate string) string {
	return fmt.Sprintf(`
version: 1
name: %%s
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: gcra, limit: 60, window: 10s }
    candidate: { algorithm: %s }
`, candidate)
}

// slot is a place for one process after another. A load asks the process that is in it.
type slot struct {
	t        *testing.T
	earlier  string // the test binary of the earlier release; "" for this one
	entrance string // of Redis
	service  string // name
	number   int
	dir      string // of its last stages
	file     int    // index of soakFiles

	// asking is held by a request of the load, and by any change of the process.
	asking   sync.Mutex
	now      *service
	sent     atomic.Int64 // requests of the load, to all its processes
	answered atomic.Int64

	// What processes before this one have counted together, at least and at most. base is
	// the count of this one when the fleet rested last, and the marks are the requests until
	// then. A process that has started since has them from its start.
	least, most, base  int64
	mark, answeredMark int64
	moments            []moment // since then
	disturbed          bool     // since then; so is every slot while Redis is
	usage              []usage
}

// moment is how many requests had been sent and answered at an instant.
type moment struct {
	at             time.Time
	sent, answered int64
}

// usage is what a process held at rest.
type usage struct {
	pid              int
	heap, goroutines int64 // 0 of the earlier release, which does not say
	rss              int64 // bytes
}

func (s *slot) path() string { return filepath.Join(s.dir, "policies.yaml") }

// put gives the slot a policy file.
func (s *slot) put(file int) {
	s.t.Helper()
	s.file = file
	text := fmt.Sprintf(soakFiles[file], s.service)
	err := os.WriteFile(s.path()+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(s.path()+".new", s.path())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts a process in the slot. Requires asking.
func (s *slot) start() {
	s.t.Helper()
	s.base, s.mark, s.answeredMark, s.moments = 0, s.sent.Load(), s.answered.Load(), nil
	variables := []string{
		serviceVariable + "=" + s.entrance, nameVariable + "=" + s.service, stateVariable + "=" + s.dir,
		instanceVariable + "=" + fmt.Sprint("slot", s.number),
	}
	if s.earlier == "" {
		s.now = startProcess(s.t, os.Args[0], append(variables, pathVariable+"="+s.path())...)
		return
	}
	s.now = startProcess(s.t, s.earlier, append(variables, fileVariable+"="+soakFiles[s.file])...)
}

// counted asks the process for the number of its comparisons.
func (s *slot) counted() int64 { n, _ := s.ask(); return n }

// countedLast waits until the process has counted what it was sent: a request that the load has
// given up may be under way, and a side may follow behind.
func (s *slot) countedLast() (n int64) {
	for tick := time.Tick(500 * time.Millisecond); ; <-tick {
		now := s.counted()
		if now == n {
			return n
		}
		n = now
	}
}

// ask asks the process what it has counted and what it holds.
func (s *slot) ask() (comparisons int64, u usage) {
	s.t.Helper()
	u.pid = s.now.cmd.Process.Pid
	u.rss = residentMemory(u.pid)
	if s.earlier == "" {
		_, text := s.now.get(s.t, "/self", "")
		if _, err := fmt.Sscan(text, &comparisons, &u.heap, &u.goroutines); err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		return comparisons, u
	}

	_, text := s.now.get(s.t, "/metrics", "")
	for line := range strings.Lines(text) {
		if value := strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]); strings.HasPrefix(line, "shadowlimit_comparisons_total{") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			comparisons += int64(n)
		}
	}
	return comparisons, u
}

// residentMemory returns 0 where the system has no /proc.
func residentMemory(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, resident int64
	_, _ = fmt.Sscan(string(text), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// mayLose is the time whose counts a process loses that ends without a word, or whose evidence
// begins again: the time between two writes of the ledger, with its fifth more, and two seconds
// for the write.
const mayLose = flushInterval + flushInterval/5 + 2*time.Second

// flushInterval is that of a policy in shadow or rolled back.
const flushInterval = 15 * time.Second

// kill ends the process without a word. It has counted at most what it was sent; what it
// answered before the time that it may lose is in the ledger.
func (s *slot) kill() {
	s.t.Helper()
	if err := s.now.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.now.cmd.Wait()
	written := s.before(time.Now().Add(-mayLose))

	s.asking.Lock()
	defer s.asking.Unlock()
	s.most += s.base + s.sent.Load() - s.mark
	s.least += s.base
	if !s.disturbed {
		s.least += written.answered
	}
	s.start()
}

// replace ends the process as a deployment does, and starts another one.
func (s *slot) replace() {
	s.t.Helper()
	s.asking.Lock()
	defer s.asking.Unlock()
	n := s.countedLast()
	s.now.stop(s.t)
	s.least += n
	s.most += n
	s.start()
}

// before returns what this process was sent and had answered at an instant, since the fleet
// rested last.
func (s *slot) before(at time.Time) (last moment) {
	for _, m := range s.moments {
		if m.at.Before(at) {
			last = m
		}
	}
	return last
}

// note notes a moment. Requires that no other goroutine changes the process.
func (s *slot) note() {
	s.moments = append(s.moments, moment{time.Now(), s.sent.Load() - s.mark, s.answered.Load() - s.answeredMark})
}

func (s *slot) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.now.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

const (
	soakUsers    = 40
	betweenSends = 25 * time.Millisecond
)

// load sends requests until ctx is over, one at a time.
func (s *slot) load(ctx context.Context) {
	client := &http.Client{Timeout: 2 * time.Second}
	tick := time.NewTicker(betweenSends)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.send(ctx, client, fmt.Sprint("user-", (n*7+s.number)%soakUsers))
		}
	}
}

// send sends a request. One that has no answer is no failure: its process may be stopped.
func (s *slot) send(ctx context.Context, client *http.Client, user string) {
	s.asking.Lock()
	defer s.asking.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.now.url+"/", nil)
	if err != nil {
		return
	}

	r.Header.Set("X-User", user)
	s.sent.Add(1)
	response, err := client.Do(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	s.answered.Add(1)
}
