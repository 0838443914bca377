package main

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A pattern stands for the policies that it matches. Each is moved by its own conditions, and those that are not are named.
func TestPatternsOfPolicies(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	file := "version: 1\nname: checkout\npolicies:\n"
	for _, name := range []string{"api-a", "api-b", "writes"} {
		file += "  - name: " + name + `
    labels: { kind: ` + name[:3] + ` }
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 2, window: 1h }
`
	}
	instanceOf(t, server, "a", file)
	client, err := openRedis("redis://"+server.Addr(), demo.Budget)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := stages.NewRedisStore(client, "checkout")

	stagesOf := func() (list []stages.Stage) {
		states, err := store.States(t.Context(), []string{"api-a", "api-b", "writes"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			list = append(list, s.Stage)
		}
		return list
	}
	for _, tt := range []struct {
		args string
		want int
		says []string
	}{
		{"rollback api-* --reason x --timeout 1s --expect 1.1", exitUsage, []string{"--expect"}},
		{"rollback nobody-* --reason x", exitFailure, []string{"api-a, api-b, writes"}},
		{"rollback api-[ --reason x", exitUsage, []string{"api-["}},
		{"rollback --reason x", exitUsage, []string{"api-*"}},
		{"promote api-a --reason x --joint 5%", exitUsage, []string{"--joint"}},
		{"promote api-* --reason x --joint 100%", exitUsage, []string{"--joint"}},
		{"promote api-* --reason x --joint 0.05", exitUsage, []string{"--joint"}},
		{"promote api-* --reason x --joint 5% --force", exitUsage, []string{"--joint", "--force"}},
		{"promote api-* --reason x --joint 5%", exitNotMet, []string{"not for 2 of 2 policies: api-a, api-b", "nothing has been compared"}},
		{"rollback api-* api-a --reason x --timeout 1s", exitOK, []string{"api-a: ", "api-b: "}},
		{"promote writes api-a --reason x --force --to 10% --timeout 1s", exitNotMet, []string{"api-a: ", "not for 1 of 2 policies: api-a"}},
		{"status api-*", exitOK, []string{"\napi-a ", "\napi-b "}},
		{"rollback --label kind=wri --reason x --timeout 1s", exitOK, []string{"writes: "}},
		{"rollback --label kind=wri --reason x --expect 1.1", exitUsage, []string{"--expect"}},
		{"rollback writes --label kind=wri --reason x", exitUsage, []string{"--label"}},
		{"rollback --label kind --reason x", exitUsage, []string{"NAME=TEXT"}},
		{"rollback --label kind=w --reason x", exitFailure, []string{"kind=w", "api-a, api-b, writes"}},
		{"forget --label kind=wri", exitNotMet, []string{"still on a-"}},
		{"status --label kind=api", exitOK, []string{"\napi-a ", "\napi-b "}},
	} {
		status, out, talk := shell(t, "", strings.Fields(tt.args)...)
		for _, want := range tt.says {
			if status != tt.want || !strings.Contains(out+talk, want) {
				t.Errorf("%s: status %d, want %d with %q:\n%s%s", tt.args, status, tt.want, want, out, talk)
			}
		}
	}
	if got := stagesOf(); got[0] != stages.RolledBack || got[1] != stages.RolledBack || got[2] != stages.RolledBack {
		t.Errorf("the stages are %v", got)
	}
}
