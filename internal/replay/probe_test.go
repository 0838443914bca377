package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// In a log whose clients seldom come near the limit, three quarters of it differ by less than the smallest round threshold: none
// is proposed then. Where they come near it often enough, there is one.
func TestProposalsLetNoSmallerLimitPass(t *testing.T) {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	limit := algorithms.Limit{Requests: 20, Window: time.Minute}

	for every, proposed := range map[int64]bool{1: true, 100: false} {
		var events replay.Events
		for minute := range int64(50 * 60) {
			at := start + minute*60e6
			for i := range 40 {
				events.Add(at, fmt.Append(nil, "k", i), 1)
			}
			for range 18 {
				if minute%every == 0 {
					events.Add(at, []byte("busy"), 1)
				}
			}
		}

		report, err := replay.Run(t.Context(), &events, replay.Config{
			Policy: "p", Sides: sides(algorithms.FixedWindow{}, algorithms.FixedWindow{}, limit), Pair: memory(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if p := report.Policies[0].Proposed; (p.NewlyDenied != nil) != proposed || (p.Divergence != nil) != proposed {
			t.Errorf("busy in every %d. minute: newly denied %v, divergence %v, want a proposal: %t", every, p.NewlyDenied, p.Divergence, proposed)
		}
	}
}
