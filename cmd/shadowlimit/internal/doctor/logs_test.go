package doctor

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Instances announce a side as a text. What its logs take is read from there as the policy file would tell it.
func TestLogBytesAreThoseOfTheSide(t *testing.T) {
	for fields, here := range map[string]bool{
		"algorithm: sliding_window_log, limit: 300, window: 1m":                  true,
		"algorithm: sliding_window_log, limit: 30000, window: 1m":                true,
		"algorithm: sliding_window_log, limit: 'size(request.user)', window: 1m": true,
		"algorithm: sliding_window_log, limit: 300, window: 1m, store: other":    false,
		"algorithm: sliding_window_counter, limit: 300, window: 1m":              true,
	} {
		set, err := policies.Load("p.yaml", []byte("version: 1\nname: a\npolicies:\n  - name: p\n    key: request.user\n"+
			"    authoritative: { "+fields+" }\n"))
		if err != nil {
			t.Fatal(err)
		}

		side := set.Policies[0].Sides[0]
		want := side.LargestLog()
		if !here {
			want = 0
		}
		if got := logBytes(side.String()); got != want {
			t.Errorf("%s: %d bytes, want %d", side, got, want)
		}
	}
}

// The sum of all policies is compared with the memory of all servers.
func TestLogsAreComparedWithMaxmemory(t *testing.T) {
	policy := func(name, side string, keys int64) (a promotion.Assessment) {
		a.Spec.Policy, a.Spec.Candidate = name, side
		a.Evidence.History.Distinct[divergence.KeysSeen] = keys
		return a
	}
	server := func(maxmemory string) *node { return &node{info: pairs([]string{"maxmemory", maxmemory})} }
	log := []promotion.Assessment{ // 16 MB and 32 MB
		policy("a", "sliding_window_log:100/1m", 1000), policy("b", "sliding_window_log:100/1m", 2000), policy("c", "gcra:9/1m", 5e6),
	}

	for _, tt := range []struct {
		policies []promotion.Assessment
		nodes    []*node
		level    string
		want     string
	}{
		{log, []*node{server("60000000")}, fine, "may take 46 MiB, most of it policy b with 2,000 keys of 57 MiB"},
		{log, []*node{server("50000000")}, warning, "46 MiB, most of it policy b with 2,000 keys; maxmemory is 48 MiB"},
		{log, []*node{server("30000000"), server("30000000")}, fine, "of 57 MiB"},
		{log, []*node{server("30000000"), server("0")}, fine, "not known or not set"},
		{log, []*node{{}}, fine, "not known or not set"},
	} {
		list := logs(tt.policies, tt.nodes)
		if len(list) != 1 || list[0].Level != tt.level || !strings.Contains(list[0].Message, tt.want) {
			t.Errorf("%+v, want %s: %s", list, tt.level, tt.want)
		}
	}

	if list := logs(log[2:], []*node{server("1")}); len(list) != 0 {
		t.Errorf("without a log: %+v", list)
	}
}
