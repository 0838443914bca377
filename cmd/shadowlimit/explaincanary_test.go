package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// A key has the candidate from the step on that explain names, by the rule that services go by, and not before.
func TestExplainNamesTheFirstStep(t *testing.T) {
	set, err := policies.Load("p.yaml", []byte(pinningFile))
	if err != nil {
		t.Fatal(err)
	}
	steps := []stages.State{
		{Stage: stages.Canary, Percent: 1}, {Stage: stages.Canary, Percent: 10}, {Stage: stages.Canary, Percent: 50},
		{Stage: stages.Promoted, Percent: 100},
	}
	names := []string{"canary 1 %", "canary 10 %", "canary 50 %", "promoted"}

	found := map[string]int{}
	for i := range 500 {
		user := fmt.Sprint("user-", i)
		if i == 0 {
			user = "acme"
		}
		p := explain(set, &policies.Request{User: user}).Checks[0].Canary
		found[fmt.Sprint(p.Pinned, " ", p.Enters)]++

		entered := false
		for k, state := range steps {
			entered = entered || p.Enters == names[k]
			key := evidence.Position{Hash: evidence.Hash("checkout", "writes", user), Pinned: p.Pinned}
			if got := state.Enforced("", key) == algorithms.Candidate; got != entered {
				t.Errorf("%s: %+v, but in %s the candidate is enforced: %t", user, p, names[k], got)
			}
		}
	}
	for _, want := range []string{
		"true canary 1 %", "false canary 1 %", "false canary 10 %", "false canary 50 %", "false promoted",
	} {
		if found[want] == 0 {
			t.Errorf("no key is %s: %v", want, found)
		}
	}
}

func TestExplainedCanaries(t *testing.T) {
	for _, test := range []struct{ file, user, want string }{
		{pinningFile, "acme", "canary         pinned (first); "},
		{pinningFile, "7up", `: first key[0] in`},
	} {
		file := write(t, "p.yaml", []byte(test.file))
		status, out, talk := shell(t, "", "explain", file, "--request", fmt.Sprintf(`{"user":%q}`, test.user))
		if status != exitOK || !strings.Contains(out, test.want) {
			t.Errorf("%s: status %d, no %q in\n%s%s", test.user, status, test.want, out, talk)
		}
	}
}
