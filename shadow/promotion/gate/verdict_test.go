package gate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Tables.

// monday is the start of a day, so that hours of the day are easily told.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// aMinute of the traffic of the tables: 90 allowed, 10 denied.
func aMinute() divergence.Tally {
	return divergence.Tally{divergence.AgreeAllow: 90, divergence.AgreeDeny: 10}
}

// over returns sound evidence of a candidate that does the same.
func over(d time.Duration) gate.Evidence {
	e := gate.Evidence{Since: monday, Now: monday.Add(d), Live: 2}
	since, now := e.Since.Unix()/60, e.Now.Unix()/60
	for t := since; t < now; t++ {
		e.History.Minutes = append(e.History.Minutes, divergence.Minute{Unix: t, Tally: aMinute()})
	}
	e.History.Live = []divergence.Span{{From: since, To: now}}
	e.History.Distinct[divergence.KeysSeen] = 500
	e.History.Distinct[divergence.KeysDenied] = 50
	return e
}

// each changes every minute.
func each(e gate.Evidence, change func(m *divergence.Minute)) gate.Evidence {
	for i := range e.History.Minutes {
		change(&e.History.Minutes[i])
	}
	return e
}

// harmIn makes the candidate deny half of what is allowed in some hours, counted
// from Monday's start.
func harmIn(e gate.Evidence, keys int, hours ...int64) gate.Evidence {
	rng := rand.New(rand.NewPCG(1, 1))
	return each(e, func(m *divergence.Minute) {
		if slices.Contains(hours, m.Unix/hour-monday.Unix()/3600) {
			m.Tally[divergence.AgreeAllow] -= 45
			harm(m, divergence.NewlyDenied, 45, keys, rng)
		}
	})
}

func alwaysAllow(m *divergence.Minute) {
	m.Tally[divergence.AgreeDeny] -= 10
	harm(m, divergence.NewlyAllowed, 10, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
}

func alwaysDeny(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] -= 90
	harm(m, divergence.NewlyDenied, 90, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
}

// Whatever is declared as expected, such candidates are no limiters.
func alwaysAllowDeclared(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeAllow: 90, divergence.ExpectedAllowed: 10}
}

func alwaysDenyDeclared(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeDeny: 10, divergence.ExpectedDenied: 90}
}

func neverDenied(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeAllow: 100}
}

// degraded leaves 2 of 1000 uncompared: 1 is the most.
func degraded(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] += 898 // makes 998 compared
	m.Tally[divergence.Inconclusive] = 2
}

// twoInAHundred is exactly the default threshold of divergence.
func twoInAHundred(m *divergence.Minute) {
	m.Tally[divergence.AgreeDeny] -= 2
	m.Tally[divergence.NewlyAllowed] = 2
}

func candidateFails(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] -= 10
	m.Tally[divergence.CandidateError] = 10
}

// absent takes the instances away in the minutes from one to another.
func absent(e gate.Evidence, from, to int64) gate.Evidence {
	whole := e.History.Live[0]
	at := monday.Unix() / 60
	e.History.Live = []divergence.Span{{From: whole.From, To: at + from}, {From: at + to, To: whole.To}}
	if e.History.Live[0].From == e.History.Live[0].To {
		e.History.Live = e.History.Live[1:]
	}
	e.History.Minutes = slices.DeleteFunc(e.History.Minutes, func(m divergence.Minute) bool {
		return m.Unix >= at+from && m.Unix < at+to
	})
	return e
}

// uncompared adds so many inconclusive evaluations to each of some minutes.
func uncompared(e gate.Evidence, n, from, to int64) gate.Evidence {
	at := monday.Unix() / 60
	return each(e, func(m *divergence.Minute) {
		if m.Unix >= at+from && m.Unix < at+to {
			m.Tally[divergence.Inconclusive] += n
		}
	})
}

// with edits evidence.
func with(e gate.Evidence, edit func(e *gate.Evidence)) gate.Evidence {
	edit(&e)
	return e
}

func TestVerdicts(t *testing.T) {
	h := time.Hour
	tests := []struct {
		name    string
		e       gate.Evidence
		want    string
		strikes int
		about   string // in the reason
	}{
		{"equivalent, an hour too early", over(47 * h), wait, 0, "47 h of 48 h clean"},
		{"equivalent, a minute too early", over(48*h - time.Minute), wait, 0, "clean"},
		{"equivalent, in time", over(48 * h), pass, 0, "clean"},
		{"equivalent, later", over(30 * 24 * h), pass, 0, "clean"},
		{"nothing seen", with(over(72*h), func(e *gate.Evidence) { e.History.Minutes = nil }), insufficient, 0, "nothing has been compared"},
		{"no history at all", gate.Evidence{Since: monday, Now: monday.Add(72 * h)}, insufficient, 0, "nothing has been compared"},
		{"noise", with(over(72*h), func(e *gate.Evidence) {
			e.Noise = divergence.Tally{divergence.AgreeAllow: 990, divergence.NewlyDenied: 10}
		}), insufficient, 0, "disagree in 1 % of comparisons"},
		{"little noise", with(over(72*h), func(e *gate.Evidence) {
			e.Noise = divergence.Tally{divergence.AgreeAllow: 999, divergence.NewlyDenied: 1}
		}), pass, 0, "clean"},
		{"too little to tell noise", with(over(72*h), func(e *gate.Evidence) {
			e.Noise = divergence.Tally{divergence.AgreeAllow: 90, divergence.NewlyDenied: 10}
		}), pass, 0, "clean"},
		{"no denials", each(over(72*h), neverDenied), insufficient, 0, "denied 0 of the 200 requests"},
		{"too few denials", with(each(over(72*h), neverDenied), func(e *gate.Evidence) { e.History.Minutes[7].Tally[divergence.AgreeDeny] = 199 }), insufficient, 0, "denied 199 of the 200 requests"},
		{"enough denials, in too few blocks", with(each(over(72*h), neverDenied), func(e *gate.Evidence) { e.History.Minutes[7].Tally[divergence.AgreeDeny] = 200 }), wait, 0, "newly_allowed"},
		{"too few keys", with(over(72*h), func(e *gate.Evidence) { e.History.Distinct[divergence.KeysDenied] = 19 }), insufficient, 0, "19 of the 20 keys"},
		{"just enough keys", with(over(72*h), func(e *gate.Evidence) { e.History.Distinct[divergence.KeysDenied] = 20 }), pass, 0, ""},
		{"too little compared", each(over(72*h), degraded), insufficient, 0, "99.9 %"},
		{"an hour of the day never seen", absent(over(24*h), 5*hour, 6*hour), insufficient, 0, "(UTC): 05"},
		{"29 minutes of an hour seen", absent(over(24*h), 5*hour+29, 6*hour), insufficient, 0, "(UTC): 05"},
		{"30 minutes of an hour seen", absent(over(24*h), 5*hour+30, 6*hour), wait, 0, "23.5 h of 48 h"},
		{"an hour seen on one day only", absent(over(72*h), 29*hour, 30*hour), pass, 0, ""},
		{"too little of the second day left", absent(over(48*h), 29*hour, 30*hour), wait, 0, "47 h of 48 h"},
		{"an hour of the day too little compared", uncompared(over(24*h), 1, 5*hour, 6*hour), insufficient, 0, "(UTC): 05"},
		{"too little compared within a day", uncompared(over(72*h), 150, 48*hour, 48*hour+1), insufficient, 0, "last day"},
		{"too little compared a day ago", uncompared(over(72*h), 150, 48*hour-1, 48*hour), pass, 0, "71 h clean"},
		{"other epoch", with(over(72*h), func(e *gate.Evidence) { e.OtherEpoch = []string{"web-7"} }), insufficient, 0, "web-7"},
		{"silent instance", with(over(72*h), func(e *gate.Evidence) { e.Silent = []string{"web-8"} }), insufficient, 0, "web-8"},
		{"nobody there", with(over(72*h), func(e *gate.Evidence) { e.Live = 0 }), insufficient, 0, "live"},
		{"a strike, 48 h later", harmIn(over(98*h), 9, 49), wait, 1, "48 h of 96 h clean"},
		{"a strike, 96 h later", harmIn(over(146*h), 9, 49), pass, 1, ""},
		{"a bad hour of two keys", harmIn(over(98*h), 2, 49), pass, 0, ""},
		{"a bad hour of three keys", harmIn(over(98*h), 3, 49), wait, 1, "after 1 strike"},
		{"two strikes, 143 h later", harmIn(over(203*h), 9, 49, 59), wait, 2, "143 h of 144 h clean"},
		{"two strikes, 144 h later", harmIn(over(204*h), 9, 49, 59), pass, 2, ""},
		{"two bad hours in a row are two strikes", harmIn(over(204*h), 9, 58, 59), pass, 2, ""},
		{"three strikes", harmIn(over(200*h), 9, 49, 59, 69), fail, 3, "3 strikes"},
		{"three strikes fail though denials are missing", harmIn(with(over(200*h), func(e *gate.Evidence) { e.History.Distinct[divergence.KeysDenied] = 0 }), 9, 49, 59, 69), fail, 3, "3 strikes"},
		{"first of three strikes just within 7 days", harmIn(over(50*h+7*24*h-time.Minute), 9, 49, 59, 69), fail, 3, ""},
		{"first of three strikes 7 days ago", harmIn(over(50*h+7*24*h), 9, 49, 59, 69), pass, 2, "148 h clean"},
		{"raw ratio over its threshold", harmIn(over(4*h), 2, 1), fail, 0, "threshold"},
		{"raw ratio at its threshold", each(over(72*h), twoInAHundred), fail, 0, "divergence is 2 %"},
		{"the candidate fails", each(over(72*h), candidateFails), fail, 0, "divergence is 10 %"},
		{"always allow", each(over(240*h), alwaysAllow), fail, 3, ""},
		{"always deny", each(over(240*h), alwaysDeny), fail, 3, ""},
		{"always allow, as declared", each(over(240*h), alwaysAllowDeclared), insufficient, 0, ""},
		{"always deny, as declared", each(over(240*h), alwaysDenyDeclared), insufficient, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := gate.Assess(gate.Config{}.WithDefaults(), tt.e)
			if g.Verdict != tt.want || g.Strikes < tt.strikes || tt.strikes < 3 && g.Strikes != tt.strikes {
				t.Errorf("%s with %d strikes (%s), want %s with %d", g.Verdict, g.Strikes, g.Reason, tt.want, tt.strikes)
			}
			if !isSentence(g.Reason) || !strings.Contains(g.Reason, tt.about) {
				t.Errorf("reason %q: want one sentence about %q", g.Reason, tt.about)
			}
			for _, d := range consult(gate.Config{}.WithDefaults(), tt.e).compare(g) {
				t.Errorf("oracle: %s", d)
			}
		})
	}
}

// isSentence: one line, without a full stop inside.
func isSentence(s string) bool {
	return s != "" && s == strings.TrimSpace(s) && !strings.ContainsAny(s, "\n\r") && !strings.Contains(s, ". ")
}

// A useless candidate must not pass at any time, nor by any threshold.
func TestUselessCandidatesNeverPass(t *testing.T) {
	thresholds := []float64{0.001, 0.02, 0.5, 0.99}
	candidates := []struct {
		name  string
		useIt func(*divergence.Minute)
	}{{"always allow", alwaysAllow}, {"always deny", alwaysDeny}}
	for _, c := range candidates {
		t.Run(c.name, func(t *testing.T) {
			for hours := 1; hours <= 240; hours += 13 {
				e := each(over(time.Duration(hours)*time.Hour), c.useIt)
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
	for _, share := range []int64{1, 7, 100, 1000} {
		for name, useIt := range map[string]func(*divergence.Minute, int64){
			"always allow": func(m *divergence.Minute, share int64) {
				if m.Tally = (divergence.Tally{divergence.AgreeAllow: 100}); m.Unix%share == 0 {
					m.Count(divergence.NewlyAllowed, uint64(m.Unix))
				}
			},
			"always deny": func(m *divergence.Minute, share int64) {
				if m.Tally = (divergence.Tally{divergence.AgreeDeny: 100}); m.Unix%share == 0 {
					m.Count(divergence.NewlyDenied, uint64(m.Unix))
				}
			},
		} {
			e := each(over(240*time.Hour), func(m *divergence.Minute) { useIt(m, share) })
			if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Verdict == pass {
				t.Errorf("%s passes though 1 minute in %d shows it: %s", name, share, g.Reason)
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
		e := over(48 * time.Hour)
		e.Now = e.Now.Add(-59 * time.Second) // 47:59:01, the last minute began a second ago
		if g := gate.Assess(cfg, e); g.Verdict != wait || g.CleanHours >= 48 {
			t.Errorf("%s after 47:59:01, %g clean hours: want %s", g.Verdict, g.CleanHours, wait)
		}
	})
	t.Run("closes no block", func(t *testing.T) {
		e := over(time.Hour)
		e.Now = e.Now.Add(-59 * time.Second)
		if g := gate.Assess(cfg, e); g.Divergence.UpperBound != nil || g.Divergence.Score != 1 {
			t.Errorf("score %g of a block that lasts 59:01: want it open, score 1", g.Divergence.Score)
		}
	})
}

// Three bad hours of one ratio are three strikes. A longer bad block of another
// ratio is more evidence against the candidate, and must not make them one.
func TestBadBlocksOfOneRatioStayApart(t *testing.T) {
	e := harmIn(over(200*time.Hour), 9, 60, 61, 62)
	if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Strikes != 3 || g.Verdict != fail {
		t.Fatalf("%d strikes, %s: want 3 and %s", g.Strikes, g.Verdict, fail)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	start := monday.Unix() / 60
	e = each(e, func(m *divergence.Minute) { // denials so rare that their block lasts as long as the bad hours
		at := m.Unix - start
		if m.Tally[divergence.AgreeDeny] = 0; at < 60*hour || at >= 63*hour {
			m.Tally[divergence.AgreeDeny] = 10
		} else if at%18 == 0 {
			harm(m, divergence.NewlyAllowed, 1, 100, rng)
		}
	})
	if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Strikes < 3 || g.Verdict != fail {
		t.Errorf("%d strikes, %s: want 3 and %s as without the newly allowed", g.Strikes, g.Verdict, fail)
	}
}

// What is equal as written is at the threshold, and not over the cap: the gate
// shows ratio and threshold as the same number.
func TestThresholdsAreDecimal(t *testing.T) {
	t.Run("at the threshold", func(t *testing.T) {
		cfg := gate.Config{Divergence: 0.017, NewlyDenied: 0.5}.WithDefaults()
		e := over(72 * time.Hour)
		e.History.Minutes = e.History.Minutes[:1]
		e.History.Minutes[0].Tally = divergence.Tally{divergence.AgreeAllow: 2949, divergence.NewlyDenied: 51}
		if g := gate.Assess(cfg, e); g.Verdict != fail {
			t.Errorf("ratio %g, threshold %g: %s, want %s", *g.Divergence.Ratio, g.Divergence.Threshold, g.Verdict, fail)
		}
	})
	t.Run("at the cap", func(t *testing.T) {
		cfg := gate.Config{Divergence: 0.011}.WithDefaults()
		rng := rand.New(rand.NewPCG(1, 1))
		e := each(over(72*time.Hour), func(m *divergence.Minute) { // an hour of 110 in 2000
			switch at := m.Unix - monday.Unix()/60; {
			case at == 5*hour:
				m.Tally = divergence.Tally{divergence.AgreeAllow: 1890}
				harm(m, divergence.NewlyDenied, 110, 9, rng)
			case at/hour == 5:
				m.Tally = divergence.Tally{}
			}
		})
		if g := gate.Assess(cfg, e); g.Strikes != 0 {
			t.Errorf("%d strikes by a block at its cap of 5.5 %%: want none", g.Strikes)
		}
	})
}

// Properties.

// drawRatios draws block ratios about a threshold.
func drawRatios(t *rapid.T, p0 float64, most int) []float64 {
	high := math.Min(1, 8*p0)
	return rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Just(p0), rapid.Float64Range(0, high), rapid.Just(high)), 0, most).Draw(t, "ratios")
}

func drawThreshold(t *rapid.T) float64 {
	return rapid.OneOf(rapid.SampledFrom([]float64{0.001, 0.02, 0.5, 0.9}), rapid.Float64Range(1e-4, 0.99)).Draw(t, "p0")
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }
