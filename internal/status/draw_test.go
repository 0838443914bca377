package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

var began = time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)

// drawn returns the charts of hours whose newly denied ratios are given as shares of the threshold, negative for an
// hour without a ratio. The scores are ten times as high.
func drawn(parts ...float64) []Chart {
	p := Policy{Name: "writes", At: began.Add(90 * time.Minute)}
	p.Gate.NewlyDenied.Threshold = 0.02

	for i, part := range parts {
		point := gate.Point{At: began.Add(time.Duration(i+1) * time.Hour)}
		if part >= 0 {
			v := part * 0.02
			point.Ratios[evidence.OfAllows] = &v
		}
		point.Scores[evidence.OfAllows] = 10 * part
		p.Series = append(p.Series, point)
	}

	return p.charts()
}

func TestLines(t *testing.T) {
	tests := []struct {
		name            string
		parts           []float64
		path, dots, cut string
	}{
		{"one hour", []float64{0.75}, "", "M1000.0 50.0h0", ""},
		{"joined", []float64{0, 0.75}, "M500.0 100.0L1000.0 50.0", "", ""},
		{"a gap", []float64{0, 0, -1, 0.75}, "M250.0 100.0L500.0 100.0", "M1000.0 50.0h0", ""},
		{"cut", []float64{1.5, 3}, "M500.0 0.0L1000.0 0.0", "", "M1000.0 0h0"},
		{"nothing", []float64{-1, -1}, "", "", ""},
	}

	for _, tt := range tests {
		got := drawn(tt.parts...)[0].Lines[evidence.OfAllows]
		if want := (line{"newly_denied", tt.path, tt.dots, tt.cut}); got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}

	if drawn() != nil {
		t.Error("charts of nothing")
	}
}

// Scores are on a logarithmic scale of eight decades.
func TestScoresAreLogarithmic(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.1: 0, 1: 0.125, 1000: 0.5, 1e7: 1, 1e9: 1} {
		if got, cut := logarithmic(v); got < want-1e-9 || got > want+1e-9 || cut {
			t.Errorf("%g is at %g, want %g", v, got, want)
		}
	}
}

// A month has a point for each few hours, and its one bad hour shows as bad as it was.
func TestMonthIsMergedHonestly(t *testing.T) {
	parts := make([]float64, 30*24)
	parts[333] = 1.2
	parts[334] = -1

	charts := drawn(parts...)
	path := charts[0].Lines[evidence.OfAllows].Path
	if n := strings.Count(path, "L") + 1; n > mostPoints || n < mostPoints/2 {
		t.Errorf("%d points", n)
	}
	if !strings.Contains(path, fmt.Sprintf(" %.1f", 100*(1-1.2/1.5))) {
		t.Error("the bad hour is gone")
	}

	if caption := charts[0].Caption; !strings.Contains(caption, "worst hour in each 4") {
		t.Errorf("the caption is %q", caption)
	}
	if desc := charts[0].Desc; !strings.Contains(desc, "1 of 719 hours") {
		t.Errorf("the description is %q", desc)
	}
	if n := len(charts[0].Ticks); n == 0 || n > mostTicks {
		t.Errorf("%d ticks", n)
	}
}

func TestTicks(t *testing.T) {
	charts := drawn(make([]float64, 72)...)
	var labels []string
	for _, tick := range charts[1].Ticks {
		labels = append(labels, tick.Label)
	}
	if got := strings.Join(labels, ", "); got != "Sun 8 Mar, Mon 9 Mar, Tue 10 Mar" {
		t.Error(got)
	}

	if moved := charts[0].Moved; moved < 2 || moved > 2.2 { // 1.5 of 72 hours
		t.Errorf("the last move is at %g %%", moved)
	}
	if short := drawn(0, 0, 0)[0].Ticks; len(short) != 2 || short[0].Label != "13:00" {
		t.Errorf("%+v", short)
	}
}

func TestTrack(t *testing.T) {
	tests := []struct {
		stage   stages.Stage
		percent float64
		want    string
	}{
		{stages.Shadow, 0, "[shadow] canary 1 % canary 10 % promoted completed"},
		{stages.Canary, 10, "shadow+ canary 1 %+ [canary 10 %] promoted completed"},
		{stages.Canary, 5, "shadow+ canary 1 %+ [canary 5 %] canary 10 % promoted completed"},
		{stages.Promoted, 0, "shadow+ canary 1 %+ canary 10 %+ [promoted] completed"},
		{stages.Completed, 0, "shadow+ canary 1 %+ canary 10 %+ promoted+ [completed]"},
		{stages.RolledBack, 0, "shadow canary 1 % canary 10 % promoted completed [rolled back]"},
	}

	for _, tt := range tests {
		p := Policy{Stage: tt.stage, Percent: tt.percent, Canary: []float64{1, 10}}
		var texts []string
		for _, s := range p.track() {
			switch {
			case s.Current:
				s.Name = "[" + s.Name + "]"
			case s.Class == "done":
				s.Name += "+"
			}
			texts = append(texts, s.Name)
		}

		if got := strings.Join(texts, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.stage, got, tt.want)
		}
	}
}
