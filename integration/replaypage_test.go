package integration

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// The page of a replay is drawn in a browser, at each width, and runs nothing of a hostile key. Its own policy, which stands in the
// file, allows its style.
func TestReplayPageInABrowser(t *testing.T) {
	t.Parallel()
	var events replay.Events
	for i := range int64(3600) {
		events.Add(1_700_000_040_000_000+i*1e6, []byte(hostile), 1)
	}
	limit := func(requests int64) algorithms.Side {
		return algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: requests, Window: time.Minute}}
	}
	cfg := replay.Config{Policy: "p", Pair: algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})}
	cfg.Sides = [2]algorithms.Side{limit(50), limit(30)}
	cfg.Sides[0].ID, cfg.Sides[1].ID = "from", "to"
	report, err := replay.Run(t.Context(), &events, cfg)
	if err != nil {
		t.Fatal(err)
	}

	var page bytes.Buffer
	if err := report.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	b, url := openBrowser(t), servePage(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page.Bytes())
	}))

	for _, width := range []int{360, 1280} {
		b.open(t, url, width, "light")
		checkPage(t, b)
	}
	b.shoot(t, "replay")
}
