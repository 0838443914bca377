package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Formats that have the status of the response give it, under whatever name. The others are refused.
func TestObservedStatusOfFormats(t *testing.T) {
	with := map[string]int64{
		"alb.log": 2, "caddy.jsonl": 2, "cloudfront.log": 2, "combined.log": 3, "common.log": 2, "compose.log": 2, "containerd.log": 2,
		"docker.jsonl": 2, "ecs.jsonl": 1, "elb.log": 2, "envoy.jsonl": 2, "google_cloud.jsonl": 2, "haproxy.log": 3, "iis.log": 1,
		"nginx.jsonl": 2, "nginx_main.log": 4, "traefik.jsonl": 2, "vhost_combined.log": 2,
	}
	args := []string{"--from", "fixed_window:5/1m", "--to", "fixed_window:5/1m", "--observed", "response.status >= 200"}
	for name, want := range with {
		p := replayed(t, append(args, filepath.Join("../../internal/accesslog/testdata", name))...).Policies[0]
		if p.Observed == nil || p.Observed.Requests != want || p.Observed.ModelAllows != want {
			t.Errorf("%s: %+v, want %d requests that the log denied and the model allows", name, p.Observed, want)
		}
	}

	for _, name := range []string{"comma.csv", "zeek.tsv", "nginx_duration.jsonl"} {
		status, _, talk := shell(t, "", append([]string{"replay", filepath.Join("../../internal/accesslog/testdata", name)}, args...)...)
		if status != exitUsage || !strings.Contains(talk, "no line of the log") {
			t.Errorf("%s: status %d, %q, want a refusal", name, status, talk)
		}
	}
}

// limited is a log of a limiter that allows two requests a minute and names what it does.
const limited = `t_s,key,ip,limit_req_status,status
1700000000,a,192.0.2.1,PASSED,200
1700000001,a,192.0.2.1,PASSED,200
1700000002,a,192.0.2.1,REJECTED,503
1700000003,a,192.0.2.1,REJECTED,503
1700000004,b,192.0.2.2,PASSED,500
1700000005,b,192.0.2.2,,
`

func TestReplayComparesTheModelWithTheLog(t *testing.T) {
	log := write(t, "log.csv", []byte(limited))
	from := func(limiter string) []string {
		return []string{log, "--from", limiter, "--to", "gcra:1/1m", "--observed", `response.status == 503`}
	}
	report := replayed(t, from("fixed_window_anchored:2/1m")...)
	if o := report.Policies[0].Observed; o.Agree != 5 || o.Unknown != 1 || *o.Agreement != 1 || len(report.Warnings) > 0 {
		t.Errorf("%+v, warnings %q, want agreement", o, report.Warnings)
	}

	report = replayed(t, from("fixed_window_anchored:1/1m")...)
	o := report.Policies[0].Observed
	if o.ModelDenies != 1 || o.KeysModelDenied[0].Key != "a" || o.Hours[0].From.Format("15:04") != "22:00" {
		t.Errorf("%+v, want a request of a that the model denies", o)
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "33.3 %") {
		t.Errorf("warnings %q", report.Warnings)
	}

	args := append([]string{"replay"}, from("fixed_window_anchored:1/1m")...)
	_, text, talk := shell(t, "", append(args, "--sweep", "limit=1,2")...)
	if !strings.Contains(talk, "warning: policy replay: ") {
		t.Errorf("no warning in %q", talk)
	}
	parts := []string{"80 % of 5 requests", "1 request without", "model alone: 1, 33.3 %", "2023-11-14 22:00  1 of 5 requests"}
	if missing := firstMissing(text, parts); missing != "" {
		t.Errorf("no %q in\n%s", missing, text)
	}

	// Any field of the log can say it; and with policies one of them must be named.
	named := append(from("fixed_window_anchored:2/1m")[:5], "--observed", `response.limit_req_status == "REJECTED"`)
	if o := replayed(t, named...).Policies[0].Observed; o.Agree < 5 || o.ModelDenies+o.ModelAllows > 0 {
		t.Errorf("by the field of nginx %+v, want agreement", o)
	}
	file := write(t, "p.yaml", []byte(twoCandidates))
	config := []string{"--config", file, log, "--observed", "response.status == 503"}
	if o := replayed(t, append(config, "--policy", "a")...).Policies[0].Observed; o == nil || o.ModelAllows != 2 {
		t.Errorf("of a policy %+v, want two that the model allows", o)
	}
	status, _, talk := shell(t, "", append([]string{"replay"}, config...)...)
	if status != exitUsage || !strings.Contains(talk, "--observed is for one policy") {
		t.Errorf("status %d, %q", status, talk)
	}
}
