package gate_test

import (
	"os"
	"slices"
	"strings"
	"testing"

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

// deniedAtNoon is traffic whose denials come within an hour of the day: 58 of them.
func deniedAtNoon(m *divergence.Minute) {
	neverDenied(m)
	if at := (m.Unix - mondayMinute) % day; at/hour == 12 && at%60 < 58 {
		m.Tally[divergence.AgreeDeny] = 10
	}
}

// allowedAsDeclared has 50 denials in one minute, all of them newly allowed as declared.
func allowedAsDeclared(m *divergence.Minute) {
	if neverDenied(m); m.Unix == mondayMinute+7 {
		m.Tally[divergence.ExpectedAllowed] = 50
	}
}

// A reason that ends by waiting has a date, or says why there is none.
func TestReasonHasAForecastOrSaysWhyNot(t *testing.T) {
	manyDenials := gate.Config{MinDenials: 10_000_000}
	tests := []struct {
		name    string
		cfg     gate.Config
		e       evidence
		verdict string
		want    string // at the end of the reason
	}{
		{"clean time", gate.Config{}, evidence{hours: 47}, wait,
			"47 h of 48 h clean; could pass Wed 2026-03-04 00:00 UTC at the earliest, when 48 h are clean, if traffic and ratios stay as they were"},
		{"no rate in days", gate.Config{}, evidence{hours: 60, minute: neverDenied}, insufficient,
			"cannot pass: the authoritative has denied nothing in 2 days, so on this traffic nothing shows how the candidate denies: " +
				"check that the limit is the intended one, wait for a peak, replay a log of a peak, or with lower limits on both sides, " +
				"or promote by force"},
		{"no rate yet", gate.Config{}, evidence{hours: 20, minute: neverDenied}, insufficient,
			"; no forecast: there are no requests that the authoritative denies yet, so their rate is unknown"},
		{"no denials any more", gate.Config{MinDenials: 1500}, evidence{hours: 72, minute: deniedEarly}, insufficient,
			"; no forecast: the authoritative has denied nothing for 70 h, so the rate of its denials is unknown: " +
				"check that the limit is the intended one, wait for a peak, replay a log of a peak, or with lower limits on both sides, " +
				"or promote by force"},
		{"more days than are kept", manyDenials, evidence{hours: 72}, insufficient,
			"cannot pass: enough requests that the authoritative denies would take 695 days at the rate of the last 24 h, and evidence is " +
				"kept for 32: lower min_denials, send more traffic, or promote by force"},
		{"too few keys in all", gate.Config{MinDeniedKeys: 1000}, evidence{hours: 72}, insufficient,
			"cannot pass: the policy has only 500 keys, and 1000 denied ones are needed: set min_denied_keys to at most 50 in the policy file"},
		{"denials that are all allowed as declared", gate.Config{MinDenials: 60}, evidence{hours: 20, minute: allowedAsDeclared}, insufficient,
			"; no forecast: there are no requests that both sides deny yet, so their rate is unknown"},
		{"denials that are all allowed as declared, for a day", gate.Config{MinDenials: 60}, evidence{hours: 24, minute: allowedAsDeclared},
			insufficient, "cannot pass: the candidate has denied none of the 50 requests that the authoritative denied in 24 h: " +
				"check that it limits at all; besides, 24 h of 48 h clean"},
		{"an instance is silent, too", gate.Config{}, evidence{hours: 72, deniedKeys: 1, silent: "web-8"}, insufficient,
			"web-8; read their logs; besides, the authoritative has denied 1 of the 20 keys needed (min_denied_keys): too few clients to judge by"},
		{"no instance is live, and a ratio is too early to tell", gate.Config{}, evidence{hours: 72, minute: rareAndHigh, deniedKeys: 1,
			noInstance: true}, insufficient, "no instance is live: start the service; besides, newly_denied is 2.04 % of what the authoritative " +
			"allows, its threshold 2 %: too early to tell, from 147 of the 500 needed"},
		{"only something to mend", gate.Config{}, evidence{hours: 72, silent: "web-8"}, insufficient,
			"web-8; read their logs"},
		{"a raw ratio", gate.Config{}, evidence{hours: 72, minute: rareAndHigh}, wait,
			": too early to tell, from 147 of the 500 needed; no forecast: " +
				"too few requests were compared to say whether a ratio stays at or above its threshold"},
		{"a raw ratio behind another obstacle", gate.Config{}, evidence{hours: 72, minute: rareAndHigh, deniedKeys: 1}, insufficient,
			"newly_denied is 2.04 % of what the authoritative allows, its threshold 2 %: too early to tell, from 147 of the 500 needed; " +
				"besides, the authoritative has denied 1 of the 20 keys needed (min_denied_keys): too few clients to judge by"},
		{"near the threshold for long", gate.Config{}, evidence{hours: 72, minute: justBelow}, wait,
			"divergence is 1.99 % of all comparisons, its threshold 2 %, and it may have risen above that: its mirror is 66.96, " +
				"and steps need less than 24; no forecast: a ratio may be above its threshold"},
		{"near the threshold", gate.Config{}, evidence{hours: 20, minute: justBelow}, insufficient,
			"cannot pass: divergence is 1.99 % of all comparisons, so close to its threshold of 2 % that its score does not reach 20: " +
				"change the candidate or raise the threshold; besides, 20 h of 48 h clean"},
		{"traffic has ended", gate.Config{}, evidence{hours: 72, minute: deniedEarly}, wait,
			"; no forecast: the authoritative has denied nothing for 70 h, so the pace of the score of newly_allowed is unknown: send more traffic"},
		{"traffic in bursts", gate.Config{NewlyAllowed: 0.02}, evidence{hours: 65, minute: deniedAtNoon}, wait,
			"; no forecast: what the authoritative denies comes in bursts, so the pace of the score of newly_allowed is unknown: " +
				"wait for the next burst, or send more traffic"},
	}

	for _, tt := range tests {
		g := gate.Assess(tt.cfg.WithDefaults(), tt.e.build())
		if g.Verdict != tt.verdict || !isSentence(g.Reason) || !strings.HasSuffix(g.Reason, tt.want) {
			t.Errorf("%s: %s, %q, want %s and at the end %q", tt.name, g.Verdict, g.Reason, tt.verdict, tt.want)
		}
		if g.Never != strings.HasPrefix(g.Reason, "cannot pass") {
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
			[]gate.ObstacleKind{gate.NothingCompared, gate.OtherFingerprints}},
		{"the first hours", gate.Config{}, evidence{hours: 2, deniedKeys: 3, silent: "a"},
			[]gate.ObstacleKind{
				gate.FewDeniedKeys, gate.HoursUnseen, gate.NotWriting, gate.LowScore, gate.CleanTime,
			}},
		{"useless, as declared", gate.Config{}, evidence{hours: 240, minute: alwaysAllowDeclared, noInstance: true},
			[]gate.ObstacleKind{gate.DeniesNothing, gate.NoInstance}},
		{"a raw ratio", gate.Config{}, evidence{hours: 72, minute: rareAndHigh},
			[]gate.ObstacleKind{gate.AboveThreshold, gate.LowScore}},
	}
	for _, tt := range tests {
		g := gate.Assess(tt.cfg.WithDefaults(), tt.e.build())
		if got := kinds(g); !slices.Equal(got, tt.want) {
			t.Errorf("%s: obstacles %v (%s), want %v", tt.name, got, g.Reason, tt.want)
		}
	}
}

// Requests that could not be compared, and idle days after them, are no evidence of anything.
func TestNothingComparedIsNoPass(t *testing.T) {
	e := evidence{hours: 72, minute: func(m *divergence.Minute) {
		all := m.Tally
		m.Tally = divergence.Tally{}
		if m.Unix < mondayMinute+day {
			m.Tally[divergence.Inconclusive] = all.Comparisons()
		}
	}}.build()

	g := gate.Assess(gate.Config{}.WithDefaults(), e)
	if g.Verdict != insufficient || !strings.HasPrefix(g.Reason, "nothing has been compared") {
		t.Errorf("%s, %q", g.Verdict, g.Reason)
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

// Programs read the kind of an obstacle: each has a name of its own, and no other number has one.
func TestEveryKindOfObstacleHasAName(t *testing.T) {
	kinds := map[string]gate.ObstacleKind{}
	for kind := range gate.ObstacleKind(gate.ObstacleKinds) {
		name := kind.String()
		if other, taken := kinds[name]; taken || name == "" || name == "unknown" {
			t.Errorf("kind %d is called %q, as %d: add it to subjects", kind, name, other)
		}
		if verdict := gate.VerdictOf(kind); verdict != wait && verdict != insufficient {
			t.Errorf("kind %d has the verdict %q: add it to subjects", kind, verdict)
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

// The side that allows nothing is named, and no other.
func TestWhoAllowsNothing(t *testing.T) {
	for want, minute := range map[string]func(*divergence.Minute){
		"the authoritative has allowed no request": func(m *divergence.Minute) {
			m.Tally = divergence.Tally{divergence.AgreeDeny: 10}
		},
		"the candidate has allowed none of the 5,400 requests that the authoritative allowed": func(m *divergence.Minute) {
			m.Tally = divergence.Tally{divergence.AgreeDeny: 10, divergence.ExpectedDenied: 90}
		},
		"no request was allowed by both sides: the candidate has failed to answer 600 requests": func(m *divergence.Minute) {
			m.Tally = divergence.Tally{divergence.AgreeDeny: 90, divergence.CandidateError: 10}
		},
	} {
		g := gate.Assess(gate.Config{}.WithDefaults(), evidence{hours: 1, minute: minute}.build())
		if text := obstacleOf(g, gate.AllowsNothing); !strings.HasPrefix(text, want) {
			t.Errorf("%q (%s), want %q", text, g.Reason, want)
		}
	}
}

// Programs read the numbers of an obstacle, and whether it can be forecast.
func TestObstaclesHaveNumbers(t *testing.T) {
	g := gate.Assess(gate.Config{MinDenials: 2000}.WithDefaults(), evidence{
		hours: 2, deniedKeys: 5, minute: fiveInAHundred, noInstance: true,
	}.build())
	type numbers struct {
		kind       gate.ObstacleKind
		have, need float64
		ratio      string
		never      bool
	}
	var got []numbers
	for _, o := range g.Obstacles {
		got = append(got, numbers{o.Kind, o.Have, o.Need, o.Ratio, o.Never})
	}

	want := []numbers{
		{gate.FewDenials, 1200, 2000, "", false},
		{gate.FewDeniedKeys, 5, 20, "", false},
		{gate.HoursUnseen, 2, 24, "", false},
		{gate.NoInstance, 0, 0, "", false},
		{gate.AboveThreshold, 5.0 / 90, 0.02, "newly_denied", false},
		{gate.AboveThreshold, 0.05, 0.02, "divergence", false},
		{gate.LowScore, g.NewlyDenied.Score, 20, "newly_denied", false},
		{gate.CleanTime, 2, 48, "", false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if early := g.Obstacles[4].Early; early {
		t.Error("10,800 requests are too few to tell")
	}
}

// Before a block tells the ratios apart, the one with the latest forecast is named, and of equal ones the worse harm.
func TestEqualScoresNameTheFarthest(t *testing.T) {
	for want, minute := range map[string]func(*divergence.Minute){"newly_denied": nil, "newly_allowed": neverDenied} {
		g := gate.Assess(gate.Config{}.WithDefaults(), evidence{minutes: 59, minute: minute}.build())
		if text := obstacleOf(g, gate.LowScore); !strings.HasPrefix(text, want) {
			t.Errorf("%q, want %s", text, want)
		}
	}
}
