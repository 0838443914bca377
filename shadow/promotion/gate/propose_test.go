package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

func TestPropose(t *testing.T) {
	threeBadHours := evidence{hours: 72, badHours: []int64{10, 20, 30}, badKeys: 1}
	tests := []struct {
		name string
		e    evidence
		want string // by ratio
		why  string // in the text
	}{
		{"equivalent", evidence{hours: 72}, "[0.001 0.001 0.001 0.001]", "newly_allowed: 0.1%  # seen: 0 %"},
		{
			"always allow", evidence{hours: 72, minute: alwaysAllow}, "[- 0.001 - -]",
			"newly_allowed: none, 100 % of what the authoritative denies: twice that is above 50 %",
		},
		{"always deny", evidence{hours: 72, minute: alwaysDeny}, "[- - 0.001 0.001]", "newly_denied: none, 100 %"},
		{
			"a fifth denied", evidence{hours: 72, minute: aFifthDenied}, "[- - 0.001 0.001]",
			"newly_denied: none, 20 % of what the authoritative allows: twice that is above 5 %",
		},
		{
			"never denied", evidence{hours: 72, minute: neverDenied}, "[0.001 0.001 - 0.001]",
			"newly_allowed: none, nothing to measure it against",
		},
		{"2 in 100", evidence{hours: 72, minute: twoInAHundred}, "[0.05 0.001 0.5 0.05]", "divergence: 5%  # seen: 2 %"},
		{
			"an hour in which half is denied", evidence{hours: 72, badHours: []int64{10}}, "[- - 0.001 0.001]",
			"newly_denied: none, bad hours",
		},
		{"three such hours of one client", threeBadHours, "[0.05 0.05 0.001 0.001]", "newly_denied: 5%"},
		{
			"12 hours", evidence{hours: 12}, "[- - - -]",
			"divergence: none, the log is too short: 12 blocks by 5 %, 40 are the least",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := gate.Propose(gate.Config{}.WithDefaults(), tt.e.build())

			var got []string
			for _, r := range divergence.AllRatios {
				if v := p.Threshold(r); v != nil {
					got = append(got, fmt.Sprint(*v))
				} else {
					got = append(got, "-")
				}
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}

			var b strings.Builder
			if p.WriteText(&b); !strings.Contains(b.String(), tt.why) {
				t.Errorf("no %q in\n%s", tt.why, b.String())
			}
		})
	}
}

// A short soak asks for no larger thresholds: the gate just waits longer.
func TestProposalsOfAShortSoak(t *testing.T) {
	short := gate.Propose(gate.Config{Soak: time.Hour}.WithDefaults(), evidence{hours: 72}.build())
	if v := short.NewlyDenied; v == nil || *v != 0.001 {
		t.Errorf("newly denied %v, want 0.001", v)
	}
}

// By proposed thresholds the evidence is sound: score, raw ratio and no strike.
func TestProposedThresholdsPass(t *testing.T) {
	proposed := 0
	rapid.Check(t, func(t *rapid.T) {
		cfg, e := drawConfig(t), drawEvidence(t)

		p := gate.Propose(cfg, e)
		for into, r := range map[*float64]divergence.Ratio{
			&cfg.Divergence:   divergence.OfComparisons,
			&cfg.NewlyDenied:  divergence.OfAllows,
			&cfg.NewlyAllowed: divergence.OfDenials,
			&cfg.ExtraLoad:    divergence.ExtraLoad,
		} {
			if v := p.Threshold(r); v != nil {
				*into = *v
			}
		}

		g, c := gate.Assess(cfg, e), gate.Follow(cfg, e)
		for _, r := range divergence.AllRatios {
			v := p.Threshold(r)
			if v == nil {
				continue
			}

			proposed++
			if part := g.Ratio(r); part.Score < 20 || *part.Ratio > *v/2 {
				t.Errorf("%s by %g: score %g, ratio %g", r, *v, part.Score, *part.Ratio)
			}
			for _, s := range c.Strikes {
				if s.Ratio == r.String() {
					t.Errorf("%s by %g: strike %+v", r, *v, s)
				}
			}
		}
	})
	if proposed == 0 {
		t.Error("nothing was proposed, so this test shows nothing")
	}
}
