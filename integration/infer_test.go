package integration

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// mustInfer asks which limiter explains the decisions on each path. What is found decides as the peer did, but for the edges that
// its model misses, too.
func mustInfer(t *testing.T, decisions []peerDecision, paths []string) {
	t.Helper()
	for _, path := range paths {
		events := &replay.Events{}
		for _, d := range decisions {
			if d.request.Path != path {
				continue
			}
			events.Add(d.at.UnixMicro(), []byte(d.request.User), 1)
			events.Observe(replay.ObservedDenied)
			if d.allowed {
				events.Observe(replay.ObservedAllowed)
			}
		}

		report, err := replay.Infer(t.Context(), events, nil)
		if err != nil {
			t.Fatal(err)
		}
		if best := report.Best; best == nil || 100*best.Wrong > report.Requests {
			t.Errorf("%s: %+v of %d requests, %d denied", path, best, report.Requests, report.Denied)
		} else {
			t.Logf("%s is inferred as %s, %d of %d decisions are another, %d others do as well",
				path, best, best.Wrong, report.Requests, len(report.Others))
		}
	}
}
