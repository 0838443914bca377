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

// at is so many hours after Monday's start.
func at(hours int) time.Time { return monday.Add(time.Duration(hours) * time.Hour) }

// cut is what was known of evidence at an instant.
func cut(e gate.Evidence, denied []int64, now time.Time) gate.Evidence {
	unix := now.Unix() / 60
	e.Now = now
	e.History.Minutes = e.History.Minutes[:countIf(e.History.Minutes, func(m divergence.Minute) bool { return m.Unix < unix })]
	var live []divergence.Span
	for _, s := range e.History.Live {
		if s.From < unix {
			live = append(live, divergence.Span{From: s.From, To: min(s.To, unix)})
		}
	}
	e.History.Live = live
	e.History.Distinct[divergence.KeysDenied] = int64(countIf(denied, func(m int64) bool { return m < unix }))
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

// TestCourseAgreesWithAssess asks the gate anew where the course says that the
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
		e.History.Distinct[divergence.KeysDenied] = int64(len(denied))
		c := gate.Follow(cfg, e, denied)
		if len(e.History.Minutes) == 0 {
			return
		}
		changes[len(c.Verdicts)]++
		if g := gate.Assess(cfg, e); in(c, e.Now) != g.Verdict || e.Now.Sub(e.Since) < 7*24*time.Hour && len(c.Strikes) != g.Strikes {
			t.Fatalf("ends with %s and %d strikes, want %s and %d", in(c, e.Now), len(c.Strikes), g.Verdict, g.Strikes)
		}
		hour := e.Since.Truncate(time.Hour)
		check := func(now time.Time) {
			if now.Before(e.Since.Add(time.Minute)) || !now.Before(e.Now.Truncate(time.Minute)) { // no whole minutes, or the end
				return
			}
			if g := gate.Assess(cfg, cut(e, denied, now)); in(c, now) != g.Verdict {
				t.Fatalf("%s at %s, want %s (%s)", in(c, now), now, g.Verdict, g.Reason)
			}
		}
		for _, v := range c.Verdicts[:min(len(c.Verdicts), 8)] {
			if v.At.Before(e.Now) {
				check(v.At.Add(-time.Hour))
				if g := gate.Assess(cfg, cut(e, denied, v.At)); v.Reason != g.Reason {
					t.Fatalf("at %s %q, want %q", v.At, v.Reason, g.Reason)
				}
			}
		}
		for range 5 {
			check(hour.Add(time.Duration(1+rng.Int64N(int64(e.Now.Sub(hour)/time.Hour)+1)) * time.Hour))
		}
	})
	t.Logf("numbers of changes %v", changes)
}

func TestCourse(t *testing.T) {
	denied := slices.Repeat([]int64{monday.Unix() / 60}, 50)
	late := slices.Repeat([]int64{monday.Unix()/60 + 60*hour}, 50)
	h := time.Hour
	tests := []struct {
		name    string
		e       gate.Evidence
		denied  []int64
		passed  int    // hours, 0 for never
		failed  int    // hours
		strikes string // hours
		course  string // hours and verdicts
	}{
		{"equivalent", over(72 * h), denied, 48, 0, "", "1 insufficient_evidence, 24 wait, 48 pass"},
		{"an hour too short", over(47 * h), denied, 0, 0, "", "1 insufficient_evidence, 24 wait"},
		{"keys denied late", over(72 * h), late, 61, 0, "", "1 insufficient_evidence, 61 pass"},
		{"a strike", harmIn(over(146*h), 9, 49), denied, 48, 0, "49", "1 insufficient_evidence, 24 wait, 48 pass, 50 wait, 146 pass"},
		{"three strikes", harmIn(over(250*h), 9, 149, 159, 169), denied, 48, 170, "149 159 169", "1 insufficient_evidence, 24 wait, 48 pass, 150 wait, 170 fail"},
		{"one client's bad hours", harmIn(over(200*h), 1, 149, 159, 169), denied, 48, 0, "", "1 insufficient_evidence, 24 wait, 48 pass"},
		{"60 days, every other hour", over(60 * 24 * h), denied, 49, 0, "", "1 insufficient_evidence, 25 wait, 49 pass"},
		{"always deny", each(over(4*h), alwaysDeny), denied, 0, 1, "0 1 2 3", "1 fail"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.e.History.Distinct[divergence.KeysDenied] = int64(len(tt.denied))
			c := gate.Follow(gate.Config{}.WithDefaults(), tt.e, tt.denied)
			var strikes, course []string
			for _, s := range c.Strikes {
				strikes = append(strikes, hoursAfter(s.From))
				if s.To.Sub(s.From) != h || s.Ratio != "newly_denied" || s.Value < 0.5 || s.Cap != 0.1 {
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
	denied := slices.Repeat([]int64{monday.Unix() / 60}, 50)
	e := over(980 * time.Hour)
	for i := int64(60); i < 980; i += 30 {
		e = uncompared(e, 160, i*hour, i*hour+1)
	}
	c := gate.Follow(gate.Config{}.WithDefaults(), e, denied)
	if n := len(c.Verdicts); n != 50 || c.LeftOut == 0 {
		t.Fatalf("%d changes and %d left out, want 50 and some", n, c.LeftOut)
	}
	g := gate.Assess(gate.Config{}.WithDefaults(), e)
	if c.Verdicts[30].At.Before(at(500)) {
		t.Errorf("change 31 is %+v: want the middle left out", c.Verdicts[30])
	}
	if first, last := c.Verdicts[0], c.Verdicts[49]; !first.At.Equal(at(1)) || last.Verdict != g.Verdict || last.At.Before(at(930)) {
		t.Errorf("from %+v to %+v: want the first hour and the last change", first, last)
	}
}

// A block counts from its end on, where that is the end of an hour.
func TestCoursePassesWithItsLastBlock(t *testing.T) {
	denied := slices.Repeat([]int64{monday.Unix() / 60}, 50)
	cfg := gate.Config{Divergence: 0.04, NewlyDenied: 0.5, NewlyAllowed: 0.9, Soak: 24 * time.Hour}.WithDefaults()
	e := each(over(72*time.Hour), twoInAHundred)
	c := gate.Follow(cfg, e, denied)
	if c.PassedAt == nil || !c.PassedAt.After(at(24)) {
		t.Fatalf("passed at %v: want the score to be what it waits for", c.PassedAt)
	}
	before, now := gate.Assess(cfg, cut(e, denied, c.PassedAt.Add(-time.Hour))), gate.Assess(cfg, cut(e, denied, *c.PassedAt))
	if before.Verdict != wait || now.Verdict != pass {
		t.Errorf("passed at %s: %s, an hour before %s", c.PassedAt, now.Reason, before.Reason)
	}
}

func TestCourseOfNothing(t *testing.T) {
	c := gate.Follow(gate.Config{}.WithDefaults(), gate.Evidence{Live: 1}, nil)
	if c.PassedAt != nil || c.FailedAt != nil || c.Strikes == nil || len(c.Strikes)+len(c.Verdicts) > 0 {
		t.Errorf("%+v: want nothing, and lists in JSON", c)
	}
}

func TestCourseInWords(t *testing.T) {
	denied := slices.Repeat([]int64{monday.Unix() / 60}, 50)
	h := time.Hour
	tests := []struct {
		name  string
		e     gate.Evidence
		wants []string
	}{
		{"a day", over(24 * h), []string{"not have passed yet; with --soak 24h it would have passed", "a log of 24 h is too short for a soak of 48 h"}},
		{"30 h and 20 minutes", over(30*h + 20*time.Minute), []string{"with --soak 30h it would have"}},
		{"12 hours", over(12 * h), []string{"not have passed yet; a log of 12 h is too short"}},
		{"a strike", harmIn(over(98*h), 9, 49), []string{"first at 2026-03-04 00:00", "1 strike\n    2026-03-04 01:00 to 2026-03-04 02:00  newly_denied 50 %, cap 10 %, from at least 3 keys"}},
		{"always deny", each(over(24*h), alwaysDeny), []string{"never have passed, and failed first at 2026-03-02 01:00\n", "and 19 more"}},
	}
	for _, tt := range tests {
		var b strings.Builder
		c := gate.Follow(gate.Config{}.WithDefaults(), tt.e, denied)
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
	cfg := gate.Config{Soak: 24 * time.Hour}.WithDefaults()
	if g := gate.Assess(cfg, over(24*time.Hour)); g.Verdict != pass {
		t.Errorf("%s by a soak of 24 h: %s", g.Verdict, g.Reason)
	}
}

// BenchmarkFollow is three and a half days, and more than a course looks at by the hour.
func BenchmarkFollow(b *testing.B) {
	cfg := gate.Config{}.WithDefaults()
	for name, d := range map[string]time.Duration{"84h": 84 * time.Hour, "60d": 60 * 24 * time.Hour} {
		e := over(d)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				gate.Follow(cfg, e, nil)
				gate.Propose(cfg, e)
			}
		})
	}
}
