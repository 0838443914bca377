package main

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

func TestDoctor(t *testing.T) {
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	tell(t, inside.Stages(h), stages.Instance{ID: "loose", Client: []string{"MaxRetries is 3: set -1"}})

	status, out, talk := shell(t, "", "doctor")
	for _, want := range []string{
		"ok       connection: ", "version: miniredis", "memory: ",
		"ok       access: ",
		"loose: MaxRetries is 3: set -1",
	} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s%s", status, want, out, talk)
		}
	}

	if after := server.Dump(); strings.Contains(after, "~doctor-") {
		t.Errorf("it leaves something behind:\n%s", after)
	}

	status, out, _ = shell(t, "", "doctor", "-o", "json")
	var r doctor.Report
	decoded(t, out, &r)
	if status != 0 || r.Name != "checkout" || r.Problems != 0 || r.Warnings == 0 {
		t.Errorf("status %d, %s", status, out)
	}
}

// Rights and instances belong to a service: without one they are not checked.
func TestDoctorOfAServerOnly(t *testing.T) {
	t.Setenv("SHADOWLIMIT_NAME", "")
	status, out, _ := shell(t, "", "doctor", "--redis", "redis://"+miniredis.RunT(t).Addr())
	serviceChecks := strings.Contains(out, "access") || strings.Contains(out, "instance")
	if status != 0 || !strings.Contains(out, "latency") || serviceChecks {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestDoctorRefuses(t *testing.T) {
	t.Setenv("SHADOWLIMIT_NAME", "")

	for args, want := range map[string]string{
		"doctor x --redis redis://127.0.0.1:1":         "no arguments",
		"doctor --redis redis://127.0.0.1:1 --name a*": "--name",
		"doctor --redis redis://127.0.0.1:1 -o csv":    "want text or json",
	} {
		status, _, talk := shell(t, "", strings.Fields(args)...)
		if status != exitUsage || !strings.Contains(talk, want) {
			t.Errorf("%s: status %d: %s", args, status, talk)
		}
	}
}

func TestDoctorKnowsThePassword(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("secret")

	for url, want := range map[string]string{
		"redis://":         "problem  connection: ",
		"redis://:wrong@":  "problem  connection: ",
		"redis://:secret@": "ok       connection: ",
	} {
		if _, out, _ := shell(t, "", "doctor", "--redis", url+server.Addr()); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in %s", url, want, out)
		}
	}
}
