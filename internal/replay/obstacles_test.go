package replay_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// A reader of a log sees all that is missing, and not only what the sentence names. Programs get the same list.
func TestReportHasAllObstacles(t *testing.T) {
	limit := algorithms.Limit{Requests: 5, Window: 10 * time.Second}
	tests := []struct {
		name    string
		charges int64
		kinds   string
		text    []string
	}{
		{"an hour", 3600, "few_denied_keys hours_unseen low_score clean_time", []string{
			"denied 1 of the 20 keys",
			"not before Tue 2001-09-11 01:46 UTC",
		}},
		{"nothing", 0, "nothing_compared", nil},
	}

	for _, tt := range tests {
		var events replay.Events
		for second := range tt.charges {
			events.Add(1e15+second*1e6, []byte("a key"), 1)
		}
		report, err := replay.Run(context.Background(), &events, replay.Config{
			Policy: "p", Pair: memory(), Sides: sides(algorithms.FixedWindow{}, algorithms.FixedWindow{}, limit),
		})
		if err != nil {
			t.Fatal(err)
		}

		encoded, err := json.Marshal(report.Policies[0])
		if err != nil {
			t.Fatal(err)
		}
		var decoded struct {
			Obstacles []struct{ Kind, Text string } `json:"obstacles"`
			Gate      struct{ Reason string }       `json:"gate"`
		}
		if err := json.Unmarshal(encoded, &decoded); err != nil {
			t.Fatal(err)
		}

		var kinds []string
		for _, o := range decoded.Obstacles {
			kinds = append(kinds, o.Kind)
		}
		if got := strings.Join(kinds, " "); got != tt.kinds || !strings.HasPrefix(decoded.Gate.Reason, decoded.Obstacles[0].Text) {
			t.Errorf("%s: %s, want %s (%s)", tt.name, got, tt.kinds, decoded.Gate.Reason)
		}

		var b strings.Builder
		if err := report.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.text {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, b.String())
			}
		}
	}
}
