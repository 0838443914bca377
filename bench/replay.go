package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Columns of the part.
const (
	lineRate  = "million lines a second of CPU"
	bytesLine = "bytes a line at the peak"
)

// A replay is a command over the log, after "shadowlimit replay".
type replay struct {
	name string
	args []string
}

const byFile = "a policy file"

var replays = []replay{
	{"fixed_window to token_bucket", []string{"--from", "fixed_window:100/1m", "--to", "token_bucket:100/1m:burst=20"}},
	{"sliding_window_log to gcra", []string{"--from", "sliding_window_log:100/1m", "--to", "gcra:100/1m:burst=20"}},
	{byFile, []string{"--config", policyOfReplay}},
}

// policyOfReplay is a file in the folder of the part.
const policyOfReplay = "replay.yaml"

const replayPolicies = `version: 1
name: replay
policies:
  - name: reads
    when: request.method == "GET"
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 100, window: 1m }
    candidate:     { algorithm: token_bucket, limit: 100, window: 1m, burst: 20 }
`

var replayPart = part{
	name: "replay", columns: []string{lineRate, bytesLine}, subjects: replaySubjects(), goals: replayGoals, rounds: 0.2,
}

func replaySubjects() (list []subject) {
	for _, r := range replays {
		list = append(list, subject{r.name, func(s *site) (measure, error) {
			if err := s.prepareReplay(); err != nil {
				return nil, err
			}
			return func() ([]float64, error) { return s.replay(r.args) }, nil
		}})
	}
	return list
}

// prepareReplay builds the command and writes the log, once.
func (s *site) prepareReplay() error {
	if s.log != "" {
		return nil
	}

	build := exec.Command("go", "build", "-o", filepath.Join(s.dir, "shadowlimit"), "./cmd/shadowlimit")
	build.Dir = root()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, policyOfReplay), []byte(replayPolicies), 0o600); err != nil {
		return err
	}
	s.log = filepath.Join(s.dir, "access.log")
	return writeLog(s.log, s.lines)
}

// clients of the log. Their requests are as uneven as those of services are: some send thousands, most a few.
const clients = 20_000

// writeLog writes a combined log of a number of lines, 1,000 a second, with about 190 bytes a line.
func writeLog(path string, lines int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()

	out, draw := bufio.NewWriterSize(file, 1<<20), rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(draw, 1.2, 10, clients-1)
	start := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	for n := range lines {
		client, method := zipf.Uint64(), "GET"
		if n%8 == 0 {
			method = "POST"
		}
		at := start.Add(time.Duration(n) * time.Millisecond)
		fmt.Fprintf(out, "10.%d.%d.%d - - [%s] \"%s /orders/%d HTTP/1.1\" 200 %d \"https://shop.example.com/cart\" "+
			"\"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n",
			client>>16, client>>8&255, client&255, at.Format("02/Jan/2006:15:04:05 -0700"), method, draw.IntN(1e6), draw.IntN(1e5))
	}
	return out.Flush()
}

// replay runs the command on one core.
func (s *site) replay(args []string) ([]float64, error) {
	cmd := exec.Command(filepath.Join(s.dir, "shadowlimit"), append(append([]string{"replay"}, args...), "-o", "json", s.log)...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "GOMAXPROCS=1")
	var talk bytes.Buffer
	cmd.Stderr = &talk

	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, talk.String())
	}

	// CPU time is what one core takes, on a machine that others use, too.
	state := cmd.ProcessState
	seconds := (state.UserTime() + state.SystemTime()).Seconds()
	peak := state.SysUsage().(*syscall.Rusage).Maxrss
	if runtime.GOOS == "linux" {
		peak *= 1024 // Linux counts in kilobytes
	}
	return []float64{float64(s.lines) / seconds / 1e6, float64(peak) / float64(s.lines)}, nil
}

func replayGoals(r results) (wanted []goal) {
	for _, one := range replays {
		bound := 1.0
		if one.name == byFile {
			bound = 0.8
		}
		wanted = append(wanted,
			goal{what: lineRate + ": " + one.name, bound: bound, atLeast: true, value: r.spread(one.name, lineRate)},
			goal{what: bytesLine + ": " + one.name, bound: 64, value: r.spread(one.name, bytesLine)})
	}
	return wanted
}
