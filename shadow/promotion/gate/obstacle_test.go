package gate_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// rareAndHigh is traffic so rare that a newly denied ratio of 2.04 % may be chance: in 72
// hours 147 requests that the authoritative allows, and 288 that it denies.
func rareAndHigh(m *divergence.Minute) {
	at := m.Unix - mondayMinute
	m.Tally = divergence.Tally{}
	switch {
	case at%1440 == 1:
		m.Tally[divergence.NewlyDenied] = 1
	case at%30 == 0:
		m.Tally[divergence.AgreeAllow], m.Tally[divergence.AgreeDeny] = 1, 2
	}
}

// justBelow is 1.99 % of divergence, of 10,000 requests a minute.
func justBelow(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeAllow: 8801, divergence.AgreeDeny: 1000, divergence.CandidateError: 199}
}

// deniedEarly is traffic whose denials have become rare after two hours.
func deniedEarly(m *divergence.Minute) {
	if m.Unix >= mondayMinute+2*hour {
		neverDenied(m)
	}
}

// A reason that ends by waiting has a date, or says why there is none.
func TestReasonHasAForecastOrSaysWhyNot(t *testing.T) {
	manyDenials, simple := gate.Config{MinDenials: 10_000_000}, gate.Config{Rule: gate.Simple}
	tests := []struct {
		name    string
		cfg     gate.Config
		e       evidence
		verdict string
		want    string // at the end of the reason
	}{
		{"clean time", gate.Config{}, evidence{hours: 47}, wait,
			"47 h of 48 h clean; could pass Wed 2026-03-04 00:00 UTC if traffic and ratios stay as they were"},
		{"no rate in days", gate.Config{}, evidence{hours: 72, minute: neverDenied}, insufficient,
			"cannot pass: 0 of the 200 requests that the authoritative denies were seen in 3 days: " +
				"replay a log with lower limits on both sides, lower the needed number, or promote by force"},
		{"no rate yet", gate.Config{}, evidence{hours: 20, minute: neverDenied}, insufficient,
			"; no forecast: there are no requests that the authoritative denies yet, so their rate is unknown"},
		{"more days than are kept", manyDenials, evidence{hours: 72}, insufficient,
			"cannot pass: enough requests that the authoritative denies would take 695 days at the rate so far, and evidence is kept " +
				"for 32: raise the threshold, lower the needed numbers, or send more traffic"},
		{"too few keys in all", gate.Config{MinDeniedKeys: 1000}, evidence{hours: 72}, insufficient,
			"cannot pass: the policy has only 500 keys, and 1000 denied ones are needed: set min_denied_keys to what such a policy can show"},
		{"an instance is silent, too", gate.Config{}, evidence{hours: 72, deniedKeys: 1, silent: "web-8"}, insufficient,
			"; no forecast: an instance has written no evidence for a minute"},
		{"noise, too", gate.Config{}, evidence{hours: 72, deniedKeys: 1, noise: differing(10, 1000)}, insufficient,
			"; no forecast: the noise floor is too high"},
		{"only something to mend", gate.Config{}, evidence{hours: 72, silent: "web-8"}, insufficient,
			"web-8; read their logs"},
		{"a raw ratio", gate.Config{}, evidence{hours: 72, minute: rareAndHigh}, wait,
			"from 147 so far: too early to tell; no forecast: " +
				"too few requests were compared to say whether a ratio stays at or above its threshold"},
		{"a raw ratio behind another obstacle", gate.Config{}, evidence{hours: 72, minute: rareAndHigh, deniedKeys: 1}, insufficient,
			"newly_denied is 2.04 % of what the authoritative allows, its threshold 2 %, from 147 so far: too early to tell; " +
				"besides, the authoritative has denied 1 of the 20 keys needed (min_denied_keys): too few clients to judge by"},
		{"near the threshold for long", gate.Config{}, evidence{hours: 72, minute: justBelow}, wait,
			"divergence is 1.99 % of all comparisons, its threshold 2 %, and it may have risen above that: its mirror is 66.96, " +
				"and steps need less than 24; no forecast: a ratio may be above its threshold"},
		{"near the threshold", gate.Config{}, evidence{hours: 20, minute: justBelow}, insufficient,
			"cannot pass: divergence is 1.99 % of all comparisons, so close to its threshold of 2 % that its score does not reach 20: " +
				"change the candidate or raise the threshold; besides, 20 h of 48 h clean"},
		{"traffic has become rarer", gate.Config{}, evidence{hours: 72, minute: deniedEarly}, wait,
			"; no forecast: the current block of newly_allowed should have closed already: its traffic has become rarer"},
		{"the simple rule", simple, evidence{hours: 40}, wait,
			"40 h of 48 h seen, so at least 8 h are left; no forecast: the simple rule has no scores to extrapolate"},
		{"a raw ratio by the simple rule", simple, evidence{hours: 72, minute: twoInAHundred}, wait,
			"; no forecast: a ratio of the last soak is at or above its threshold"},
	}

	for _, tt := range tests {
		g := gate.Assess(tt.cfg.WithDefaults(), tt.e.build())
		if g.Verdict != tt.verdict || !isSentence(g.Reason) || !strings.HasSuffix(g.Reason, tt.want) {
			t.Errorf("%s: %s, %q, want %s and at the end %q", tt.name, g.Verdict, g.Reason, tt.verdict, tt.want)
		}
		if g.Never != strings.HasPrefix(g.Reason, "cannot pass: ") {
			t.Errorf("%s: never passes: %t, %q", tt.name, g.Never, g.Reason)
		}
		if (g.WouldPassAt == nil) != (g.NoForecast != "") {
			t.Errorf("%s: a forecast of %v, and none because %q", tt.name, g.WouldPassAt, g.NoForecast)
		}
	}
}

// All obstacles are reported, and not only the one that the reason names.
func TestObstaclesAreAll(t *testing.T) {
	kinds := func(g gate.Result) (list []gate.ObstacleKind) {
		for _, o := range g.Obstacles {
			list = append(list, o.Kind)
		}
		return list
	}

	tests := []struct {
		name string
		cfg  gate.Config
		e    evidence
		want []gate.ObstacleKind
	}{
		{"a pass", gate.Config{}, evidence{hours: 48}, nil},
		{"a fail", gate.Config{}, evidence{hours: 72, silent: "a", minute: alwaysDeny}, nil},
		{"no traffic: silence says nothing", gate.Config{}, evidence{hours: 72, noTraffic: true, silent: "a", other: "b"},
			[]gate.ObstacleKind{gate.NothingCompared, gate.OtherEpochs}},
		{"the first hours", gate.Config{}, evidence{hours: 2, deniedKeys: 3, noise: differing(10, 1000), silent: "a"},
			[]gate.ObstacleKind{
				gate.FewDeniedKeys, gate.NoiseFloor, gate.HoursUnseen, gate.NotWriting, gate.LowScore, gate.CleanTime,
			}},
		{"useless, as declared", gate.Config{Sample: 0.1}, evidence{hours: 240, minute: alwaysAllowDeclared, noInstance: true},
			[]gate.ObstacleKind{gate.Sampled, gate.DeniesNothing, gate.NoInstance}},
		{"a raw ratio", gate.Config{}, evidence{hours: 72, minute: rareAndHigh},
			[]gate.ObstacleKind{gate.AboveThreshold, gate.LowScore}},
		{"the simple rule", gate.Config{Rule: gate.Simple, Soak: 96 * time.Hour}, evidence{hours: 72, minute: twoInAHundred},
			[]gate.ObstacleKind{gate.AboveInSoak, gate.CleanTime}},
	}
	for _, tt := range tests {
		g := gate.Assess(tt.cfg.WithDefaults(), tt.e.build())
		if got := kinds(g); !slices.Equal(got, tt.want) {
			t.Errorf("%s: obstacles %v (%s), want %v", tt.name, got, g.Reason, tt.want)
		}
	}
}

// Requests that were all blind, and an idle day after them, are no evidence of anything.
func TestNothingComparedIsNoPass(t *testing.T) {
	e := evidence{hours: 72, minute: func(m *divergence.Minute) {
		blind := m.Tally
		m.Tally = divergence.Tally{}
		if m.Unix < mondayMinute+day {
			m.Tally[divergence.Blind] = blind.Comparisons()
		}
	}}.build()

	for _, cfg := range byRule(gate.Config{}.WithDefaults()) {
		g := gate.Assess(cfg, e)
		if g.Verdict != insufficient || !strings.HasPrefix(g.Reason, "nothing has been compared") {
			t.Errorf("rule %s: %s, %q", cfg.Rule, g.Verdict, g.Reason)
		}
	}
}

// A fail leads with the number that matters, not with the number of strikes.
func TestFailLeadsWithTheRatio(t *testing.T) {
	allowsAll := func(m *divergence.Minute) {
		denied := m.Tally[divergence.AgreeDeny]
		m.Tally[divergence.AgreeDeny] = 0
		for key := range uint64(denied) {
			m.Count(divergence.NewlyAllowed, key)
		}
	}

	for want, e := range map[string]evidence{
		"newly_allowed is 100 % of what the authoritative denies, its threshold 50 %": {hours: 50, minute: allowsAll},
		"newly_denied was 50 % of what the authoritative allows from 2026-03-08 05:00 to 06:00 UTC, and 10 % makes an hour bad: " +
			"3 strikes": {hours: 170, badHours: []int64{149, 159, 168}},
	} {
		g := gate.Assess(gate.Config{ExtraLoad: 0.9}.WithDefaults(), e.build())
		if g.Verdict != fail || !strings.HasPrefix(g.Reason, want) {
			t.Errorf("%s, %q, want %q", g.Verdict, g.Reason, want)
		}
	}
}

// Programs read the kind of an obstacle: each has a name of its own, and one of a later release has none.
func TestEveryKindOfObstacleHasAName(t *testing.T) {
	kinds := map[string]gate.ObstacleKind{}
	for kind := range gate.ObstacleKind(gate.ObstacleKinds) {
		name := kind.String()
		if other, taken := kinds[name]; taken || name == "" || name == "unknown" {
			t.Errorf("kind %d is called %q, as %d: name it in kindNames", kind, name, other)
		}
		kinds[name] = kind
	}

	// The text of status leads there.
	glossary, err := os.ReadFile("../../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range kinds {
		if !strings.Contains(string(glossary), "`"+name+"`") {
			t.Errorf("docs/glossary.md does not say what ends the obstacle %s", name)
		}
	}

	for _, kind := range []gate.ObstacleKind{-1, gate.ObstacleKinds} {
		if name := kind.String(); name != "unknown" {
			t.Errorf("kind %d is called %q", kind, name)
		}
	}
}
