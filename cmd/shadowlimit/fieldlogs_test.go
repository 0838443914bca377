package main

import (
	"strings"
	"testing"
)

// Logs that were counted wrongly once, without a word: clients behind a CDN that --map names, clients in the first field, and requests
// that a balancer answers late. The counts are what both sides decide alike and not alike.
func TestLogsOfTheField(t *testing.T) {
	const folder = "../../internal/accesslog/testdata/field/"
	tests := []struct {
		name, log string
		flags     []string
		want      map[string]float64
	}{
		{"an ALB's time is the request's", "log-alb-slow.log.gz", nil, map[string]float64{
			"keys": 3, "agree_allow": 197, "agree_deny": 4, "newly_denied": 11, "newly_allowed": 28,
		}},
		{"X-Forwarded-For first", "log-xff-first.log", nil, map[string]float64{"keys": 3}},
		{"--map of a text log", "log-cdn-edge.log", []string{"--map", "request.ip=headers.x-forwarded-for"}, map[string]float64{"keys": 3}},
		{"--map and --observed", "log-cdn-edge.log", []string{
			"--map", "request.ip=headers.x-forwarded-for", "--observed", "response.status == 429",
		}, map[string]float64{"keys": 3}},
	}
	for _, tt := range tests {
		args := append([]string{"replay", "--from", "fixed_window:20/1m", "--to", "token_bucket:20/1m:burst=10", "-o", "json"}, tt.flags...)
		status, out, talk := shell(t, "", append(args, folder+tt.log)...)
		if status != exitOK || strings.Contains(talk, "skipped") || strings.Contains(talk, "--trusted-proxies") {
			t.Errorf("%s: status %d: %s", tt.name, status, talk)
			continue
		}
		counts := countsIn(object(t, out))
		for name, want := range tt.want {
			if counts[name] != want {
				t.Errorf("%s: %s is %v, want %v", tt.name, name, counts[name], want)
			}
		}
	}
}
