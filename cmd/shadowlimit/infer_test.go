package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// deniedLog is a log of a limiter that allows each client three requests a minute, by its response.
func deniedLog() string {
	var b strings.Builder
	counts := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	for range 600 {
		at = at.Add(time.Duration(rng.IntN(9)) * time.Second)
		client := fmt.Sprintf("192.0.2.%d", rng.IntN(3))
		status, window := 200, fmt.Sprint(client, at.Truncate(time.Minute))
		if counts[window]++; counts[window] > 3 {
			status = 429
		}
		fmt.Fprintf(&b, "%s - - [%s] \"GET / HTTP/1.1\" %d 5\n", client, at.Format("02/Jan/2006:15:04:05 -0700"), status)
	}
	return b.String()
}

// The command finds the limiter of a log, and replay accepts what it prints.
func TestInferFromTheCommandLine(t *testing.T) {
	log := write(t, "access.log", []byte(deniedLog()))
	status, out, talk := shell(t, "", "replay", "--infer", "-o", "json", log)
	var report replay.InferReport
	if err := json.Unmarshal([]byte(out), &report); status != exitOK || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, talk)
	}
	if report.Best == nil || report.Best.Limiter != "fixed_window:3/1m" || report.Best.Wrong != 0 || report.Clock != "1s" {
		t.Errorf("%+v of %+v", report.Best, report)
	}

	p := replayed(t, log, "--from", report.Best.Limiter, "--to", "gcra:3/1m", "--observed", deniedByDefault).Policies[0]
	if *p.Observed.Agreement != 1 {
		t.Errorf("%+v", p.Observed)
	}

	status, out, talk = shell(t, "", "replay", "--infer", log)
	if status != exitOK || !strings.Contains(out, "best    fixed_window:3/1m\n") || !strings.Contains(out, "sure    yes") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}
}

// A flag of a comparison has no effect on a search, and a log without responses none to give.
func TestInferRefusesWhatItCannotUse(t *testing.T) {
	log := write(t, "access.log", []byte(deniedLog()))
	for args, want := range map[string]string{
		"--from gcra:1/1m":            "leave out --from",
		"--soak 3h":                   "leave out --soak",
		"--store redis":               "leave out --store",
		"--sweep burst=1,2":           "leave out --sweep",
		"--observed response.no=='x'": "no line of the log has what it reads",
	} {
		status, _, talk := shell(t, "", append([]string{"replay", "--infer", log}, strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(talk, want) {
			t.Errorf("%s: status %d, %s", args, status, talk)
		}
	}
}
