package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/plan"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

func rules() plan.Rules {
	return plan.Rules{
		Steps: []gate.Step{{Name: "canary 10 %", Percent: 10}, {Name: "promoted", Percent: 100}},
		Dwell: 3 * time.Hour,
	}
}

func hoursOf(p plan.Policy, kind, step int) float64 {
	if h := p.Cases[kind].Steps[step].Hours; h != nil {
		return *h
	}
	return -1
}

// Even traffic: the soak, the score, the denials, or what never comes.
func TestPlanOfARate(t *testing.T) {
	tests := []struct {
		name         string
		rate         plan.Rate
		change       func(*plan.Rules)
		first, last  float64 // hours of a candidate that never differs; -1: never
		waits, never string  // for the first step: what a candidate at no difference waits for
	}{
		{"dense", plan.Rate{Requests: 600, Denied: 0.01}, nil, 48, 168, "47 h of 48 h clean", ""},
		{
			"a soak for all steps", plan.Rate{Requests: 600, Denied: 0.01},
			func(r *plan.Rules) { r.Gate.Soak = 72 * time.Hour }, 72, 75, "71 h of 72 h clean", "",
		},
		{"few denials", plan.Rate{Requests: 10.0 / 60, Denied: 0.05}, nil, 400, 403, "denied 199 of the 200 requests", ""},
		{"few keys", plan.Rate{Requests: 600, Denied: 0.01, Keys: 5}, nil, -1, -1, "", "has only 5 keys"},
		{"too few requests", plan.Rate{Requests: 1.0 / 60, Denied: 0.01}, nil, -1, -1, "", "evidence is kept for 32"},
		{"no denials", plan.Rate{Requests: 600}, nil, -1, -1, "", "the authoritative has denied nothing in 32 days"},
	}

	for _, tt := range tests {
		r := rules()
		if tt.change != nil {
			tt.change(&r)
		}
		p := tt.rate.Policy("a", r)
		if got := [2]float64{hoursOf(p, 0, 0), hoursOf(p, 0, 1)}; got != [2]float64{tt.first, tt.last} {
			t.Errorf("%s: %v h, want %v and %v", tt.name, got, tt.first, tt.last)
		}
		if text := p.Cases[0].Steps[0].WaitsFor; !strings.Contains(text, tt.waits) || !strings.Contains(text, tt.never) {
			t.Errorf("%s: waits for %q, want %q", tt.name, text, tt.waits+tt.never)
		}
	}
}

// The more a candidate differs, the longer it takes.
func TestPlanIsLongerForWorseCandidates(t *testing.T) {
	p := plan.Rate{Requests: 600, Denied: 0.01}.Policy("a", rules())
	before := 0.0
	for i := range p.Cases {
		h := hoursOf(p, i, 0)
		if h < before || i == len(p.Cases)-1 && h < 100 {
			t.Errorf("%g of the threshold: %v h, after %v h for less", *p.Cases[i].Differences, h, before)
		}
		before = h
	}
}

// recording is some days of even traffic, with newly denied requests in an hour of the first day.
func recording(days int, bad bool) *plan.Recording {
	const first = 29_000_160 // a midnight
	r := &plan.Recording{Keys: 500, Live: []divergence.Span{{From: first, To: first + int64(days)*1440}}}
	for minute := range int64(days) * 1440 {
		m := divergence.Minute{Unix: first + minute}
		m.Tally[divergence.AgreeAllow], m.Tally[divergence.AgreeDeny] = 95, 5
		if bad && minute < 60 {
			m.Tally[divergence.AgreeAllow] -= 90
			for key := range uint64(90) {
				m.Count(divergence.NewlyDenied, key)
			}
		}
		r.Minutes = append(r.Minutes, m)
		r.Denials = append(r.Denials, plan.Denial{Minute: m.Unix, Key: uint32(minute % 500)})
	}
	return r
}

// Migrations begin in every hour of the log, and meet its bad hour sooner or later.
func TestPlanOfALog(t *testing.T) {
	good, err := recording(3, false).Policy("a", rules())
	if err != nil {
		t.Fatal(err)
	}
	s := good.Cases[0].Steps[0]
	if s.Starts != 72 || s.Passed != 72 || *s.Hours != 48 || *s.Hours90 != 48 {
		t.Errorf("good: %+v, median %v", s, s.Hours)
	}

	// One hour in seven days is a strike, and more than half of the migrations do not meet it in their first 48 hours.
	p, err := recording(7, true).Policy("a", rules())
	if err != nil {
		t.Fatal(err)
	}
	first, last := p.Cases[0].Steps[0], p.Cases[0].Steps[1]
	if first.Starts != 168 || *first.Hours != 48 || *first.Hours90 <= 96 {
		t.Errorf("a bad hour: %+v, median %v h, nine in ten %v h", first, first.Hours, first.Hours90)
	}
	if last.Passed > 0 || last.Hours != nil || last.WaitsFor == "" {
		t.Errorf("a bad hour a week, for a step that needs a week: %+v", last)
	}
}

// A trial that begins with the log is judged as the log is.
func TestPlanAgreesWithTheCourse(t *testing.T) {
	r := recording(3, false)
	p, err := r.Policy("a", rules())
	if err != nil {
		t.Fatal(err)
	}
	live := r.Live[0]
	e := gate.Evidence{Since: time.Unix(live.From*60, 0), Now: time.Unix(live.To*60, 0), Live: 1, Step: rules().Steps[0]}
	e.History = divergence.History{Minutes: r.Minutes, Live: r.Live}
	e.History.Distinct[divergence.KeysDenied] = 500
	for i := range int64(500) {
		e.Denied = append(e.Denied, live.From+i)
	}

	c := gate.Follow(gate.Config{}.WithDefaults(), e)
	if c.PassedAt == nil || c.PassedAt.Sub(e.Since).Hours() != *p.Cases[0].Steps[0].Hours {
		t.Errorf("passed at %v in the course, after %v h in the plan", c.PassedAt, p.Cases[0].Steps[0].Hours)
	}
}

func TestPlanRefusesThinLogs(t *testing.T) {
	short := recording(1, false)
	short.Live[0].To -= 600
	holes := recording(3, false)
	holes.Live = []divergence.Span{{From: 0, To: 1}, holes.Live[0]}

	for want, r := range map[string]*plan.Recording{
		"no requests": {}, "needs a day at least": short, "remove stray lines": holes,
	} {
		if _, err := r.Policy("a", rules()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Records of an hour say the same as minutes do.
func TestPlanOfShortBlocks(t *testing.T) {
	r := rules()
	r.Gate.Block = 30 * time.Minute
	p := plan.Rate{Requests: 600, Denied: 0.01}.Policy("a", r)
	if h := hoursOf(p, 0, 0); h != 48 {
		t.Errorf("blocks of 30 minutes: %v h, want 48", h)
	}
}
