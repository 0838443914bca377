package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/sample"
)

type policyJSON struct {
	Name         string
	Comparisons  int
	AgreeAllow   int `json:"agree_allow"`
	AgreeDeny    int `json:"agree_deny"`
	NewlyDenied  int `json:"newly_denied"`
	NewlyAllowed int `json:"newly_allowed"`
	Keys         int
	Top          []struct {
		Key   string
		Count int
	} `json:"top_newly_denied"`
}

func report(t *testing.T, out string) (requests, skipped int, p policyJSON) {
	t.Helper()
	var r struct {
		Requests     int
		SkippedLines int `json:"skipped_lines"`
		Policies     []policyJSON
	}

	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Policies) != 1 {
		t.Fatalf("report %s: %v", out, err)
	}
	return r.Requests, r.SkippedLines, r.Policies[0]
}

func TestReplayOfTheBundledLog(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	args := strings.Fields("replay --from fixed_window:20/1m --to token_bucket:20/1m:burst=10 -o json")
	status, out, talk := shell(t, "", append(args, log)...)
	if status != 0 || talk != "" {
		t.Fatalf("status %d, %s", status, talk)
	}

	// A replay misses no check, and says so.
	if !strings.Contains(out, `"uncompared": 0`) {
		t.Errorf("want nothing uncompared in\n%s", out)
	}

	requests, skipped, p := report(t, out)
	want := policyJSON{
		Name: "replay", Comparisons: 10000, AgreeAllow: 9016, AgreeDeny: 469, NewlyDenied: 53, NewlyAllowed: 462, Keys: 1753,
	}
	top := p.Top
	p.Top = nil
	if requests != 10000 || skipped != 0 || fmt.Sprint(p) != fmt.Sprint(want) {
		t.Errorf("%d requests, %d skipped, %+v, want %+v", requests, skipped, p, want)
	}

	if len(top) != 10 || top[0].Key != "10.0.4.138" || top[0].Count != 16 {
		t.Errorf("top %+v", top)
	}
}

func TestReplayInRedisIsTheSame(t *testing.T) {
	redis := miniredis.RunT(t)
	events := "t_us,key,cost\n"
	for i := range 600 {
		events += fmt.Sprintf("%d,k%d,%d\n", 1_700_000_000_000_000+i*7919, i%5, i%4)
	}

	log, dir := write(t, "events.csv", []byte(events)), t.TempDir()
	args := strings.Fields("replay --from sliding_window_log:5/100ms --to leaky_bucket:5/100ms:burst=3 -o json " + log)

	memory := append(args, "--decisions", filepath.Join(dir, "memory"))
	statusMemory, outMemory, _ := shell(t, "", memory...)
	inRedis := append(args, "--decisions", filepath.Join(dir, "redis"), "--store", "redis", "--redis", "redis://"+redis.Addr())
	statusRedis, outRedis, talk := shell(t, "", inRedis...)
	if statusMemory != 0 || statusRedis != 0 || outMemory != outRedis {
		t.Errorf("memory %d\n%s\nredis %d\n%s%s", statusMemory, outMemory, statusRedis, outRedis, talk)
	}

	ofMemory, _ := os.ReadFile(filepath.Join(dir, "memory"))
	ofRedis, _ := os.ReadFile(filepath.Join(dir, "redis"))
	if !bytes.Equal(ofMemory, ofRedis) || bytes.Count(ofMemory, []byte("\n")) != 600 {
		t.Error("the decisions of the two stores differ")
	}
}

// A first limit newly denies some of all requests, by flags as by a policy file. Nothing can be newly allowed.
func TestReplayOfAFirstLimit(t *testing.T) {
	line := func(us int) string { return fmt.Sprintf(`{"t_us":%d,"ip":"192.0.2.1"}`, us) + "\n" }
	log := write(t, "access.jsonl", []byte(line(1000)+line(1001)+line(1002)+line(1003)))
	file := write(t, "p.yaml", []byte("version: 1\nname: a\npolicies:\n  - {name: p, key: request.ip, authoritative: none, "+
		"candidate: {algorithm: fixed_window, limit: 1, window: 10s}}\n"))

	for _, flags := range [][]string{
		{"--from", "none", "--to", "fixed_window:1/10s", "--key-field", "ip"},
		{"--from", "none", "--to", "fixed_window:1/10s", "--key", "request.ip"},
		{"--config", file},
	} {
		status, out, talk := shell(t, "", append([]string{"replay", "-o", "json", log}, flags...)...)
		if status != exitOK {
			t.Errorf("%q: status %d\n%s", flags, status, talk)
			continue
		}
		var got struct {
			Policies []struct {
				policyJSON
				Authoritative string
				Ratios        map[string]*float64
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		p := got.Policies[0]
		if p.Authoritative != "none" || p.Comparisons != 4 || p.AgreeAllow != 1 || p.NewlyDenied != 3 {
			t.Errorf("%q: %+v", flags, p)
		}
		if r := p.Ratios; *r["newly_denied"] != 0.75 || r["newly_allowed"] != nil || r["extra_load"] != nil {
			t.Errorf("%q: %s", flags, out)
		}
	}
}

func TestReplayReadsStandardInputAndManyFiles(t *testing.T) {
	line := func(second int) string { return fmt.Sprintf(`{"t_s":%d,"key":"a"}`, second) + "\n" }
	later := write(t, "later.jsonl", []byte(line(10)+line(10)))

	args := []string{"replay", "--from=fixed_window:2/10s", "--to=fixed_window:1/10s", "-o=json", later, "-"}
	status, out, talk := shell(t, line(9)+"junk\n"+line(9), args...)
	requests, skipped, p := report(t, out)
	if status != 0 || requests != 4 || skipped != 1 || p.AgreeAllow != 2 || p.NewlyDenied != 2 {
		t.Errorf("status %d, %d requests, %d skipped, %+v", status, requests, skipped, p)
	}
	if !strings.Contains(talk, "-:2: skipped: not a JSON object: junk") {
		t.Errorf("talk %q does not show the skipped line", talk)
	}
}

func TestReplayRefuses(t *testing.T) {
	good := write(t, "good.csv", []byte("time,key\n1,a\n"))
	junk := write(t, "junk", []byte("\x7fELF\x00\x01\x02\n\xff\xfe\n"))
	empty := write(t, "empty", nil)
	noField := write(t, "nofield.csv", []byte("a,b\n1,2\n"))
	allBad := write(t, "bad.csv", []byte("time,key\nx,a\n"))

	with := func(from string) []string { return []string{"--from", from, "--to", "gcra:60/1m", good} }

	tests := []struct {
		args   []string
		status int
		want   string
	}{
		{with("nope:60/1m"), 2, `--from nope:60/1m: no algorithm "nope": `},
		{with("tokenbucket:60/1m"), 2, `"tokenbucket": did you mean token_bucket?`},
		{with("fixed_window"), 2, "no REQUESTS/WINDOW"},
		{with("fixed_window:-5/1m"), 2, "requests must be at least 0"},
		{with("fixed_window:x/1m"), 2, `requests "x" is not a whole number`},
		{with("fixed_window:99999999999999999999/1m"), 2, "requests 99999999999999999999 is too large"},
		{with("fixed_window:60/0s"), 2, "at least 1us"},
		{with("fixed_window:60/1"), 2, `window "1"`},
		{with("fixed_window:60/9999999999999999999d"), 2, "longer than 292 years"},
		{with("fixed_window:60/1m:burst=5"), 2, "burst belongs to buckets"},
		{with("gcra:60/1m:brust=5"), 2, `"brust=5" is not burst=N`},
		{with("gcra:60/1m:burst=5:burst=6"), 2, `burst "5:burst=6"`},
		{with("gcra:60/1m:burst=0"), 2, "burst must be at least 1"},
		{with("leaky_bucket:60/1m"), 2, "burst is missing"},
		{with("token_bucket:999983/1d"), 2, "too fine to be exact"},
		{append(with("gcra:60/1m"), "--policy", "a"), 2, "give --config"},
		{append(with("gcra:60/1m"), "--observed", "response.status"), 2, "type int: want bool"},
		{append(with("gcra:60/1m"), "--observed", ""), 2, "want a CEL expression"},
		{append(with("gcra:60/1m"), "--observed", "request.path == '/'"), 2, "--observed:1:"},
		{append(with("gcra:60/1m"), "--sweep", "depth=1"), 2, `--sweep depth=1: "depth"`},
		{append(with("gcra:60/1m"), "--sweep", "burst"), 2, "want NUMBER=VALUES"},
		{append(with("gcra:60/1m"), "--redis", "redis://127.0.0.1:1"), 2, "add --store redis"},
		{append(with("gcra:60/1m"), "--decisions", "/nowhere/x"), 2, "--decisions /nowhere/x: "},
		{append(with("gcra:60/1m"), "-Z"), 2, "no flag -Z"},
		{append(with("gcra:60/1m"), "--passwrd=hunter2"), 2, "no flag --passwrd\n"},
		{append(with("gcra:60/1m"), "--sweep", "limit="), 2, `limit "" is not a whole number`},
		{append(with("gcra:60/1m"), "--sweep", "limit=-1"), 2, "limit must be at least 0"},
		{append(with("gcra:60/1m"), "--sweep", "burst=0"), 2, "burst must be at least 1"},
		{append(with("gcra:60/1m"), "--sweep", "window=1"), 2, `window "1"`},
		{append(with("gcra:60/1m"), "--sweep", "window=0s"), 2, "at least 1us"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1..5"), 2, "a range needs a step"},
		{append(with("gcra:60/1m"), "--sweep", "limit=1..5:0"), 2, "the step must be above 0"},
		{append(with("gcra:60/1m"), "--sweep", "burst=5..1:1"), 2, "5 is more than 1"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1..9007199254740991:1"), 2, "9007199254740991 candidates, at most 500"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1..300:1,301..600:1"), 2, "600 candidates, at most 500"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1..26:1", "--sweep", "limit=1..20:1"), 2, "520, at most 500"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1,2,1"), 2, "1 is given twice"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1", "--sweep", "burst=2"), 2, "burst is given twice"},
		{append(with("gcra:60/1m"), "--html", "-"), 2, "--html: want a file"},
		{append(with("gcra:60/1m"), "--html", ""), 2, "--html: want a file"},
		{append(with("gcra:60/1m"), "--html", "/nowhere/x.html"), 2, "--html /nowhere/x.html: "},
		{append(with("gcra:60/1m"), "--html", "/"), 2, "--html /: is a folder"},
		{append(with("gcra:60/1m"), "--html", "x", "--decisions", "x"), 2, "want two files"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1", "--decisions", "x"), 2, "--decisions"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1", "--require-pass"), 2, "--require-pass"},
		{append(with("gcra:60/1m"), "--sweep", "burst=1", "--store", "redis"), 2, "--sweep judges in memory"},
		{append(with("gcra:60/1m"), "--sweep", "limit=60,999983", "--sweep", "window=1d"), 2, "gcra:999983/1d: limit refused: "},
		{[]string{"--to", "gcra:60/1m", good}, 2, "--from"},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m"}, 2, "replay needs a log"},
		{append(with("gcra:60/1m"), "-o", "yaml"), 2, "-o yaml: want text or json"},
		{append(with("gcra:60/1m"), "--nope"), 2, "no flag --nope"},
		{append(with("gcra:60/1m"), "--format", "xml"), 2, `no format "xml"`},
		{append(with("gcra:60/1m"), "--store", "disk"), 2, "--store disk: "},
		{append(with("gcra:60/1m"), "--store", "redis"), 2, "no Redis to talk to"},
		{append(with("gcra:60/1m"), "--store", "redis", "--redis", "http://:secret@x"), 2, "--redis: "},
		{append(with("gcra:60/1m"), "--store", "redis", "--redis", "redis+cluster://:secret@a b"), 2, "--redis: "},
		{append(with("gcra:60/1m"), "--store", "redis", "--redis", "redis://127.0.0.1:1"), 1, "connection refused"},
		{append(with("gcra:60/1m"), "--decisions", filepath.Join(good, "x")), 1, "not a directory"},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", "/nowhere/x.log"}, 1, "/nowhere/x.log: no such file"},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", t.TempDir()}, 1, "is a directory"},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", junk}, 1, "cannot tell the format"},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", "--format", "combined", junk}, 1, "none of 2 lines"},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", empty}, 1, "empty: "},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", noField}, 1, `no field "time"; it has a, b: `},
		{[]string{"--from", "gcra:60/1m", "--to", "gcra:60/1m", allBad}, 1, "none of 2 lines"},
	}

	for _, tt := range tests {
		status, out, talk := shell(t, "", append([]string{"replay"}, tt.args...)...)
		if status != tt.status || out != "" || !strings.Contains(talk, tt.want) {
			t.Errorf("%q: status %d, %q and %q\nwant status %d and %q", tt.args, status, out, talk, tt.status, tt.want)
		}
		if strings.Contains(talk, "secret") {
			t.Errorf("%q: a password is shown: %q", tt.args, talk)
		}
	}
}

// A Redis that does not answer is reported before the log is read.
func TestReplayReachesRedisFirst(t *testing.T) {
	log := write(t, "bad.csv", []byte("time,key\nx,a\n"))
	args := strings.Fields("replay --from gcra:60/1m --to gcra:60/1m --store redis --redis redis://127.0.0.1:1")

	status, _, talk := shell(t, "", append(args, log)...)
	if status != 1 || !strings.HasPrefix(talk, "shadowlimit: no answer from Redis: ") || !strings.Contains(talk, "check that --redis") {
		t.Errorf("status %d, %q", status, talk)
	}
}

func TestUnknownCommand(t *testing.T) {
	status, _, talk := shell(t, "", "replya")
	if status != 2 || !strings.Contains(talk, `no command "replya"`) || !strings.Contains(talk, "did you mean replay?") {
		t.Errorf("status %d, %q", status, talk)
	}

	status, _, talk = shell(t, "", "something")
	if status != 2 || !strings.Contains(talk, "the commands are: demo, replay") {
		t.Errorf("status %d, %q", status, talk)
	}
}

func TestUnknownFlag(t *testing.T) {
	status, _, talk := shell(t, "", "explain", "--requset", "{}", "p.yaml")
	if status != 2 || !strings.Contains(talk, "no flag --requset") || !strings.Contains(talk, "did you mean --request?") {
		t.Errorf("status %d, %q", status, talk)
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"", "--help", "replay --help", "replay x.log --help", "demo -h"} {
		args := strings.Fields(line)
		if status, out, talk := shell(t, "", args...); status != 0 || !strings.Contains(out, "USAGE") {
			t.Errorf("%q: status %d, %q %q", args, status, out, talk)
		}
	}
}

func TestFlagsFirst(t *testing.T) {
	commands := newApp(streams{}).Commands
	tests := []struct{ give, want string }{
		{"replay a --from x b -o json", "replay --from x -o json -- a b"},
		{"replay --from=x a", "replay --from=x -- a"},
		{"replay a --help", "replay --help"},
		{"replay - --from x", "replay --from x -- -"},
		{"replay a -- --from x", "replay -- a --from x"},
		{"replay -- -a", "replay -- -a"},
		{"alerts export a --force", "alerts export --force -- a"},
		{"alerts export --help a", "alerts export --help"},
		{"alerts other a --b", "alerts --b -- other a"},
		{"other a --b", "other a --b"},
		{"", ""},
	}

	for _, tt := range tests {
		if got := strings.Join(flagsFirst(commands, strings.Fields(tt.give)), " "); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.give, got, tt.want)
		}
	}
}

// TestInterruptEndsReplay interrupts a replay that waits for standard input.
func TestInterruptEndsReplay(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	silent, keepOpen := io.Pipe()
	defer keepOpen.Close()

	go interrupt()
	var talk bytes.Buffer
	args := strings.Fields("replay --from gcra:1/1s --to gcra:2/1s -")
	status := run(ctx, args, streams{silent, io.Discard, &talk})

	if status != 130 || talk.String() != "shadowlimit: interrupted\n" {
		t.Errorf("status %d, %q, want 130 and a word", status, talk.String())
	}
}

// BenchmarkReplay is the whole command over a combined log, on one core.
func BenchmarkReplay(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	benchmarkReplay(b, 20)
}

// BenchmarkSweep is a sweep of twenty candidates over a million lines, on all cores.
func BenchmarkSweep(b *testing.B) {
	benchmarkReplay(b, 100, "--sweep", "limit=10..200:10")
}

// benchmarkReplay replays some copies of the sample log, of ten thousand lines each.
func benchmarkReplay(b *testing.B, copies int, more ...string) {
	in, err := gzip.NewReader(bytes.NewReader(sample.Log()))
	if err != nil {
		b.Fatal(err)
	}
	once, err := io.ReadAll(in)
	if err != nil {
		b.Fatal(err)
	}

	path := filepath.Join(b.TempDir(), "access.log")
	if err := os.WriteFile(path, bytes.Repeat(once, copies), 0o600); err != nil {
		b.Fatal(err)
	}

	args := append(strings.Fields("replay --from fixed_window:60/1m --to sliding_window_counter:60/1m -o json "+path), more...)
	b.ReportAllocs()
	for b.Loop() {
		if status := run(context.Background(), args, streams{nil, io.Discard, os.Stderr}); status != 0 {
			b.Fatalf("status %d", status)
		}
	}

	b.ReportMetric(float64(copies*10_000*b.N)/b.Elapsed().Seconds(), "lines/s")
}
