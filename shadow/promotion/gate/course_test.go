package gate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// at is an instant, in hours after Monday's start.
func at(hours int) time.Time { return monday.Add(time.Duration(hours) * time.Hour) }

// deniedOnMonday are 50 keys that were denied in Monday's first minute.
var deniedOnMonday = slices.Repeat([]int64{mondayMinute}, 50)

// cut returns the evidence as it was known at an instant.
func cut(e gate.Evidence, denied []int64, now time.Time) gate.Evidence {
	unix := now.Unix() / 60
	e.Now = now

	known := countIf(e.History.Minutes, func(m divergence.Minute) bool { return m.Unix < unix })
	e.History.Minutes = e.History.Minutes[:known]
	var live []divergence.Span
	for _, s := range e.History.Live {
		if s.From < unix {
			live = append(live, divergence.Span{From: s.From, To: min(s.To, unix)})
		}
	}
	e.History.Live = live
	e.Denied = denied[:countIf(denied, func(m int64) bool { return m < unix })]
	e.History.Distinct[divergence.KeysDenied] = int64(len(e.Denied))
	return e
}

func countIf[T any](list []T, is func(T) bool) (n int) {
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return n
}

// in returns the verdict of a course at an instant, "" before the first.
func in(c gate.Course, now time.Time) (verdict string) {
	for _, v := range c.Verdicts {
		if !v.At.After(now) {
			verdict = v.Verdict
		}
	}
	return verdict
}

// TestCourseAgreesWithAssess asks the gate at every instant where the course says that the
// verdict changed, an hour before, at hours in between, and at the end.
func TestCourseAgreesWithAssess(t *testing.T) {
	changes := map[int]int{} // how far the draw reaches
	rapid.Check(t, func(t *rapid.T) {
		cfg, e := drawConfig(t), drawEvidence(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "keys' seed"), 0))
		var denied []int64
		for _, m := range e.History.Minutes {
			if m.Tally.AuthoritativeDenies() > 0 && rng.IntN(20) == 0 {
				denied = append(denied, m.Unix)
			}
		}
		e.History.Distinct[divergence.KeysDenied], e.Denied = int64(len(denied)), denied

		c := gate.Follow(cfg, e)
		if len(e.History.Minutes) == 0 {
			return
		}
		changes[len(c.Verdicts)]++

		// Within a week the gate counts all strikes, so that both have as many.
		g := gate.Assess(cfg, e)
		withinAWeek := e.Now.Sub(e.Since) < 7*24*time.Hour
		if in(c, e.Now) != g.Verdict || withinAWeek && len(c.Strikes) != g.Strikes {
			t.Fatalf("ends with %s and %d strikes, want %s and %d", in(c, e.Now), len(c.Strikes), g.Verdict, g.Strikes)
		}

		check := func(now time.Time) {
			if now.Before(e.Since.Add(time.Minute)) || !now.Before(e.Now.Truncate(time.Minute)) {
				return // no whole minutes, or the end
			}
			if g := gate.Assess(cfg, cut(e, denied, now)); in(c, now) != g.Verdict {
				t.Fatalf("%s at %s, want %s (%s)", in(c, now), now, g.Verdict, g.Reason)
			}
		}
		for _, v := range c.Verdicts[:min(len(c.Verdicts), 8)] {
			if !v.At.Before(e.Now) {
				continue
			}
			check(v.At.Add(-time.Hour))
			if g := gate.Assess(cfg, cut(e, denied, v.At)); v.Reason != g.Reason {
				t.Fatalf("at %s %q, want %q", v.At, v.Reason, g.Reason)
			}
		}

		first := e.Since.Truncate(time.Hour)
		for range 5 {
			check(first.Add(time.Duration(1+rng.Int64N(int64(e.Now.Sub(first)/time.Hour)+1)) * time.Hour))
		}
	})
	t.Logf("numbers of changes %v", changes)
}

func TestCourse(t *testing.T) {
	late := slices.Repeat([]int64{mondayMinute + 60*hour}, 50)
	tests := []struct {
		name    string
		e       evidence
		denied  []int64
		passed  int    // hours, 0 for never
		failed  int    // hours
		strikes string // hours
		course  string // hours and verdicts
	}{
		{
			"equivalent", evidence{hours: 72}, deniedOnMonday,
			48, 0, "", "1 insufficient_evidence, 24 wait, 48 pass",
		},
		{
			"an hour too short", evidence{hours: 47}, deniedOnMonday,
			0, 0, "", "1 insufficient_evidence, 24 wait",
		},
		{
			"keys denied late", evidence{hours: 72}, late,
			61, 0, "", "1 insufficient_evidence, 61 pass",
		},
		{
			"a strike", evidence{hours: 146, badHours: []int64{49}}, deniedOnMonday,
			48, 0, "49", "1 insufficient_evidence, 24 wait, 48 pass, 50 wait, 146 pass",
		},
		{
			"three strikes", evidence{hours: 250, badHours: []int64{149, 159, 169}}, deniedOnMonday,
			48, 170, "149 159 169", "1 insufficient_evidence, 24 wait, 48 pass, 150 wait, 170 fail",
		},
		{
			"one client's bad hours", evidence{hours: 200, badHours: []int64{149, 159, 169}, badKeys: 1}, deniedOnMonday,
			48, 0, "", "1 insufficient_evidence, 24 wait, 48 pass, 150 wait, 194 pass",
		},
		{
			"90 days, every other hour", evidence{hours: 90 * 24}, deniedOnMonday,
			48, 0, "", "2 insufficient_evidence, 24 wait, 48 pass",
		},
		{
			"always deny", evidence{hours: 4, minute: alwaysDeny}, deniedOnMonday,
			0, 3, "0 1 2 3", "1 insufficient_evidence, 3 fail",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := tt.e.build()
			e.History.Distinct[divergence.KeysDenied], e.Denied = int64(len(tt.denied)), tt.denied
			c := gate.Follow(gate.Config{}.WithDefaults(), e)

			var strikes, course []string
			for _, s := range c.Strikes {
				strikes = append(strikes, hoursAfter(s.From))
				if s.To.Sub(s.From) != time.Hour || s.Ratio != "newly_denied" || s.Value < 0.5 || s.Cap != 0.1 {
					t.Errorf("strike %+v: want an hour of newly_denied, cap 0.1", s)
				}
			}
			for _, v := range c.Verdicts {
				course = append(course, hoursAfter(v.At)+" "+v.Verdict)
			}

			if got := strings.Join(strikes, " "); got != tt.strikes {
				t.Errorf("strikes in hours %s, want %s", got, tt.strikes)
			}
			if got := strings.Join(course, ", "); got != tt.course {
				t.Errorf("course %s, want %s", got, tt.course)
			}
			if !is(c.PassedAt, tt.passed) || !is(c.FailedAt, tt.failed) {
				t.Errorf("passed at %v and failed at %v, want hours %d and %d", c.PassedAt, c.FailedAt, tt.passed, tt.failed)
			}
		})
	}
}

// hoursAfter writes an instant in hours after Monday's start.
func hoursAfter(now time.Time) string { return fmt.Sprint(now.Sub(monday).Hours()) }

func is(got *time.Time, hours int) bool {
	return hours == 0 && got == nil || hours > 0 && got != nil && got.Equal(at(hours))
}

// TestCourseOfManyChanges loses its coverage every 30 hours.
func TestCourseOfManyChanges(t *testing.T) {
	described := evidence{hours: 980}
	for i := int64(60); i < 980; i += 30 {
		minute := divergence.Span{From: i * hour, To: i*hour + 1}
		described.uncompared = append(described.uncompared, uncompared{1600, minute})
	}
	e := described.build()

	c := gate.Follow(gate.Config{}.WithDefaults(), e)
	if n := len(c.Verdicts); n != 50 || c.LeftOut == 0 {
		t.Fatalf("%d changes and %d left out, want 50 and some", n, c.LeftOut)
	}
	if c.Verdicts[30].At.Before(at(500)) {
		t.Errorf("change 31 is %+v: want the middle left out", c.Verdicts[30])
	}

	g := gate.Assess(gate.Config{}.WithDefaults(), e)
	first, last := c.Verdicts[0], c.Verdicts[49]
	if !first.At.Equal(at(1)) || last.Verdict != g.Verdict || last.At.Before(at(930)) {
		t.Errorf("from %+v to %+v: want the first hour and the last change", first, last)
	}
}

// A block counts from its end on, where that is the end of an hour.
func TestCoursePassesWithItsLastBlock(t *testing.T) {
	cfg := gate.Config{Divergence: 0.04, NewlyDenied: 0.5, NewlyAllowed: 0.9, Soak: 24 * time.Hour}.WithDefaults()
	e := evidence{hours: 120, minute: twoInAHundred}.build()
	c := gate.Follow(cfg, e)
	if c.PassedAt == nil || !c.PassedAt.After(at(24)) {
		t.Fatalf("passed at %v: want it to wait for the score", c.PassedAt)
	}

	before := gate.Assess(cfg, cut(e, deniedOnMonday, c.PassedAt.Add(-time.Hour)))
	now := gate.Assess(cfg, cut(e, deniedOnMonday, *c.PassedAt))
	if before.Verdict != wait || now.Verdict != pass {
		t.Errorf("passed at %s: %s, an hour before %s", c.PassedAt, now.Reason, before.Reason)
	}
}

func TestCourseOfNothing(t *testing.T) {
	c := gate.Follow(gate.Config{}.WithDefaults(), gate.Evidence{Live: 1})
	if c.PassedAt != nil || c.FailedAt != nil || c.Strikes == nil || len(c.Strikes)+len(c.Verdicts) > 0 {
		t.Errorf("%+v: want nothing, and lists in JSON", c)
	}
}

func TestCourseInWords(t *testing.T) {
	tests := []struct {
		name  string
		e     evidence
		wants []string
	}{
		{"42 hours", evidence{hours: 42}, []string{
			"not have passed yet; with --soak 42h it would have passed",
			"a log of 42 h is too short for a soak of 48 h",
		}},
		{"44 h and 20 minutes", evidence{hours: 44, minutes: 20}, []string{"with --soak 44h it would have"}},
		{"12 hours", evidence{hours: 12}, []string{"not have passed yet; a log of 12 h is too short"}},
		{"a strike", evidence{hours: 98, badHours: []int64{49}}, []string{
			"first at 2026-03-04 00:00",
			"1 strike\n    2026-03-04 01:00 to 2026-03-04 02:00  newly_denied 50 %, cap 10 %, from at least 3 keys",
		}},
		{"always deny", evidence{hours: 24, minute: alwaysDeny}, []string{
			"never have passed, and failed first at 2026-03-02 03:00\n",
			"and 19 more",
		}},
	}
	for _, tt := range tests {
		var b strings.Builder
		c := gate.Follow(gate.Config{}.WithDefaults(), tt.e.build())
		c.WriteText(&b)

		for _, want := range tt.wants {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, b.String())
			}
		}
	}
}

// The soak that is named is right: the gate passes by it.
func TestCourseNamesASoakThatPasses(t *testing.T) {
	cfg := gate.Config{Soak: 42 * time.Hour}.WithDefaults()
	if g := gate.Assess(cfg, evidence{hours: 42}.build()); g.Verdict != pass {
		t.Errorf("%s by a soak of 42 h: %s", g.Verdict, g.Reason)
	}
}

// BenchmarkFollow is three and a half days, and more than a course looks at by the hour.
func BenchmarkFollow(b *testing.B) {
	cfg := gate.Config{}.WithDefaults()
	for name, hours := range map[string]int{"84h": 84, "60d": 60 * 24} {
		e := evidence{hours: hours}.build()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				gate.Follow(cfg, e)
				gate.Propose(cfg, e)
			}
		})
	}
}
