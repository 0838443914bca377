package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// What the product decided before it became smaller. The recordings hold the work still: a step that changes one of them
// changes behaviour, and says so in its commit. To record again:
//
//	go test -run Recordings -update -recorded 1000

var (
	update         = flag.Bool("update", false, "write testdata/recordings")
	recordedBlocks = flag.Int("recorded", 50, "blocks of 1,000 recorded decisions that are compared on Redis, at most 1000")
)

const (
	recordings    = "testdata/recordings"
	decisionsFile = recordings + "/decisions.txt"
	commandsDir   = recordings + "/commands"
	blockChecks   = 1000
	blocks        = 1000
)

// recordedStart is a Thursday shortly before midnight, so that windows of every length begin and end in a block.
var recordedStart = time.Date(2026, 1, 1, 23, 59, 30, 0, time.UTC).UnixMicro()

// recordedChecks returns the checks of a block. Blocks have keys of their own, so each can be made alone.
func recordedChecks(block int) []algorithms.Check {
	rng := rand.New(rand.NewPCG(2026, uint64(block)))
	windows := []time.Duration{10 * time.Second, 15 * time.Second, time.Minute, 90 * time.Second, time.Hour}
	draw := func(id string) algorithms.Side {
		s := algorithms.Side{ID: id, Algorithm: algorithms.All[rng.IntN(len(algorithms.All))]}
		s.Limit = algorithms.Limit{Requests: 1 + rng.Int64N(12), Window: windows[rng.IntN(len(windows))]}
		switch algorithms.TraitsOf(s.Algorithm).Burst {
		case algorithms.BurstOptional:
			s.Limit.Burst = rng.Int64N(8)
		case algorithms.BurstRequired:
			s.Limit.Burst = 1 + rng.Int64N(8)
		}
		return s
	}

	var policies [4]algorithms.Check
	for i := range policies {
		policies[i] = algorithms.Check{
			Policy:   fmt.Sprintf("b%d-p%d", block, i),
			Sides:    [2]algorithms.Side{draw("a"), draw("b")},
			Enforced: algorithms.Role(rng.IntN(2)),
		}
	}

	checks, at := make([]algorithms.Check, blockChecks), recordedStart
	for i := range checks {
		switch n := rng.IntN(1000); {
		case n < 20: // a clock that goes back
			at -= rng.Int64N(5_000_000)
		case n < 40: // a pause, in which windows end
			at += rng.Int64N(200_000_000)
		case n < 80: // to the boundary of a second
			at += 1_000_000 - at%1_000_000
		case n < 100: // one instant
		default:
			at += rng.Int64N(300_000)
		}

		p := &policies[rng.IntN(len(policies))]
		if rng.IntN(100) == 0 { // the limit of a side changes
			side := &p.Sides[rng.IntN(2)]
			side.Limit.Requests = 1 + rng.Int64N(12)
		}
		if rng.IntN(200) == 0 { // a candidate is promoted, or rolled back
			p.Enforced = p.Enforced.Other()
		}

		c := *p
		c.Key = fmt.Sprintf("k%d", rng.IntN(4))
		c.Cost = []int64{1, 1, 1, 1, 1, 1, 0, 2, 3, 20}[rng.IntN(10)]
		c.At = time.UnixMicro(at)
		checks[i] = c
	}
	return checks
}

// hashOfBlock evaluates the checks of a block and hashes all that is decided.
func hashOfBlock(pair algorithms.Pair, block int) (string, error) {
	checks := recordedChecks(block)
	answers := make([][2]algorithms.Observation, len(checks))
	for from := 0; from < len(checks); from += 50 {
		if err := pair.Evaluate(context.Background(), checks[from:from+50], answers[from:from+50]); err != nil {
			return "", err
		}
	}

	hash := sha256.New()
	for i := range answers {
		for role := range answers[i] {
			o := &answers[i][role]
			if o.Err != nil {
				return "", fmt.Errorf("check %d of block %d, %s: %w", i, block, algorithms.Role(role), o.Err)
			}
			d := &o.Decision
			binary.Write(hash, binary.LittleEndian, d.Allowed)
			for _, n := range []int64{d.Capacity, d.Remaining, int64(d.RetryAfter), int64(d.ResetAfter), int64(d.Delay)} {
				binary.Write(hash, binary.LittleEndian, n)
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// hashesOfBlocks evaluates the first n blocks. A block that differs from want is evaluated again in a pair of its own: where the
// machine stalls for a second, a record in Redis may end before the program, whose clock is not the server's.
func hashesOfBlocks(t *testing.T, n int, want []string, pairOf func() algorithms.Pair) []string {
	t.Helper()
	hashes := make([]string, n)
	errs := make([]error, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for b := int(next.Add(1)) - 1; b < n; b = int(next.Add(1)) - 1 {
				for range 3 {
					hashes[b], errs[b] = hashOfBlock(pairOf(), b)
					if errs[b] == nil && (len(want) <= b || hashes[b] == want[b]) {
						break
					}
				}
			}
		})
	}
	workers.Wait()

	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return hashes
}

// A million checks decide as they were recorded: all in memory, the first of them on Redis.
func TestRecordingsOfDecisions(t *testing.T) {
	t.Parallel()
	memory := func() algorithms.Pair { return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}) }
	if *update {
		hashes := hashesOfBlocks(t, blocks, nil, memory)
		if err := os.WriteFile(decisionsFile, []byte(strings.Join(hashes, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	text, err := os.ReadFile(decisionsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(text))
	if len(want) != blocks {
		t.Fatalf("%s has %d blocks, want %d", decisionsFile, len(want), blocks)
	}
	compare := func(t *testing.T, n int, pairOf func() algorithms.Pair) {
		for b, hash := range hashesOfBlocks(t, n, want, pairOf) {
			if hash != want[b] {
				t.Errorf("block %d of 1,000 checks decides otherwise than it was recorded", b)
			}
		}
	}

	t.Run("memory", func(t *testing.T) { compare(t, blocks, memory) })
	t.Run("redis", func(t *testing.T) {
		eachServer(t, func(t *testing.T, s server) {
			_, client := newPair(t, s.addr)
			compare(t, *recordedBlocks, func() algorithms.Pair { return pairOn(t, client, newName()) })
		})
	})
}

const sampleLog = "../internal/sample/elastic-2015.access.log.gz"

// recordedCommands are commands whose JSON is recorded, by the name of the file.
func recordedCommands(t *testing.T) map[string][]string {
	t.Helper()
	commands := map[string][]string{
		"replay-demo": {"replay", "--config", "../cmd/shadowlimit/internal/demo/demo.yaml", sampleLog},
	}
	limits := []string{
		"fixed_window:20/1m", "fixed_window_anchored:20/1m", "sliding_window_log:20/1m", "sliding_window_counter:20/1m",
		"token_bucket:20/1m:burst=5", "gcra:20/1m:burst=5", "leaky_bucket:20/1m:burst=5",
	}
	for i, from := range limits {
		to := limits[(i+1)%len(limits)]
		name, _, _ := strings.Cut(from, ":")
		commands["replay-from-"+name] = []string{"replay", "--from", from, "--to", to, sampleLog}
	}
	commands["replay-strict"] = []string{"replay", "--from", "fixed_window:20/1m", "--to", "gcra:6/1m:burst=3", sampleLog}
	commands["replay-key"] = []string{"replay", "--from", "gcra:60/1m", "--to", "gcra:30/1m", "--key", "ipGroup(request.ip)", sampleLog}

	files, err := filepath.Glob("testdata/recordings/policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded policy files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		commands["validate-"+name] = []string{"validate", file}
		if strings.HasPrefix(name, "bad-") {
			continue
		}
		commands["replay-config-"+name] = []string{"replay", "--config", file, sampleLog}
		commands["explain-"+name] = []string{"explain", file, "--request",
			`{"method":"POST","path":"/v1/items","route":"/v1/items","ip":"192.0.2.7","headers":{"x-tenant":"acme","x-plan":"pro"}}`}
	}
	return commands
}

// contract are the fields of the JSON that the design fixes, for which others rely on it. Others may come and go.
var contract = func() map[string]bool {
	fields := map[string]bool{}
	for _, name := range strings.Fields(`
		requests skipped_lines first last policies name comparisons agree_allow agree_deny newly_denied newly_allowed candidate_error
		uncompared keys keys_newly_denied keys_newly_allowed top_newly_denied top_newly_allowed key count error
		gate verdict step conditions met due divergence extra_load ratio threshold score regression lower_bound upper_bound not_before
		passed_at promoted_at
		stage percent hold term seq enforced instances history at from to policy distinct
		file valid problems severity line column charges cost authoritative candidate algorithm limit window burst skipped`) {
		fields[name] = true
	}
	return fields
}()

// contracted returns JSON with the fields of the contract alone.
func contracted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			_, pinned := value.(bool) // first of a policy is whether keys are pinned, that of a log an instant
			if !contract[name] || name == "first" && pinned || name == "last" && pinned {
				delete(v, name)
				continue
			}
			v[name] = contracted(value)
		}
	case []any:
		for i := range v {
			v[i] = contracted(v[i])
		}
	}
	return v
}

// recordedJSON writes what the contract has of the output of a command.
func recordedJSON(t *testing.T, output []byte) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(output))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, output)
	}
	text, err := json.MarshalIndent(contracted(v), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// compareRecording compares what a command says with its recording, or writes it.
func compareRecording(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join(commandsDir, name+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(gotLines), len(wantLines)) {
			if gotLines[i] != wantLines[i] {
				t.Fatalf("%s:%d: got %s, recorded %s", file, i+1, gotLines[i], wantLines[i])
			}
		}
		t.Fatalf("%s: %d lines, recorded %d", file, len(gotLines), len(wantLines))
	}
}

// Commands say of the bundled traffic what they said when they were recorded.
func TestRecordingsOfCommands(t *testing.T) {
	t.Parallel()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	for name, arguments := range recordedCommands(t) {
		t.Run(name, func(t *testing.T) {
			output, err := exec.Command(path, append(arguments, "-o", "json")...).Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			compareRecording(t, name, recordedJSON(t, output))
		})
	}

	t.Run("replay-decisions", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "decisions")
		if output, err := exec.Command(path, "replay", "--from", "sliding_window_counter:20/1m", "--to", "leaky_bucket:20/1m:burst=5",
			"--decisions", file, sampleLog).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		compareRecording(t, "replay-decisions", fmt.Appendf(nil, "%q\n", hex.EncodeToString(sum[:])))
	})
}

var demoRedis = regexp.MustCompile(`redis://[0-9.:]+`)

// The demo leaves the stages, the counts and the verdict that it left when it was recorded.
func TestRecordingsOfTheDemo(t *testing.T) {
	t.Parallel()
	long(t)
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	demo := exec.Command(path, "demo", "--serve")
	output, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		demo.Process.Signal(os.Interrupt)
		demo.Wait()
	}()

	url := ""
	for lines := bufio.NewScanner(output); url == "" && lines.Scan(); { // it is told behind the story
		url = demoRedis.FindString(lines.Text())
	}
	for name, arguments := range map[string][]string{"demo-status": {"status"}, "demo-history": {"history", "per-client"}} {
		got, err := exec.Command(path, append(arguments, "--redis", url, "--name", "demo", "-o", "json")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		compareRecording(t, name, recordedJSON(t, got))
	}
}
