package gate_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const week = 7 * 24 // hours

func TestVerdicts(t *testing.T) {
	tests := []struct {
		name    string
		e       evidence
		want    string
		strikes int
		about   string // in the reason
	}{
		{"equivalent, an hour too early", evidence{hours: 47}, wait, 0, "47 h of 48 h clean"},
		{"equivalent, a minute too early", evidence{hours: 48, minutes: -1}, wait, 0, "clean"},
		{"equivalent, in time", evidence{hours: 48}, pass, 0, "clean"},
		{"equivalent, later", evidence{hours: 30 * 24}, pass, 0, "clean"},

		{"no traffic", evidence{hours: 72, noTraffic: true}, insufficient, 0, "nothing has been compared"},

		{"no denials", evidence{hours: 72, minute: neverDenied}, insufficient, 0, "the authoritative has denied nothing in 3 days"},
		{
			"too few denials", evidence{hours: 72, minute: deniedInOneMinute(199)},
			insufficient, 0, "denied 199 of the 200 requests",
		},
		{
			"enough denials, in too few blocks", evidence{hours: 72, minute: deniedInOneMinute(200)},
			wait, 0, "newly_allowed",
		},
		{"too few keys", evidence{hours: 72, deniedKeys: 19}, insufficient, 0, "19 of the 20 keys"},
		{"just enough keys", evidence{hours: 72, deniedKeys: 20}, pass, 0, ""},

		{"too little compared", evidence{hours: 72, minute: degraded}, insufficient, 0, "99 % are needed"},
		{"three seconds of every hour not compared", evidence{hours: 48, minute: stalled}, pass, 0, "48 h clean"},
		{"a minute of every hour not compared", evidence{hours: 48, minute: mostlyStalled}, insufficient, 0, "98.99 %"},
		{"an hour of the day never seen", evidence{hours: 24, away: hoursFrom(5, 6)}, insufficient, 0,
			"23 of 24 hours of the day seen, not yet 05 (UTC)"},
		{
			"29 minutes of an hour seen", evidence{hours: 24, away: divergence.Span{From: 5*hour + 29, To: 6 * hour}},
			insufficient, 0, "23 of 24 hours of the day seen, not yet 05 (UTC)",
		},
		{
			"30 minutes of an hour seen", evidence{hours: 24, away: divergence.Span{From: 5*hour + 30, To: 6 * hour}},
			wait, 0, "23.5 h of 48 h",
		},
		{"an hour seen on one day only", evidence{hours: 72, away: hoursFrom(29, 30)}, pass, 0, ""},
		{"too little of the second day left", evidence{hours: 48, away: hoursFrom(29, 30)}, wait, 0, "47 h of 48 h"},
		{
			"an hour of the day too little compared", evidence{hours: 24, uncompared: []uncompared{{2, hoursFrom(5, 6)}}},
			insufficient, 0, "23 of 24 hours of the day seen, not yet 05 (UTC)",
		},
		{
			"too little compared within a day",
			evidence{hours: 72, uncompared: []uncompared{{1500, divergence.Span{From: 48 * hour, To: 48*hour + 1}}}},
			insufficient, 0, "last day",
		},
		{
			"too little compared a day ago",
			evidence{hours: 72, uncompared: []uncompared{{1500, divergence.Span{From: 48*hour - 1, To: 48 * hour}}}},
			pass, 0, "71 h clean",
		},

		{"other fingerprint", evidence{hours: 72, other: "web-7"}, insufficient, 0, "web-7"},
		{"silent instance", evidence{hours: 72, silent: "web-8"}, insufficient, 0, "web-8"},
		{"no instance", evidence{hours: 72, noInstance: true}, insufficient, 0, "live"},

		{"a strike, 48 h later", evidence{hours: 98, badHours: []int64{49}}, wait, 1, "48 h of 96 h clean"},
		{"a strike, 96 h later", evidence{hours: 146, badHours: []int64{49}}, pass, 1, ""},
		{"a bad hour of two keys", evidence{hours: 98, badHours: []int64{49}, badKeys: 2}, pass, 0, ""},
		{"a bad hour of three keys", evidence{hours: 98, badHours: []int64{49}, badKeys: 3}, wait, 1, "after 1 strike"},
		{"two strikes, 143 h later", evidence{hours: 203, badHours: []int64{49, 59}}, wait, 2, "143 h of 144 h clean"},
		{"two strikes, 144 h later", evidence{hours: 204, badHours: []int64{49, 59}}, pass, 2, ""},
		{"two bad hours in a row are two strikes", evidence{hours: 204, badHours: []int64{58, 59}}, pass, 2, ""},
		{"three strikes", evidence{hours: 200, badHours: []int64{49, 59, 69}}, fail, 3, "3 strikes"},
		{
			"three strikes fail though denials are missing",
			evidence{hours: 200, badHours: []int64{49, 59, 69}, noDeniedKeys: true}, fail, 3, "3 strikes",
		},
		{
			"first of three strikes just within 7 days",
			evidence{hours: 50 + week, minutes: -1, badHours: []int64{49, 59, 69}}, fail, 3, "",
		},
		{
			"first of three strikes 7 days ago",
			evidence{hours: 50 + week, badHours: []int64{49, 59, 69}}, pass, 2, "148 h clean",
		},

		{"raw ratio above its threshold", evidence{hours: 4, badHours: []int64{1}, badKeys: 2}, insufficient, 0, "newly_denied is 12.5 %"},
		{"above its threshold for a day", evidence{hours: 24, minute: fiveInAHundred}, fail, 0, "newly_denied is 5.56 %"},
		{"above its threshold for less than a day", evidence{hours: 10, minute: fiveInAHundred}, insufficient, 0,
			"10 of 24 hours of the day seen; the last is due Mon 2026-03-02 23:30 UTC"},
		{"raw ratio at its threshold", evidence{hours: 72, minute: twoInAHundred}, wait, 0, "divergence is 2 %"},
		{"the candidate fails", evidence{hours: 72, minute: candidateFails}, fail, 0, "divergence is 10 %"},
		{"always allow", evidence{hours: 240, minute: alwaysAllow}, fail, 0, "newly_allowed is 100 %"},
		{"always deny", evidence{hours: 240, minute: alwaysDeny}, fail, 3, ""},
		{"always allow, as declared", evidence{hours: 240, minute: alwaysAllowDeclared}, insufficient, 0, ""},
		{"always deny, as declared", evidence{hours: 240, minute: alwaysDenyDeclared}, insufficient, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { verdictIs(t, tt.e.build(), tt.want, tt.strikes, tt.about) })
	}
}

// verdictIs compares the gate's verdict by the default configuration, and the oracle's.
func verdictIs(t *testing.T, e gate.Evidence, want string, strikes int, about string) {
	t.Helper()
	g := gate.Assess(gate.Config{}.WithDefaults(), e)

	if g.Verdict != want || g.Strikes < strikes || strikes < 3 && g.Strikes != strikes {
		t.Errorf("%s with %d strikes (%s), want %s with %d", g.Verdict, g.Strikes, g.Reason, want, strikes)
	}
	if !isSentence(g.Reason) || !strings.Contains(g.Reason, about) {
		t.Errorf("reason %q: want one sentence about %q", g.Reason, about)
	}
	for _, d := range consult(gate.Config{}.WithDefaults(), e).compare(g) {
		t.Errorf("oracle: %s", d)
	}
}

func TestVerdictWithoutHistory(t *testing.T) {
	e := gate.Evidence{Since: monday, Now: monday.Add(72 * time.Hour)}
	verdictIs(t, e, insufficient, 0, "nothing has been compared")
}

// isSentence: one line, without a full stop inside.
func isSentence(s string) bool {
	return s != "" && s == strings.TrimSpace(s) && !strings.ContainsAny(s, "\n\r") && !strings.Contains(s, ". ")
}

// A useless candidate must not pass at any time, nor by any threshold.
func TestUselessCandidatesNeverPass(t *testing.T) {
	thresholds := []float64{0.001, 0.02, 0.5, 0.99}
	candidates := []struct {
		name   string
		minute func(*divergence.Minute)
	}{{"always allow", alwaysAllow}, {"always deny", alwaysDeny}}

	for _, c := range candidates {
		t.Run(c.name, func(t *testing.T) {
			for hours := 1; hours <= 240; hours += 13 {
				e := evidence{hours: hours, minute: c.minute}.build()
				for _, p0 := range thresholds {
					cfg := gate.Config{Divergence: p0, NewlyDenied: p0, NewlyAllowed: p0}.WithDefaults()
					if g := gate.Assess(cfg, e); g.Verdict == pass {
						t.Fatalf("passes at %g after %d hours: %s", p0, hours, g.Reason)
					}
				}
			}
		})
	}
}

// Nor when they meet few denials, or few requests that are allowed.
func TestUselessCandidatesNeverPassOnThinTraffic(t *testing.T) {
	candidates := []struct {
		name    string
		agreed  divergence.Outcome
		differs divergence.Outcome
	}{
		{"always allow", divergence.AgreeAllow, divergence.NewlyAllowed},
		{"always deny", divergence.AgreeDeny, divergence.NewlyDenied},
	}

	for _, c := range candidates {
		for _, every := range []int64{1, 7, 100, 1000} { // minutes from one difference to the next
			e := evidence{hours: 240, minute: func(m *divergence.Minute) {
				m.Tally = divergence.Tally{}
				m.Tally[c.agreed] = 100
				if m.Unix%every == 0 {
					m.Count(c.differs, uint64(m.Unix))
				}
			}}
			if g := gate.Assess(gate.Config{}.WithDefaults(), e.build()); g.Verdict == pass {
				t.Errorf("%s passes though 1 minute in %d shows it: %s", c.name, every, g.Reason)
			}
		}
	}
}

// Differences between the definition and the gate.

// The minute in progress has not been seen: neither has its clean time passed, nor
// can a block end after now.
func TestMinuteInProgress(t *testing.T) {
	cfg := gate.Config{}.WithDefaults()

	t.Run("is no clean time", func(t *testing.T) {
		e := evidence{hours: 48}.build()
		e.Now = e.Now.Add(-59 * time.Second) // 47:59:01, the last minute began a second ago
		if g := gate.Assess(cfg, e); g.Verdict != wait || g.CleanHours >= 48 {
			t.Errorf("%s after 47:59:01, %g clean hours: want %s", g.Verdict, g.CleanHours, wait)
		}
	})

	t.Run("closes no block", func(t *testing.T) {
		e := evidence{hours: 1}.build()
		e.Now = e.Now.Add(-59 * time.Second)
		if g := gate.Assess(cfg, e); g.Divergence.UpperBound != nil || g.Divergence.Score != 1 {
			t.Errorf("score %g of a block that lasts 59:01: want it open, score 1", g.Divergence.Score)
		}
	})
}

// Three bad hours of one ratio are three strikes. A longer bad block of another
// ratio is more evidence against the candidate, and must not make them one.
func TestBadBlocksOfOneRatioStayApart(t *testing.T) {
	e := evidence{hours: 200, badHours: []int64{60, 61, 62}}
	if g := gate.Assess(gate.Config{}.WithDefaults(), e.build()); g.Strikes != 3 || g.Verdict != fail {
		t.Fatalf("%d strikes, %s: want 3 and %s", g.Strikes, g.Verdict, fail)
	}

	// Denials so rare that their block lasts as long as the bad hours.
	rng := rand.New(rand.NewPCG(1, 1))
	e.minute = func(m *divergence.Minute) {
		at := m.Unix - mondayMinute
		if !within(hoursFrom(60, 63), at) {
			m.Tally[divergence.AgreeDeny] = 10
			return
		}
		m.Tally[divergence.AgreeDeny] = 0
		if at%18 == 0 {
			harm(m, divergence.NewlyAllowed, 1, 100, rng)
		}
	}
	if g := gate.Assess(gate.Config{}.WithDefaults(), e.build()); g.Strikes < 3 || g.Verdict != fail {
		t.Errorf("%d strikes, %s: want 3 and %s as without the newly allowed", g.Strikes, g.Verdict, fail)
	}
}

// A ratio that equals its threshold as written is at the threshold, and one that equals
// the cap is not above it: the gate shows ratio and threshold as the same number.
func TestThresholdsAreDecimal(t *testing.T) {
	t.Run("at the threshold", func(t *testing.T) {
		cfg := gate.Config{Divergence: 0.017, NewlyDenied: 0.5}.WithDefaults()
		e := evidence{hours: 72}.build()
		e.History.Minutes = e.History.Minutes[:1]
		e.History.Minutes[0].Tally = divergence.Tally{divergence.AgreeAllow: 2949, divergence.NewlyDenied: 51}
		g := gate.Assess(cfg, e)
		if !slices.ContainsFunc(g.Obstacles, func(o gate.Obstacle) bool { return o.Kind == gate.AboveThreshold }) {
			t.Errorf("ratio %g, threshold %g: %s, want it above", *g.Divergence.Ratio, g.Divergence.Threshold, g.Reason)
		}
	})

	t.Run("at the cap", func(t *testing.T) {
		cfg := gate.Config{Divergence: 0.011}.WithDefaults()
		rng := rand.New(rand.NewPCG(1, 1))
		e := evidence{hours: 72, minute: func(m *divergence.Minute) { // an hour of 110 in 2000
			switch at := m.Unix - mondayMinute; {
			case at == 5*hour:
				m.Tally = divergence.Tally{divergence.AgreeAllow: 1890}
				harm(m, divergence.NewlyDenied, 110, 9, rng)
			case at/hour == 5:
				m.Tally = divergence.Tally{}
			}
		}}
		if g := gate.Assess(cfg, e.build()); g.Strikes != 0 {
			t.Errorf("%d strikes by a block at its cap of 5.5 %%: want none", g.Strikes)
		}
	})
}
