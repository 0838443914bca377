package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// One request of 751 is denied, and with it more than half of what the authoritative gives.
func TestHarmByCost(t *testing.T) {
	side := func(id string, limit int64) algorithms.Side {
		return algorithms.Side{ID: id, Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: limit, Window: time.Hour}}
	}
	run := func(big int64) *replay.PolicyReport {
		var events replay.Events
		for i := range int64(750) {
			events.Add(i, []byte("small"), 1)
		}
		events.Add(750, []byte("big"), big)
		events.Add(751, []byte("larger"), 0)
		report, err := replay.Run(context.Background(), &events, replay.Config{
			Policy: "p", Pair: memory(), Sides: [2]algorithms.Side{side("a", 1000), side("b", 999)},
		})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := report.WriteText(&b); err != nil || strings.Contains(b.String(), "by cost") != (big > 1) {
			t.Error(err, b.String())
		}
		return &report.Policies[0]
	}

	p := run(1000)
	if got := fmt.Sprintf("%d of %d, %+v", p.NewlyDenied, p.Comparisons, *p.ByCost); !strings.HasPrefix(got, "1 of 751, {Allowed:1750 NewlyDenied:1000 Denied:0 NewlyAllowed:0") {
		t.Error(got)
	}
	if p := run(1); p.ByCost != nil {
		t.Errorf("all costs are 1, and there is %+v", p.ByCost)
	}
}
