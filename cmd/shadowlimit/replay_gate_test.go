package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/sample"
)

// gateJSON is what a replay reports of the gate.
type gateJSON struct {
	Gate struct {
		Verdict                               string
		Strikes                               int
		Divergence, NewlyDenied, NewlyAllowed struct{ Ratio, Score float64 }
	}
	PassedAt *time.Time `json:"passed_at"`
	FailedAt *time.Time `json:"failed_at"`
	Strikes  []struct {
		From, To   time.Time
		Ratio      string
		Value, Cap float64
	}
	Verdicts []struct {
		At              time.Time
		Verdict, Reason string
	}
	Proposed map[string]*float64
	Hurt     struct {
		Keys  int64
		Share float64
		Worst string  `json:"worst_key"`
		Loses float64 `json:"worst_share"`
	}
}

func replayGate(t *testing.T, args ...string) gateJSON {
	t.Helper()
	status, out, talk := shell(t, "", append([]string{"replay", "-o", "json"}, args...)...)

	// The gate's names have underscores, which a struct matches only by tags.
	out = strings.ReplaceAll(out, `"newly_denied": {`, `"NewlyDenied": {`)
	out = strings.ReplaceAll(out, `"newly_allowed": {`, `"NewlyAllowed": {`)

	var r struct{ Policies []gateJSON }
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || len(r.Policies) != 1 {
		t.Fatalf("%q: status %d, %v, %s", args, status, err, talk)
	}
	return r.Policies[0]
}

func TestReplayProposesThresholdsThatPass(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	args := []string{"--from", "fixed_window:20/1m", "--to", "fixed_window:18/1m", log}

	before := replayGate(t, args...)
	if before.Gate.Verdict != "wait" || before.PassedAt != nil {
		t.Fatalf("%s, passed at %v: this test needs a candidate that has to wait", before.Gate.Verdict, before.PassedAt)
	}

	for ratio, v := range before.Proposed {
		args = append(args, fmt.Sprintf("--%s=%g%%", strings.ReplaceAll(ratio, "_", "-"), 100**v))
	}

	after := replayGate(t, args...)
	if after.Gate.Verdict != "pass" || after.PassedAt == nil || len(after.Strikes) > 0 {
		t.Errorf("by %q: %s, passed at %v, strikes %v", args, after.Gate.Verdict, after.PassedAt, after.Strikes)
	}
}

func TestReplayProposesNothingForAnotherLimit(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	tests := []struct {
		to   string
		none string
	}{
		{"fixed_window:1000000/1m", "newly_allowed"}, // always allow
		{"fixed_window:1/365d", "newly_denied"},      // always deny
	}

	for _, tt := range tests {
		p := replayGate(t, "--from", "fixed_window:20/1m", "--to", tt.to, log)
		if v, ok := p.Proposed[tt.none]; !ok || v != nil || len(p.Proposed) != 4 {
			t.Errorf("%s: proposed %v, want null for %s", tt.to, p.Proposed, tt.none)
		}

		if p.PassedAt != nil || p.FailedAt == nil || len(p.Strikes) != p.Gate.Strikes {
			t.Errorf("%s: passed at %v, failed at %v, %d strikes of %d",
				tt.to, p.PassedAt, p.FailedAt, len(p.Strikes), p.Gate.Strikes)
		}

		last := p.Verdicts[len(p.Verdicts)-1]
		if last.Verdict != p.Gate.Verdict || !last.At.Equal(*p.FailedAt) {
			t.Errorf("%s: the last verdict is %+v, the gate's %s", tt.to, last, p.Gate.Verdict)
		}

		for _, s := range p.Strikes {
			if s.Value <= s.Cap || s.To.Sub(s.From) < time.Hour {
				t.Errorf("%s: strike %+v", tt.to, s)
			}
		}
	}
}

// A key counts as denied from the minute of its first denial. This log has a new key every two
// hours, so the 20th key is denied in the hour that ends 39 hours after the log's start.
func TestReplayKnowsDeniedKeysInTime(t *testing.T) {
	const start = 1_700_006_400 // midnight
	events := "t_s,key\n"
	for hour := range 60 {
		for range 30 {
			events += fmt.Sprintf("%d,k%d\n", start+3600*hour+60, hour/2)
		}
	}

	log := write(t, "events.csv", []byte(events))
	p := replayGate(t, "--from", "fixed_window:10/1m", "--to", "fixed_window:10/1m", log)
	if len(p.Verdicts) < 2 || p.Verdicts[0].Verdict != "insufficient_evidence" || p.Verdicts[1].Verdict != "wait" {
		t.Fatalf("verdicts %+v: want keys to be missing, then time", p.Verdicts)
	}

	if got, want := p.Verdicts[1].At, time.Unix(start, 0).Add(39*time.Hour); !got.Equal(want) {
		t.Errorf("20 keys denied at %s, want %s", got, want)
	}
}

func TestReplayReportsTheGate(t *testing.T) {
	const log = "../../internal/sample/elastic-2015.access.log.gz"

	tests := []struct {
		args   string
		status int
		want   string
	}{
		{"--from fixed_window:20/1m --to sliding_window_counter:20/1m --require-pass", 0, `"verdict": "pass"`},
		{"--from fixed_window:20/1m --to sliding_window_counter:10/1m --require-pass", 3, `"verdict": "fail"`},
		{"--from fixed_window:20/1m --to sliding_window_counter:10/1m", 0, `"verdict": "fail"`},
		{"--from fixed_window:20/1m --to sliding_window_counter:20/1m --soak 96h", 0, `"verdict": "wait"`},
		{
			"--from fixed_window:2000/1m --to sliding_window_counter:2000/1m --require-pass", 3,
			`"verdict": "insufficient_evidence"`,
		},
		{
			"--from fixed_window:20/1m --to token_bucket:20/1m:burst=20 " +
				"--divergence 30% --newly-denied 9.5% --newly-allowed 99%",
			0, `"threshold": 0.095`,
		},
		{"--from fixed_window:20/1m --to gcra:20/1m --divergence 2", 2, ""},
		{"--from fixed_window:20/1m --to gcra:20/1m --soak 90s", 2, ""},
		{"--from fixed_window:20/1m --to gcra:20/1m --soak 90d", 2, ""},
	}

	for _, tt := range tests {
		status, out, talk := shell(t, "", append(strings.Fields("replay -o json "+tt.args), log)...)
		if status != tt.status || !strings.Contains(out, tt.want) {
			t.Errorf("%s: status %d, want %d with %s:\n%s%s", tt.args, status, tt.status, tt.want, out, talk)
		}
	}
}

// A line of a device whose clock was not set, or one of days later, is no soak.
func TestReplayOfStrayLines(t *testing.T) {
	var day strings.Builder
	for minute := range 24 * 60 {
		at := time.Date(2026, 3, 2, 0, minute, 0, 0, time.UTC).Unix()
		for range 12 {
			fmt.Fprintf(&day, "{\"t_s\":%d,\"key\":\"k%d\"}\n", at, minute%40)
		}
	}

	for name, stray := range map[string]string{
		"none": "", "1970": `{"t_s":0,"key":"k1"}`, "later": `{"t_s":1772900000,"key":"k1"}`,
	} {
		log := write(t, "log", []byte(day.String()+stray+"\n"))
		args := []string{"replay", "--require-pass", "--from", "fixed_window:10/1m", "--to", "fixed_window:10/1m", "-o", "json", log}
		status, out, talk := shell(t, "", args...)
		if status != exitNotMet || !strings.Contains(out, `"verdict": "wait"`) {
			t.Errorf("%s: status %d, %s", name, status, talk)
		}
		if stray != "" && (!strings.Contains(out, "an hour") || !strings.Contains(talk, "warning: ")) {
			t.Errorf("%s: no warning in %s\n%s", name, talk, out)
		}
	}
}

// Thresholds describe the candidate that was asked about: by none of them the same one with three quarters of the limit passes,
// and half of the limit has none.
func TestReplayProposesForNoOtherLimit(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	sides := func(to string) []string { return []string{"--from", "fixed_window:20/1m", "--to", to, log} }

	half := replayGate(t, sides("fixed_window:10/1m")...)
	if half.Proposed["newly_denied"] != nil || half.Proposed["divergence"] != nil {
		t.Errorf("for half of the limit: %v", half.Proposed)
	}
	if text := half.Hurt; text.Keys != 79 || text.Worst == "" || text.Loses < 0.4 || text.Share < 0.04 {
		t.Errorf("half of the limit hurts %+v, want 79 keys, and one that loses half", text)
	}

	for _, name := range []string{"fixed_window", "sliding_window_counter"} {
		whole := replayGate(t, sides(name+":20/1m")...)
		args := sides(name + ":15/1m")
		for ratio, v := range whole.Proposed {
			if v != nil {
				args = append(args, fmt.Sprintf("--%s=%g%%", strings.ReplaceAll(ratio, "_", "-"), 100**v))
			}
		}
		if less := replayGate(t, args...); whole.Proposed["newly_denied"] == nil || less.Gate.Verdict == "pass" || less.PassedAt != nil {
			t.Errorf("%s: by %v three quarters of the limit has %s", name, whole.Proposed, less.Gate.Verdict)
		}
	}
}
