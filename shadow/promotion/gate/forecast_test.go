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

// The gate passes at the instant of its forecast and not a minute earlier, if all stays as it was.
func TestForecastComesTrue(t *testing.T) {
	tests := []struct {
		name     string
		soak     time.Duration // declared; 0 if graded
		percent  float64
		badHours []int64
		from     int           // the hour from which on there is a forecast with the right instant
		want     time.Duration // the pass, after the start
	}{
		{"no strike", 0, 0, nil, 20, 48 * time.Hour},
		{"to most keys", 0, 100, nil, 20, 168 * time.Hour},
		{"the strike stays", 0, 0, []int64{49}, 76, (50 + 96) * time.Hour},
		{"twice a declared soak, not of whole hours", 4995 * time.Minute, 100, []int64{49}, 76, (50*60 + 2*4995) * time.Minute},
		{"a declared soak is over, the strike leaves", 100 * time.Hour, 100, []int64{49}, 76, (50 + 168) * time.Hour},
		{"the week is over, the strike leaves", 0, 100, []int64{49}, 76, (50 + 168) * time.Hour},
		{"the strike leaves before a long soak is over", 200 * time.Hour, 100, []int64{49}, 76, (50 + 200) * time.Hour},
		{"the first strike leaves", 70 * time.Hour, 100, []int64{49, 73}, 125, (50 + 168) * time.Hour},
		{"both strikes leave", 100 * time.Hour, 100, []int64{49, 73}, 125, (74 + 168) * time.Hour},
	}

	for _, tt := range tests {
		cfg := gate.Config{Soak: tt.soak}.WithDefaults()
		assess := func(minutes int) gate.Result {
			e := evidence{minutes: minutes, badHours: tt.badHours}.build()
			e.Step = gate.Step{Name: "a step", Percent: tt.percent}
			return gate.Assess(cfg, e)
		}

		instant, last := monday.Add(tt.want), int(tt.want.Minutes())-1
		for at := tt.from * hour; at < last; at += (last - tt.from*hour) / 7 {
			if g := assess(at); g.WouldPassAt == nil || !g.WouldPassAt.Equal(instant) {
				t.Errorf("%s: the forecast at minute %d is %v, want %s (%s)", tt.name, at, g.WouldPassAt, instant, g.Reason)
			}
		}

		if g := assess(last); g.Verdict == pass {
			t.Errorf("%s: %s (%s) a minute before the forecast", tt.name, g.Verdict, g.Reason)
		}
		if g := assess(last + 1); g.Verdict != pass {
			t.Errorf("%s: %s (%s) at the forecast", tt.name, g.Verdict, g.Reason)
		}
	}
}

// The forecast says which condition decides it: a reader must not take the date for that of the first obstacle.
func TestForecastNamesTheConditionThatDecides(t *testing.T) {
	tests := []struct {
		name    string
		cfg     gate.Config
		e       evidence
		percent float64
		want    string
	}{
		{"clean time, behind hours", gate.Config{}, evidence{hours: 20}, 0, "48 h are clean"},
		{"clean time after a strike", gate.Config{}, evidence{hours: 76, badHours: []int64{49}}, 0, "96 h are clean"},
		{"a strike leaves", gate.Config{Soak: 100 * time.Hour}, evidence{hours: 76, badHours: []int64{49}}, 0,
			"a strike no longer counts, and 100 h are clean"},
		{"hours", gate.Config{Soak: time.Hour, Divergence: 0.3, NewlyDenied: 0.3, ExtraLoad: 0.3}, evidence{hours: 20}, 0,
			"every hour of the day was seen"},
		{"weekdays", gate.Config{}, evidence{hours: 171, away: hoursFrom(147, 160)}, 100, "every weekday was seen"},
		{"denials", gate.Config{MinDenials: 60_000}, evidence{hours: 72}, 0, "the authoritative has denied 60,000 requests"},
		{"a score", gate.Config{Soak: time.Hour}, evidence{hours: 26}, 0, "the score of newly_denied is 20"},
	}

	for _, tt := range tests {
		e := tt.e.build()
		e.Step.Percent = tt.percent
		g := gate.Assess(tt.cfg.WithDefaults(), e)
		if g.WouldPassAt == nil || g.WouldPassWhen != tt.want || !strings.Contains(g.Reason, "at the earliest, when "+tt.want+", if traffic") {
			t.Errorf("%s: %v when %q, want %q in %q", tt.name, g.WouldPassAt, g.WouldPassWhen, tt.want, g.Reason)
		}
		if g.NotBefore != nil || g.NotBeforeFor != "" {
			t.Errorf("%s: not before %v because of %q beside a forecast", tt.name, g.NotBefore, g.NotBeforeFor)
		}
	}
}

// Where something must be done first, there is still an instant before which nothing passes.
func TestNotBefore(t *testing.T) {
	soaked := monday.Add(48 * time.Hour)
	tests := []struct {
		name string
		cfg  gate.Config
		e    evidence
		want time.Time // zero for none
		of   string
	}{
		{"no instance", gate.Config{}, evidence{hours: 30, noInstance: true}, soaked, "the clean time"},
		{"a ratio", gate.Config{}, evidence{hours: 20, minute: twoInAHundred}, soaked, "the clean time"},
		{"nothing compared", gate.Config{}, evidence{hours: 20, noTraffic: true}, soaked, "the clean time"},
		{"no rate", gate.Config{}, evidence{hours: 20, minute: neverDenied}, soaked, "the clean time"},
		{"never", gate.Config{MinDeniedKeys: 1000}, evidence{hours: 30}, soaked, "the clean time"},
		{"all else is there", gate.Config{}, evidence{hours: 72, silent: "web-8"}, time.Time{}, ""},
		{"a score is no bound", gate.Config{Divergence: 0.03, NewlyDenied: 0.001}, evidence{
			hours: 72, minute: oneLately,
		}, time.Time{}, ""},
	}

	for _, tt := range tests {
		g := gate.Assess(tt.cfg.WithDefaults(), tt.e.build())
		if g.WouldPassAt != nil || (g.NotBefore == nil) != tt.want.IsZero() || g.NotBefore != nil && !g.NotBefore.Equal(tt.want) ||
			g.NotBeforeFor != tt.of {
			t.Errorf("%s: not before %v because of %q, want %s and %q (%s)", tt.name, g.NotBefore, g.NotBeforeFor, tt.want, tt.of, g.Reason)
		}
	}
}

// oneLately newly denies 3 % in the last three hours.
func oneLately(m *divergence.Minute) {
	if m.Unix >= mondayMinute+69*hour {
		m.Tally[divergence.AgreeAllow] -= 3
		harm(m, divergence.NewlyDenied, 3, 1, rand.New(rand.NewPCG(1, 1)))
	}
}

// A date that moves away as time goes on is worse than none. Where what was counted no longer comes, there is no date a day later.
func TestForecastsOfWhatHasEndedAreWithdrawn(t *testing.T) {
	early := func(n int64) func(*divergence.Minute) {
		return func(m *divergence.Minute) {
			if neverDenied(m); m.Unix < mondayMinute+n {
				m.Tally[divergence.AgreeDeny] = 1
			}
		}
	}
	tests := []struct {
		name string
		cfg  gate.Config
		e    evidence
		want string // in NoForecast, a day later
	}{
		{"keys", gate.Config{}, evidence{deniedKeys: 5}, "no new denied key has come for "},
		{"denials", gate.Config{MinDenials: 100, NewlyAllowed: 0.9}, evidence{minute: early(60)}, "the authoritative has denied nothing for "},
		{"a block that is not full", gate.Config{MinDenials: 50, NewlyAllowed: 0.01}, evidence{minute: early(60)},
			"the authoritative has denied nothing for "},
	}

	for _, tt := range tests {
		for hours := 2; hours <= 12*24; hours += 5 {
			tt.e.hours = hours
			g := gate.Assess(tt.cfg.WithDefaults(), tt.e.build())
			if hours > 26 && (g.WouldPassAt != nil || g.Never || !strings.HasPrefix(g.NoForecast, tt.want)) {
				t.Fatalf("%s: after %d h %v, never %t, %q", tt.name, hours, g.WouldPassAt, g.Never, g.NoForecast)
			}
			if hours == 2 && tt.name != "keys" && g.WouldPassAt == nil {
				t.Errorf("%s: after %d h no date, so that nothing is withdrawn: %q", tt.name, hours, g.NoForecast)
			}
		}
	}
}

// What comes steadily has the date at which it suffices. Keys that came all at once before are not extrapolated.
func TestForecastsOfWhatComesSteadilyComeTrue(t *testing.T) {
	every := func(minutes int64, least, n int) (denied []int64) {
		denied = slices.Repeat([]int64{mondayMinute}, least)
		for i := range int64(n - least) {
			denied = append(denied, mondayMinute+(i+1)*minutes-1)
		}
		return denied
	}
	hourly := func(m *divergence.Minute) {
		if neverDenied(m); (m.Unix-mondayMinute)%60 == 59 {
			m.Tally[divergence.AgreeDeny] = 3
		}
	}
	tests := []struct {
		name   string
		cfg    gate.Config
		minute func(*divergence.Minute)
		denied []int64
		from   int // the hour from which on the date is right
		want   int // the hour of the pass
	}{
		{"a key every 3 hours", gate.Config{}, nil, every(180, 0, 40), 24, 60},
		{"5 at once, and one every 3 hours", gate.Config{MinDeniedKeys: 25}, nil, every(180, 5, 40), 27, 60},
		{"denials", gate.Config{MinDenials: 201}, hourly, deniedOnMonday, 24, 67},
	}

	for _, tt := range tests {
		at := func(hours int) gate.Result {
			e := cut(evidence{hours: tt.want + 1, minute: tt.minute}.build(), tt.denied, at(hours))
			return gate.Assess(tt.cfg.WithDefaults(), e)
		}
		for hours := tt.from; hours < tt.want; hours += 3 {
			if g := at(hours); g.WouldPassAt == nil || !g.WouldPassAt.Equal(monday.Add(time.Duration(tt.want)*time.Hour)) {
				t.Errorf("%s: at hour %d %v, want hour %d (%s)", tt.name, hours, g.WouldPassAt, tt.want, g.Reason)
			}
		}
		if at(tt.want-1).Verdict == pass || at(tt.want).Verdict != pass {
			t.Errorf("%s: %s an hour before, and %s", tt.name, at(tt.want-1).Reason, at(tt.want).Reason)
		}
	}
}

// The ledger does not have when keys were first denied.
func TestNoForecastOfKeysFromTheLedger(t *testing.T) {
	e := evidence{hours: 30, deniedKeys: 5}.build()
	e.Denied = nil
	if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.WouldPassAt != nil || g.NoForecast == "" {
		t.Errorf("%v, %q", g.WouldPassAt, g.NoForecast)
	}
}
