package policies_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// twoZones is a valid group of two limits, of which the second one is for writes.
const twoZones = `version: 1
name: shop
policies:
  - name: minute
    group: { name: client, charge: all_or_nothing }
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
    candidate: { algorithm: gcra, limit: 4, window: 1m }
  - name: writes
    group: { name: client }
    when: request.method == "POST"
    authoritative: { algorithm: fixed_window, limit: 2, window: 1s }
    candidate: { algorithm: gcra, limit: 2, window: 1s }
`

// oneByExpression is that group with a limit that a request has to bring.
var oneByExpression = strings.Replace(twoZones, "gcra, limit: 2,", `gcra, limit: 'int(request.headers["x-limit"])',`, 1)

// TestGroupIsOnePolicy charges a group as one policy, by the members whose conditions hold.
func TestGroupIsOnePolicy(t *testing.T) {
	set := load(t, oneByExpression)
	if len(set.Policies) != 1 || set.Policies[0].Name != "client" {
		t.Fatalf("the set has %d policies, the first %s: want the group alone", len(set.Policies), set.Policies[0].Name)
	}

	p := set.Policies[0]
	for method, want := range map[string][2]string{
		"GET": {"minute", "minute"}, "POST": {"minute writes", "minute writes"},
	} {
		r := &policies.Request{Method: method, User: "ann", Headers: map[string][]string{"X-Limit": {"3"}}}
		c, matches, err := p.Charge(context.Background(), r)
		if err != nil || !matches || c.Policy != "client" || c.Key != "ann" || c.Cost != 1 {
			t.Fatalf("%s: %+v, %t, %v", method, c, matches, err)
		}
		for role := range c.Sides {
			var names []string
			for _, m := range c.Sides[role].Group().Members {
				names = append(names, m.Name)
			}
			if got := strings.Join(names, " "); got != want[role] {
				t.Errorf("%s, the %s: members %s, want %s", method, algorithms.Role(role), got, want[role])
			}
		}
	}
}

// TestGroupWithACandidateThatFails charges a candidate that no limiter accepts, and the authoritative as it is.
func TestGroupWithACandidateThatFails(t *testing.T) {
	p := load(t, oneByExpression).Policies[0]
	c, matches, err := p.Charge(context.Background(), &policies.Request{Method: "POST", User: "ann"})
	if err != nil || !matches {
		t.Fatal(matches, err)
	}

	if err := c.Sides[algorithms.Authoritative].Validate(); err != nil {
		t.Errorf("the authoritative: %v", err)
	}
	if err := c.Sides[algorithms.Candidate].Validate(); !errors.Is(err, algorithms.ErrLimit) {
		t.Errorf("the candidate: %v, want a limit that is refused", err)
	}
}

// TestGroupWithoutAMatch charges nothing where no member's condition holds, and says so.
func TestGroupWithoutAMatch(t *testing.T) {
	set := load(t, strings.Replace(twoZones, "    key:", "    when: request.method == \"PUT\"\n    key:", 1))
	e := set.Explain(&policies.Request{Method: "GET", User: "ann"})
	if len(e.Charges) != 0 || len(e.Skipped) != 1 || !strings.Contains(e.Skipped[0].Reason, "false for every member") {
		t.Errorf("%+v, want the group skipped once", e)
	}
}

// TestGroupExplains says which members are charged by which limits, and why others are not.
func TestGroupExplains(t *testing.T) {
	e := load(t, twoZones).Explain(&policies.Request{Method: "GET", User: "ann"})
	if len(e.Charges) != 1 || len(e.Skipped) != 1 {
		t.Fatalf("%+v, want the group charged and one member skipped", e)
	}

	side := e.Charges[0].Authoritative
	if side.Algorithm != "group" || side.Options != "all_or_nothing" || len(side.Members) != 1 {
		t.Fatalf("%+v, want a group of one member", side)
	}
	if m := side.Members[0]; m.Policy != "minute" || m.Limit != 4 || m.Window != "1m" {
		t.Errorf("%+v, want the limit of minute", m)
	}
	if s := e.Skipped[0]; s.Policy != "writes" || !strings.Contains(s.Reason, "POST") {
		t.Errorf("%+v, want writes and its condition", s)
	}
}

// TestGroupsEpoch lists what starts a group's evidence over.
func TestGroupsEpoch(t *testing.T) {
	until := strings.Replace(twoZones, "all_or_nothing", "until_denied", 1)
	epoch := func(text string) string { return load(t, text).Policies[0].Epoch() }
	third := "  - name: third\n    group: { name: client }\n    authoritative: { algorithm: gcra, limit: 9, window: 1h }\n" +
		"    candidate: { algorithm: gcra, limit: 9, window: 1h, id: slow }\n"

	for change, text := range map[string]string{
		"charge":     until,
		"member":     twoZones + third,
		"limit":      strings.Replace(twoZones, "limit: 4", "limit: 5", 1),
		"condition":  strings.Replace(twoZones, `"POST"`, `"PUT"`, 1),
		"name":       strings.Replace(twoZones, "name: writes", "name: posts", 1),
		"key":        strings.Replace(twoZones, "request.user", "request.ip", 1),
		"one as two": strings.Replace(twoZones, "limit: 2, window: 1s", "limit: 2, window: 2s", 1),
	} {
		if epoch(text) == epoch(twoZones) {
			t.Errorf("%s: the epoch stays, want another one", change)
		}
	}

	if epoch(swapped(twoZones)) != epoch(twoZones) {
		t.Error("all_or_nothing: another order has another epoch, and decides alike")
	}
	if epoch(swapped(until)) == epoch(until) {
		t.Error("until_denied: another order has the same epoch, and decides otherwise")
	}
}

// swapped returns a file of two members with the two in the other order.
func swapped(text string) string {
	head, rest, _ := strings.Cut(text, "  - name: minute\n")
	first, second, _ := strings.Cut(rest, "  - name: writes\n")
	_, charge, _ := strings.Cut(first, "name: client, charge: ")
	charge, _, _ = strings.Cut(charge, " }")
	first = strings.Replace(first, ", charge: "+charge, "", 1)
	first = strings.Replace(first, "    key: request.user\n", "", 1)
	second = strings.Replace(second, "client }", "client, charge: "+charge+" }\n    key: request.user", 1)
	return head + "  - name: writes\n" + second + "  - name: minute\n" + first
}

// TestGroupRefuses lists what contradicts: each is an error at its place that says what to do.
func TestGroupRefuses(t *testing.T) {
	member := func(n int, rest string) string {
		return "  - name: m" + string(rune('0'+n)) + "\n    group: { name: client }\n" +
			"    authoritative: { algorithm: fixed_window, limit: 2, window: 1s }\n    candidate: { algorithm: gcra, limit: 2, window: 1s }\n" + rest
	}
	many := twoZones
	for n := range 7 {
		many += member(n, "")
	}
	replace := func(old, text string) string {
		changed := strings.Replace(twoZones, old, text, 1)
		if changed == twoZones {
			t.Fatalf("the file has no %q", old)
		}
		return changed
	}

	for name, bad := range map[string]struct {
		text         string
		line, column int
		message      string
	}{
		"key": {
			twoZones + member(0, "    key: request.ip\n"),
			18, 10, "key: group client has one for all members, and minute in line 4",
		},
		"cost":      {twoZones + member(0, "    cost: 2\n"), 18, 11, "cost: group client has one"},
		"failure":   {twoZones + member(0, "    on_store_failure: deny\n"), 18, 23, "on_store_failure: group client has one"},
		"on error":  {twoZones + member(0, "    on_error: deny\n"), 18, 15, "on_error: group client has one"},
		"promotion": {twoZones + member(0, "    promotion: { mode: automatic }\n"), 18, 16, "promotion: group client has one"},
		"another way": {
			replace("group: { name: client }", "group: { name: client, charge: until_denied }"),
			10, 36, "is charged all_or_nothing",
		},
		"no candidate": {replace("    candidate: { algorithm: gcra, limit: 2, window: 1s }\n", ""), 9, 5, "writes has no candidate"},
		"a candidate":  {replace("    candidate: { algorithm: gcra, limit: 4, window: 1m }\n", ""), 12, 16, "writes has a candidate"},
		"foreign": {
			replace("{ algorithm: gcra, limit: 4, window: 1m }", "{ limiter: mine }"),
			8, 16, "the limiter mine is no member",
		},
		"a log": {
			replace("{ algorithm: gcra, limit: 4", "{ algorithm: sliding_window_log, limit: 4"),
			8, 29, "take sliding_window_counter",
		},
		"count_denied": {
			replace("limit: 2, window: 1s", "limit: 2, window: 1s, count_denied: true"),
			12, 83, "or charge the group until_denied",
		},
		"forget": {
			replace("gcra, limit: 2, window: 1s", "gcra, limit: size(request.user), window: 1s, forget: 1m"),
			13, 82, "leave forget out",
		},
		"stores": {replace("limit: 2, window: 1s", "limit: 2, window: 1s, store: far"), 12, 20, "lies in one store"},
		"nested": {
			replace("charge: all_or_nothing", "charge: all_or_nothing, group: { name: all }"),
			5, 59, "a group is no member of a group",
		},
		"too many": {many, 38, 5, "more than 8 members"},
		"one name": {replace("name: client, charge", "name: minute, charge"), 5, 12, `two policies are named "minute"`},
		"other name": {
			twoZones + "  - name: client\n    key: request.ip\n    authoritative: { algorithm: gcra, limit: 9, window: 1h }\n",
			14, 5, `two policies are named "client"`,
		},
		"charge":    {replace("all_or_nothing", "all_or_nothin"), 5, 36, "did you mean all_or_nothing?"},
		"no charge": {replace(", charge: all_or_nothing", ""), 5, 12, `a group needs "charge"`},
		"no key":    {replace("    key: request.user\n", ""), 4, 5, `a policy needs "key"`},
		"ids":       {replace("{ algorithm: gcra, limit: 4", "{ algorithm: gcra, id: fixed_window, limit: 4"), 0, 0, ""},
	} {
		_, err := policies.Load("file.yaml", []byte(bad.text))
		var problems *policies.Problems
		errors.As(err, &problems)
		switch {
		case bad.message == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case bad.message == "":
		case problems == nil:
			t.Errorf("%s: loaded, want %s", name, bad.message)
		default:
			p := problems.List[0]
			if p.Line != bad.line || p.Column != bad.column || !strings.Contains(p.Message, bad.message) {
				t.Errorf("%s: %d:%d: %s, want %d:%d: %s", name, p.Line, p.Column, p.Message, bad.line, bad.column, bad.message)
			}
		}
	}
}

// TestGroupOfOneWarns warns where a group says nothing, and of a side that both share.
func TestGroupOfOneWarns(t *testing.T) {
	one, _, _ := strings.Cut(twoZones, "  - name: writes\n")
	set := load(t, one)
	if len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0].Message, "group client has one member") {
		t.Errorf("%v, want one warning of the one member", set.Warnings)
	}

	same := strings.ReplaceAll(one, "gcra", "fixed_window")
	if _, err := policies.Load("f", []byte(same)); err == nil || !strings.Contains(err.Error(), "both sides of client have the id") {
		t.Errorf("two sides of one id: %v", err)
	}
}

// TestChargesOfAGroupNeedNoNewGroup makes no group a second time where all limits are constant.
func TestChargesOfAGroupNeedNoNewGroup(t *testing.T) {
	p := load(t, twoZones).Policies[0]
	r := &policies.Request{Method: "POST", User: "ann"}
	first, _, _ := p.Charge(context.Background(), r)
	second, _, _ := p.Charge(context.Background(), r)
	if first.Sides != second.Sides {
		t.Error("two charges of the same members have two groups")
	}
}
