package status_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

func TestFailuresOfTheAuthoritativeAreACause(t *testing.T) {
	tally := evidence.Tally{evidence.AuthoritativeError: 3, evidence.Inconclusive: 1}
	h := evidence.History{Minutes: []evidence.Minute{{Tally: tally}}, Hours: make([]evidence.Hour, 1)}
	h.Hours[0].Skipped[algorithms.QueueFull] = 1

	p := status.Policy{Summary: status.Summarize(tally), CausesUncompared: status.UncomparedCauses(&h)}
	if got := p.NotCompared(); !strings.HasSuffix(got, ": authoritative_error 75 %, queue_full 25 %") {
		t.Error(got)
	}
}
