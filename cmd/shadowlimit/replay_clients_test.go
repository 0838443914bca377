package main

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// losersFile gives each tenant a limit of its own by the candidate, so that what each loses is known. The crawler has less
// than half of its limit in the first half of each hour, and all of it in the second.
const losersFile = `version: 1
name: shop
data:
  limits: { loses-50: 50, loses-20: 64, loses-10: 81, loses-5: 95, loses-4: 96, loses-all-of-few: 1, batch: 50 }
policies:
  - name: tenants
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 100, window: 1h }
    candidate:
      id: next
      algorithm: fixed_window
      limit: 'request.user == "crawler" && request.time.getMinutes() < 30 ? 49 : data.limits[?request.user].orValue(100)'
      window: 1h
promotion:
  newly_denied: 50%
  newly_allowed: 90%
  divergence: 50%
  min_denied_keys: 1
  expected: [{ when: 'request.user == "batch"', direction: newly_denied, until: 2999-01-01, owner: team }]
`

// losers are the requests of each tenant within the hour.
var losers = map[string]int{
	"loses-50": 100, "loses-20": 80, "loses-10": 90, "loses-5": 100, "loses-4": 100, "loses-none": 100, "loses-all-of-few": 49,
	"batch": 100, "crawler": 200,
}

// losersLog has as many of these hours, and one request of the next.
func losersLog(hours int) string {
	const began = 1_700_000_000 / 3600 * 3600
	log := []byte("t_s,user\n")
	for hour := range hours {
		for tenant, n := range losers {
			for i := range n {
				log = fmt.Appendf(log, "%d,%s\n", began+3600*hour+3600*i/n, tenant)
			}
		}
	}
	return string(fmt.Appendf(log, "%d,loses-none\n", began+3600*hours+60))
}

// replayLosers replays such hours by the file with more rules.
func replayLosers(t *testing.T, hours int, rules string, flags ...string) string {
	t.Helper()
	log, config := write(t, "log.csv", []byte(losersLog(hours))), write(t, "p.yaml", []byte(losersFile+rules))
	status, text, talk := shell(t, "", append([]string{"replay", "--config", config, log}, flags...)...)
	if status != 0 {
		t.Fatalf("status %d, %s%s", status, text, talk)
	}
	return text
}

// A replay says exactly which clients lose how much. A crawler loses what it is newly denied, though it gains as much; a declared
// difference is no loss, and a tenant with fewer than 50 requests is not active.
func TestReplayNamesTheLosers(t *testing.T) {
	var r struct {
		Policies []struct{ Clients *replay.ClientsResult }
	}
	decoded(t, replayLosers(t, 1, "", "-o", "json"), &r)
	want := &replay.ClientsResult{
		Active: 8, OfAtLeast: 50,
		Losing: []replay.ClientsLosing{
			{AtLeast: 0.05, Clients: 5, Share: 0.625}, {AtLeast: 0.1, Clients: 4, Share: 0.5},
			{AtLeast: 0.2, Clients: 3, Share: 0.375}, {AtLeast: 0.5, Clients: 2, Share: 0.25},
		},
		Worst: []replay.ClientLosing{
			{Key: "crawler", Allowed: 100, Lost: 51, Share: 0.51}, {Key: "loses-50", Allowed: 100, Lost: 50, Share: 0.5},
			{Key: "loses-20", Allowed: 80, Lost: 16, Share: 0.2}, {Key: "loses-10", Allowed: 90, Lost: 9, Share: 0.1},
			{Key: "loses-5", Allowed: 100, Lost: 5, Share: 0.05},
		},
	}
	for i := range want.Worst {
		want.Worst[i].Cause, want.Worst[i].CauseShare = "limit_value", 1
	}
	if got := r.Policies[0].Clients; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}

	table := []string{
		"8 clients with 50 requests or more", "5 %        5  62.5 %\n", "10 %        4    50 %\n", "20 %        3  37.5 %\n",
		"50 %        2    25 %\n", "crawler loses 51 of 100 allowed (51 %), probably limit_value (100 %", "loses-50 loses 50 of 100 allowed (50 %)",
		"loses-20 loses 16 of 80 allowed (20 %)", "loses-10 loses 9 of 90 allowed (10 %)", "loses-5 loses 5 of 100 allowed (5 %)",
	}
	text := replayLosers(t, 1, "")
	if missing := firstMissing(text, table); missing != "" {
		t.Errorf("no %q in\n%s", missing, text)
	}
}

// The protected keys of a file are judged as the fleet would: an hour in which a protected tenant lost its share and 20 requests
// keeps the condition from being met, whether the difference is declared or not.
func TestReplayJudgesProtectedKeys(t *testing.T) {
	for key, lost := range map[string]bool{
		"other": false, "loses-50": true, "loses-20": false /* 16 requests */, "batch": true, "crawler": false, "loses-all-of-few": true,
	} {
		var r struct {
			Policies []struct{ Gate gate.Result }
		}
		decoded(t, replayLosers(t, 25, "  protect: ["+key+"]\n", "-o", "json"), &r)
		conditions := r.Policies[0].Gate.Conditions
		at := slices.IndexFunc(conditions, func(c gate.Condition) bool { return c.Name == "protected keys" })
		if at < 0 || conditions[at].Met == lost {
			t.Errorf("%s: %+v, want it lost: %t", key, conditions, lost)
		}
	}
}
