package gate_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// slowest are the most seconds, in the median, in which all triggers find a
// regression to 20 times the threshold in a canary of 10 %, by its clients. 30 clients
// are few: without the 3 that it hits most half of the requests are left, and that is
// only now and then ten times a threshold of 0.1 %.
var slowest = map[float64]map[int]int{
	0.001: {30: 90, 100: 30, 10_000: 30},
	0.02:  {30: 30, 100: 30, 10_000: 30},
}

func TestStatisticsHoldOfDelays(t *testing.T) {
	results := readResults(t)
	bounded := func(name string, most int) {
		t.Helper()
		if o := results[name]; !(o.Median > 0 && o.Median <= most) {
			t.Errorf("%s: found after %d s, want %d at most", name, o.Median, most)
		}
	}

	for p0, byClients := range slowest {
		for clients, most := range byClients {
			bounded(delays(p0, 10, 20, clients)+"/all", most)
		}
		bounded(delays(p0, 10, 20, clientsOf(10))+"/harmed", 30)
	}
}

// struck are simulations with everything that the gate does: candidates that pass at
// once, after a strike, after more of them, or never.
var struck = []candidate{
	{scenarios[1], 0.001, 0.2, true},
	{scenarios[2], 0.02, 1, false},
	{scenarios[3], 0.001, 0.2, false},
	{scenarios[3], 0.02, 0.2, true},
	{scenarios[5], 0.001, 0.2, true},
}

// The gate passes in the hours in which the shortcut says that it may, and in no
// others: else runs would hide that it passes too early.
func TestShortcut(t *testing.T) {
	for _, c := range struck {
		m, cfg := c.simulate(1), configured(c.p0, 48*time.Hour)
		s := shortcut{cfg: cfg}

		for at := hour; at <= len(m.minutes); at += hour {
			s.add(m.minutes[at-hour : at])
			g := gate.Assess(cfg, m.evidence(at))
			if (g.Verdict == pass) != s.mayPass() {
				t.Errorf("%s: after %d h the gate says %s (%s), the shortcut %t",
					c.name(), at/hour, g.Verdict, g.Reason, s.mayPass())
				break
			}
			if at >= 48*hour && g.Verdict == pass {
				break
			}
		}
	}
}

// Looking each minute promotes no candidate earlier than looking each hour: blocks,
// and with them strikes and scores, only change when they close.
func TestLookingMoreOften(t *testing.T) {
	for _, c := range struck {
		m, cfg := c.simulate(1), configured(c.p0, 48*time.Hour)
		at := byEvidence(m, cfg)
		for early := at - hour; early >= 0 && early < at; early++ {
			if g := gate.Assess(cfg, m.evidence(early)); g.Verdict == pass {
				t.Errorf("%s: passes after %d minutes, looked at each hour after %d", c.name(), early, at)
				break
			}
		}
	}
}
