package gate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// apart are sides that share no record, of a window of an hour.
var apart = gate.Sides{Apart: true, Window: time.Hour, Stores: [2]string{"", "redis-b"}}

// oneSided makes some of the cost of a minute one-sided: as the calls of a store fail, the checks are not compared.
func oneSided(m *evidence.Minute, cost int64) {
	m.Disturbed = &evidence.Disturbance{Compared: [2]int64{m.Tally.AuthoritativeAllows(), m.Tally.AuthoritativeDenies()}}
	m.Disturbed.OneSided[algorithms.Candidate][algorithms.StoreFailed] = cost
}

// disturbedBy is calm traffic of sides that are apart, with an undisturbed window before it, changed by the hour.
func disturbedBy(sides gate.Sides, hours int, minute func(m *evidence.Minute, hour, minute int64)) gate.Evidence {
	e := hoursOf{hours: hours, minute: func(m *evidence.Minute) {
		oneSided(m, 0)
		at := m.Unix - mondayMinute
		minute(m, at/hour, at%hour)
	}}.build()
	e.Sides = sides
	return e
}

// long is how many hours of evidence let a calm candidate pass.
const long = 72

// seenBy is the time seen.
func seenBy(t *testing.T, g gate.Result) float64 {
	t.Helper()
	var h float64
	if _, err := fmt.Sscanf(conditionOf(t, g, "time seen").Have, "%g h", &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// Sides apart whose time is undisturbed pass as others do, without their first window.
func TestCalmSidesApartPass(t *testing.T) {
	e := disturbedBy(apart, long, func(*evidence.Minute, int64, int64) {})
	g := gate.Assess(gate.Config{}.WithDefaults(), e)
	if g.Verdict != gate.Pass || seenBy(t, g) != long-1 || g.UndisturbedHours != 24 || *g.Disturbed != 0 || g.DisturbedBy != "" {
		t.Errorf("%s (%s), %g h seen, %g h and %v of the last day", g.Verdict, g.Reason, seenBy(t, g), g.UndisturbedHours, *g.Disturbed)
	}
}

// An hour counts for the candidate if a twentieth of the threshold is one-sided, in it and in the window before it.
func TestAnHourCountsUpToATwentiethOfTheThreshold(t *testing.T) {
	// Of 100 in a minute, 6,000 in an hour and as many in the window before: 2 % needs at most 12 of 12,012.
	for missed, wantLost := range map[int64]float64{12: 0, 13: 2} {
		e := disturbedBy(apart, long, func(m *evidence.Minute, h, at int64) {
			if h == 60 && at == 30 {
				oneSided(m, missed)
			}
		})
		g := gate.Assess(gate.Config{}.WithDefaults(), e)
		if lost := long - 1 - seenBy(t, g); lost != wantLost || g.UndisturbedHours != 24-wantLost {
			t.Errorf("%d one-sided in an hour: %g h lost, %g h of the last day count, want %g h lost", missed, lost, g.UndisturbedHours, wantLost)
		}
		if g.Verdict != gate.Pass {
			t.Errorf("%d one-sided in an hour long ago: %s, %s", missed, g.Verdict, g.Reason)
		}
	}
}

// Undisturbed time is back within the hour and one window.
func TestUndisturbedTimeIsBackAfterAWindow(t *testing.T) {
	lost := func(window time.Duration) float64 {
		sides := apart
		sides.Window = window
		e := disturbedBy(sides, long, func(m *evidence.Minute, h, at int64) {
			if h == 60 && at == 59 {
				oneSided(m, 100)
			}
		})
		return long - window.Hours() - seenBy(t, gate.Assess(gate.Config{}.WithDefaults(), e))
	}
	for window, want := range map[time.Duration]float64{time.Hour: 2, 3 * time.Hour: 4} {
		if got := lost(window); got != want {
			t.Errorf("a window of %s: %g h lost, want the hour and a window, %g h", window, got, want)
		}
	}
}

// A candidate whose sides share no record is not failed by what a disturbance may have done, and one that denies all is.
func TestWhatCountsAgainstTheCandidate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	deny := func(m *evidence.Minute, n int64) {
		m.Tally[evidence.AgreeAllow] -= n
		harm(m, evidence.NewlyDenied, n, 100, rng)
	}
	tests := map[string]struct {
		minute func(m *evidence.Minute, h, at int64)
		fails  bool
	}{
		// 8 % of differences, and 1 % of one-sided cost.
		"lessened to nothing": {func(m *evidence.Minute, _, _ int64) { deny(m, 7); oneSided(m, 1) }, false},
		"of keys that both deny": {func(m *evidence.Minute, _, _ int64) {
			m.Tally[evidence.AgreeAllow] -= 30
			m.Tally[evidence.NewlyDenied] += 30
			oneSided(m, 0)
			m.Disturbed.Shifted[0] = 30
		}, false},
		"undisturbed": {func(m *evidence.Minute, _, _ int64) { deny(m, 30); oneSided(m, 0) }, true},
		"denies all, a fifth of a percent for ever": {func(m *evidence.Minute, _, at int64) {
			deny(m, 90)
			oneSided(m, 0)
			if at%5 == 0 {
				oneSided(m, 1)
			}
		}, true},
	}
	for name, test := range tests {
		g := gate.Assess(gate.Config{}.WithDefaults(), disturbedBy(apart, 50, test.minute))
		if (g.Verdict == gate.Fail) != test.fails {
			t.Errorf("%s: %s, %s", name, g.Verdict, g.Reason)
		}
		if g.Verdict == gate.Pass {
			t.Errorf("%s: passes", name)
		}
	}
}

// Differences that do not count against a candidate count against a pass.
func TestNoPassByDifferencesThatAreLeftOut(t *testing.T) {
	e := disturbedBy(apart, long, func(m *evidence.Minute, _, _ int64) {
		m.Tally[evidence.AgreeAllow] -= 3
		m.Tally[evidence.NewlyDenied] += 3
		oneSided(m, 0)
		m.Disturbed.Shifted[0] = 3
	})
	g := gate.Assess(gate.Config{}.WithDefaults(), e)
	if g.Verdict != gate.Wait || *g.NewlyDenied.Ratio != 3.0/90 || g.NewlyDenied.Regression >= 5 {
		t.Errorf("%s (%s), newly denied %+v", g.Verdict, g.Reason, g.NewlyDenied)
	}
}

// A mark silences what counts for and what counts against a candidate, for a window and no longer.
func TestMarksSilenceForAWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	// All is newly denied from the mark on, for some minutes: with the minute before the mark and the one after it.
	judge := func(sides gate.Sides, minutes int64) gate.Result {
		return gate.Assess(gate.Config{}.WithDefaults(), disturbedBy(sides, long, func(m *evidence.Minute, h, at int64) {
			since := h*60 + at - 60*60
			if since == 0 {
				m.Disturbed.Marks = 1
			}
			if since >= 0 && since < minutes {
				m.Tally[evidence.AgreeAllow] = 0
				harm(m, evidence.NewlyDenied, 90, 100, rng)
			}
		}))
	}

	shared := gate.Sides{Window: time.Hour, Copied: true}
	for name, sides := range map[string]gate.Sides{"apart": apart, "one record": shared} {
		if g := judge(sides, 61); g.Verdict != gate.Pass || g.NewlyDenied.Regression >= 5 || *g.NewlyDenied.Ratio != 0 {
			t.Errorf("%s, within the window: %s (%s)", name, g.Verdict, g.Reason)
		}
		if g := judge(sides, 61+60); *g.NewlyDenied.Ratio == 0 {
			t.Errorf("%s, an hour behind the window: %s (%s)", name, g.Verdict, g.Reason)
		}
		g := judge(sides, 0)
		if want := 62.0 / 60; 24-g.UndisturbedHours < want-0.02 || 24-g.UndisturbedHours > want+0.02 || g.DisturbedBy == "" {
			t.Errorf("%s: %g h of the last day count, want all but the window and the minutes of the mark; by %q", name, g.UndisturbedHours, g.DisturbedBy)
		}
	}
}

// The first window of a side that begins fresh is marked. A candidate that begins as a copy has none.
func TestTheFirstWindowOfAFreshSideIsMarked(t *testing.T) {
	for sides, want := range map[gate.Sides]float64{
		{Window: 90 * time.Minute}:               48 - 1.5,
		{Window: 90 * time.Minute, Apart: true}:  48 - 1.5,
		{Window: 90 * time.Minute, Copied: true}: 48,
		{}:                                       48,
	} {
		e := hoursOf{hours: 48}.build()
		e.Sides = sides
		if g := gate.Assess(gate.Config{}.WithDefaults(), e); seenBy(t, g) != want {
			t.Errorf("%+v: %g h seen, want %g", sides, seenBy(t, g), want)
		}
	}

	e := hoursOf{hours: 1}.build()
	e.Sides = gate.Sides{Window: 90 * time.Minute}
	if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.DisturbedBy == "" || *g.Disturbed != 1 {
		t.Errorf("within the window: %s, %v of the time", g.Reason, *g.Disturbed)
	}
}

// An hour that is missing, and an instance that is not heard, disturb sides that share no record.
func TestWhatNobodyKnowsIsMarked(t *testing.T) {
	calm := func(*evidence.Minute, int64, int64) {}
	missing := func(sides gate.Sides) gate.Evidence {
		e := hoursOf{hours: long, away: hoursFrom(60, 62)}.build()
		e.Sides = sides
		return e
	}
	unheard := func(sides gate.Sides) gate.Evidence {
		e := disturbedBy(sides, long, calm)
		e.Unheard = e.Now.Add(-90 * time.Minute)
		return e
	}
	shared := gate.Sides{Window: time.Hour, Copied: true}
	for name, test := range map[string]struct {
		e       gate.Evidence
		hours   float64 // of the last day that count
		verdict string
	}{
		"missing, apart":      {missing(apart), 24 - 2 - 1, gate.Pass},
		"missing, one record": {missing(shared), 24 - 2, gate.Pass},
		"unheard, apart":      {unheard(apart), 24 - 1.5, gate.Pass},
		"unheard, one record": {unheard(shared), 24, gate.Pass},
	} {
		if g := gate.Assess(gate.Config{}.WithDefaults(), test.e); g.UndisturbedHours != test.hours || g.Verdict != test.verdict {
			t.Errorf("%s: %g h count, %s (%s), want %g h and %s", name, g.UndisturbedHours, g.Verdict, g.Reason, test.hours, test.verdict)
		}
	}
}

// Where nothing can be compared yet because sides are young, the reason says so.
func TestYoungSidesAreNamed(t *testing.T) {
	e := disturbedBy(apart, 1, func(m *evidence.Minute, _, _ int64) {
		m.Tally = evidence.Tally{}
		m.Disturbed = &evidence.Disturbance{Young: 100}
	})
	plain := hoursOf{hours: 1, noTraffic: true}.build()
	young, none := gate.Assess(gate.Config{}.WithDefaults(), e), gate.Assess(gate.Config{}.WithDefaults(), plain)
	if young.Reason == none.Reason {
		t.Errorf("%s, as without traffic", young.Reason)
	}
}

// The last minutes of a candidate that is enforced for all keys, of sides apart.
type lastMinutes struct {
	sides  gate.Sides
	minute func(*evidence.Minute) // each of the last half hour
	tick   func(*evidence.Tick)   // each of it
	usual  float64                // share of its own denials before
}

func (l lastMinutes) alarm() gate.Alarm {
	since, now := monday, monday.Add(72*time.Hour)
	r := gate.Recent{Sides: l.sides, Since: since, Now: now, StageAt: now.Add(-time.Hour)}
	for at := since.Unix() / 60; at < now.Unix()/60; at++ {
		m := evidence.Minute{Unix: at}
		m.Tally[evidence.AgreeAllow], m.Tally[evidence.AgreeDeny] = int64(600*(1-l.usual)), int64(600*l.usual)
		oneSided(&m, 0)
		if at >= now.Unix()/60-30 {
			l.minute(&m)
		}
		r.Minutes = append(r.Minutes, m)
	}
	for at := now.Unix()/10 - 180; at < now.Unix()/10; at++ {
		tick := evidence.Tick{Unix: at}
		l.tick(&tick)
		r.Ticks = append(r.Ticks, tick)
	}
	return gate.Alarms(gate.Config{}.WithDefaults(), r)
}

// denies makes all of a tick's 100 requests newly denied, of many keys.
func denies(tick *evidence.Tick) {
	tick.Tally = evidence.Tally{evidence.NewlyDenied: 90, evidence.AgreeDeny: 10}
	for key := range uint32(20) {
		tick.Harmed = append(tick.Harmed, uint32(tick.Unix)*100+key)
	}
}

func deniesMinute(m *evidence.Minute) {
	m.Tally = evidence.Tally{}
	harm(m, evidence.NewlyDenied, 540, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
	m.Tally[evidence.AgreeDeny] = 60
}

// A stall of a store makes twins differ, and no alarm of it. A candidate that denies all is found in every disturbance.
func TestAlarmsKnowOfDisturbances(t *testing.T) {
	sides := apart
	sides.Window = time.Minute
	marked := func(tick *evidence.Tick) { tick.Disturbed = &evidence.Disturbance{Marks: 1} }
	missed := func(d *evidence.Disturbance, cost int64) {
		d.OneSided[algorithms.Candidate][algorithms.StoreFailed] += cost
	}
	stalled := func(tick *evidence.Tick) {
		tick.Disturbed = &evidence.Disturbance{Compared: [2]int64{90, 10}}
		missed(tick.Disturbed, 20)
	}

	tests := map[string]struct {
		minute func(*evidence.Minute)
		tick   func(*evidence.Tick)
		usual  float64
		want   gate.Level
	}{
		"undisturbed": {deniesMinute, denies, 0.1, gate.RollBack},
		"a twin after a stall": {
			func(m *evidence.Minute) {
				harm(m, evidence.NewlyDenied, 180, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
				oneSided(m, 120)
			},
			func(tick *evidence.Tick) {
				denies(tick)
				tick.Tally = evidence.Tally{evidence.AgreeAllow: 60, evidence.NewlyDenied: 30, evidence.AgreeDeny: 10}
				stalled(tick)
			}, 0.1, gate.Calm,
		},
		"a twin after a loss": {
			func(m *evidence.Minute) {
				harm(m, evidence.NewlyDenied, 300, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
				m.Disturbed.Marks = 1
			},
			func(tick *evidence.Tick) {
				denies(tick)
				tick.Tally = evidence.Tally{evidence.AgreeAllow: 40, evidence.NewlyDenied: 50, evidence.AgreeDeny: 10}
				marked(tick)
			}, 0.1, gate.Calm,
		},
		"keys that both deny": {
			func(m *evidence.Minute) {
				m.Tally[evidence.NewlyDenied] += 300
				m.Disturbed.Shifted[0] = 300
			},
			func(tick *evidence.Tick) {
				tick.Tally = evidence.Tally{evidence.AgreeAllow: 50, evidence.NewlyDenied: 50}
				tick.Disturbed = &evidence.Disturbance{Shifted: [2]int64{50, 0}}
			}, 0.1, gate.Calm,
		},
		"denies all after a stall": {
			func(m *evidence.Minute) { deniesMinute(m); oneSided(m, 120) },
			func(tick *evidence.Tick) { denies(tick); stalled(tick) }, 0.1, gate.RollBack,
		},
		"denies all after a loss": {
			func(m *evidence.Minute) { deniesMinute(m); m.Disturbed.Marks = 1 },
			func(tick *evidence.Tick) { denies(tick); marked(tick) }, 0.1, gate.RollBack,
		},
		"denies all that only it answers": {
			func(m *evidence.Minute) { m.Tally = evidence.Tally{evidence.AuthoritativeError: 600} },
			func(tick *evidence.Tick) {
				tick.Tally, tick.Alone = evidence.Tally{evidence.AuthoritativeError: 100}, [2]int64{0, 100}
			}, 0.1, gate.RollBack,
		},
		"the same, as usual": {
			func(m *evidence.Minute) { m.Tally = evidence.Tally{evidence.AuthoritativeError: 600} },
			func(tick *evidence.Tick) {
				tick.Tally, tick.Alone = evidence.Tally{evidence.AuthoritativeError: 100}, [2]int64{0, 100}
			}, 0.6, gate.Calm,
		},
		"a storm of one client that only it answers": {
			func(m *evidence.Minute) { m.Tally = evidence.Tally{evidence.AuthoritativeError: 600} },
			func(tick *evidence.Tick) {
				tick.Tally, tick.Alone = evidence.Tally{evidence.AuthoritativeError: 100}, [2]int64{9, 91}
				tick.Lonely = evidence.Weights{{Key: 1, Count: 90}}
			}, 0.1, gate.Calm,
		},
		"a storm that both deny": {
			func(m *evidence.Minute) {
				m.Tally = evidence.Tally{evidence.AgreeAllow: 40, evidence.AgreeDeny: 560}
				oneSided(m, 120)
			},
			func(tick *evidence.Tick) {
				tick.Tally = evidence.Tally{evidence.AgreeAllow: 8, evidence.AgreeDeny: 92}
				stalled(tick)
			}, 0.1, gate.Calm,
		},
	}
	for name, test := range tests {
		if a := (lastMinutes{sides, test.minute, test.tick, test.usual}).alarm(); a.Level != test.want {
			t.Errorf("%s: %+v, want level %d", name, a, test.want)
		}
	}
}

// Triggers look no further than what all instances have written.
func TestTriggersWaitForWhatIsWritten(t *testing.T) {
	now := monday.Add(72 * time.Hour)
	r := gate.Recent{Sides: apart, Since: monday, Now: now, StageAt: now.Add(-time.Hour)}
	for at := now.Unix()/10 - 6; at < now.Unix()/10; at++ {
		tick := evidence.Tick{Unix: at}
		denies(&tick)
		r.Ticks = append(r.Ticks, tick)
	}

	cfg := gate.Config{}.WithDefaults()
	if a := gate.Triggers(cfg, r); a.Level != gate.RollBack {
		t.Errorf("all is written: %+v", a)
	}
	r.Written = now.Add(-time.Minute)
	if a := gate.Triggers(cfg, r); a.Level != gate.Calm {
		t.Errorf("nothing of it is written by all: %+v", a)
	}
	r.Sides.Apart = false
	if a := gate.Triggers(cfg, r); a.Level != gate.RollBack {
		t.Errorf("sides that share a record: %+v", a)
	}
}

// A walk through disturbed evidence takes a step when an assessment would have passed.
func TestWalkOfDisturbedEvidence(t *testing.T) {
	e := disturbedBy(apart, 100, func(m *evidence.Minute, h, at int64) {
		if h >= 20 && h < 40 {
			oneSided(m, 1)
		}
		if h == 70 && at == 10 {
			m.Disturbed.Marks = 1
		}
	})
	cfg := gate.Config{}.WithDefaults()
	taken := gate.Walk(cfg, e, steps[:1], 0)
	if len(taken) == 0 {
		t.Fatal("never passed")
	}
	verdict := func(now time.Time) string {
		then := e
		then.Step, then.Now = steps[0], now
		n, _ := slices.BinarySearchFunc(e.History.Minutes, now.Unix()/60, func(m evidence.Minute, unix int64) int { return int(m.Unix - unix) })
		then.History.Minutes = e.History.Minutes[:n]
		return gate.Assess(cfg, then).Verdict
	}
	if before, at := verdict(taken[0].Add(-time.Hour)), verdict(taken[0]); before == gate.Pass || at != gate.Pass {
		t.Errorf("taken at %s: an hour before %s, then %s", taken[0], before, at)
	}
}

// Each reason for which a side may miss checks has words.
func TestReasonsOfDisturbancesHaveWords(t *testing.T) {
	seen := map[string]algorithms.SkipReason{}
	for _, reason := range algorithms.AllSkipReasons {
		e := disturbedBy(apart, 3, func(m *evidence.Minute, _, _ int64) {
			m.Disturbed.OneSided[algorithms.Candidate][reason] = 1
		})
		by := gate.Assess(gate.Config{}.WithDefaults(), e).DisturbedBy
		_, by, _ = strings.Cut(by, "(")
		if other, taken := seen[by]; taken || !strings.Contains(by, " redis-b") || strings.HasPrefix(by, " ") {
			t.Errorf("%s is worded %q, %s too", reason, by, other)
		}
		seen[by] = reason
	}
}
