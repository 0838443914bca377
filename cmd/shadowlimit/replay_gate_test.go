package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/sample"
)

// midnight is when the made logs begin, in seconds.
const midnight = 1_700_006_400

// hourly is a log with a burst of some keys in each hour: 80 requests of each, all in one minute.
func hourly(hours int, keys func(hour int) []string) []byte {
	var b strings.Builder
	b.WriteString("t_s,key\n")
	for hour := range hours {
		for _, key := range keys(hour) {
			for range 80 {
				fmt.Fprintf(&b, "%d,%s\n", midnight+3600*hour, key)
			}
		}
	}
	return []byte(b.String())
}

func checkAt(t *testing.T, what string, got *time.Time, hours int) {
	t.Helper()
	if want := time.Unix(midnight, 0).Add(time.Duration(hours) * time.Hour); got == nil || !got.Equal(want) {
		t.Errorf("%s at %v, want %v", what, got, want.UTC())
	}
}

// Two limiters that are the same take each step as soon as enough time has been seen, and a dwell after the one before.
func TestReplayTakesEachStep(t *testing.T) {
	log := write(t, "log.csv", hourly(170, func(int) []string { return []string{"a", "b", "c", "d", "e"} }))
	same := []string{"--from", "fixed_window:60/1m", "--to", "fixed_window:60/1m", log}
	p := replayed(t, same...).Policies[0]
	checkAt(t, "the first step", p.PassedAt, 48)
	checkAt(t, "promoted", p.PromotedAt, 168)

	// Evidence for all keys takes longer than 60 hours.
	p = replayed(t, append(same, "--soak", "60h")...).Policies[0]
	checkAt(t, "the first step with a soak", p.PassedAt, 60)
	if p.PromotedAt == nil || p.PromotedAt.Unix() <= midnight+63*3600 || p.PromotedAt.Unix() >= midnight+168*3600 {
		t.Errorf("promoted with a soak at %v", p.PromotedAt)
	}
	status, out, _ := shell(t, "", append([]string{"replay"}, same...)...)
	if missing := firstMissing(out, []string{"canary 1 % at 2023-11-17 00:00", "promoted at 2023-11-22 00:00"}); status != 0 || missing != "" {
		t.Errorf("status %d, no %q in\n%s", status, missing, out)
	}

	p = replayed(t, append(same, "--soak", "169h")...).Policies[0]
	checkAt(t, "the first step before the end", p.PassedAt, 169)
	if p.Gate.Verdict != gate.Pass || p.PromotedAt != nil {
		t.Errorf("%s, promoted at %v: the log ends before the dwell", p.Gate.Verdict, p.PromotedAt)
	}
}

// A key counts as denied from the minute of its first denial. This log has a new key every twelve hours, so the fifth is denied in the
// hour that ends 49 hours after the log's start.
func TestReplayKnowsDeniedKeysInTime(t *testing.T) {
	log := write(t, "log.csv", hourly(60, func(hour int) []string { return []string{fmt.Sprint("k", hour/12)} }))
	p := replayed(t, "--from", "fixed_window:60/1m", "--to", "fixed_window:60/1m", "--soak", "40h", log).Policies[0]
	checkAt(t, "the first step", p.PassedAt, 49)
}

// Candidates that allow or deny everything take no step.
func TestReplayOfUselessCandidates(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	for _, to := range []string{"fixed_window:1000000/1m", "fixed_window:1/365d"} {
		p := replayed(t, "--from", "fixed_window:20/1m", "--to", to, "--newly-allowed", "99%", log).Policies[0]
		if p.PassedAt != nil || p.PromotedAt != nil || p.Gate.Verdict == gate.Pass {
			t.Errorf("%s: %s, passed at %v", to, p.Gate.Verdict, p.PassedAt)
		}
	}
}

// Where the policy charges nothing the reason is about the log, and not about the service.
func TestReplayOfNothing(t *testing.T) {
	config := write(t, "p.yaml", []byte(plain(`request.user == "nobody"`, "request.user")))
	_, out, _ := shell(t, tenants, "replay", "--config", config, "-", "-o", "json")
	var report struct {
		Policies []struct {
			Gate gate.Result
		}
	}
	decoded(t, out, &report)
	g := report.Policies[0].Gate
	if g.Verdict != gate.Wait || !strings.Contains(g.Reason, "of the log") || g.Met() == len(g.Conditions) {
		t.Errorf("%s: %s", g.Verdict, g.Reason)
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
		{"--from fixed_window:2000/1m --to sliding_window_counter:2000/1m --require-pass", 3, `"verdict": "wait"`},
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

// Half of the limit hurts many, and the report says whom.
func TestReplaySaysWhomHalfOfTheLimitHurts(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	half := replayed(t, "--from", "fixed_window:20/1m", "--to", "fixed_window:10/1m", log).Policies[0].Hurt
	if half.Keys != 79 || half.Worst == "" || half.Loses < 0.4 || half.Share < 0.04 {
		t.Errorf("half of the limit hurts %+v, want 79 keys, and one that loses half", half)
	}
}
