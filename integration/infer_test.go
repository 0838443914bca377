package integration

import (
	"fmt"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// notInferred asks which limiter explains the decisions on each path, and says where none does. The one that is found is wrong in 1 %
// of them at most, or no more often than the peer's model is without being told: a request at the edge of a tick may shift all that
// follow it.
func notInferred(t *testing.T, decisions []peerDecision, model string, paths []string) string {
	t.Helper()
	missed := newPeerModel(t, model).missed(t, decisions)
	for _, path := range paths {
		report, err := replay.Infer(t.Context(), eventsOf(decisions, path), nil)
		if err != nil {
			t.Fatal(err)
		}

		best, most := report.Best, max(report.Requests/100, missed[path])
		if best == nil || best.Wrong > most {
			return fmt.Sprintf("%s: %+v of %d requests, %d denied: want %d wrong at most", path, best, report.Requests, report.Denied, most)
		}
		t.Logf("%s is inferred as %s, %d of %d decisions are another (its model: %d), %d others do as well",
			path, best, best.Wrong, report.Requests, missed[path], len(report.Others))
	}
	return ""
}

// missed counts by path the decisions of a peer that its model makes otherwise when it runs beside it.
func (m *peerModel) missed(t *testing.T, decisions []peerDecision) map[string]int64 {
	t.Helper()
	missed := map[string]int64{}
	for i := range decisions {
		d := &decisions[i]
		if m.allows(t, &d.request, d.at) != d.allowed {
			missed[d.request.Path]++
		}
	}
	return missed
}

// eventsOf returns the decisions on one path as a log has them.
func eventsOf(decisions []peerDecision, path string) *replay.Events {
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
	return events
}
