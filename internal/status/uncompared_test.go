package status_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// A reason that is added to the library has its remedy, and the row of the runbook that the text names.
func TestEveryReasonNotToCompareHasARemedy(t *testing.T) {
	for _, reason := range algorithms.AllSkipReasons {
		var hour evidence.Hour
		hour.Skipped[reason] = 3
		h := evidence.History{Hours: []evidence.Hour{hour}}

		why := status.WhyUncompared(status.UncomparedCauses(&h))
		if cause, remedy, _ := strings.Cut(why, "; "); cause != reason.String()+" 100 %" || remedy == "" {
			t.Errorf("%s: %q, want the reason and what to do", reason, why)
		}
	}
}

func TestFailuresOfTheAuthoritativeAreACause(t *testing.T) {
	tally := evidence.Tally{evidence.AuthoritativeError: 3, evidence.Inconclusive: 1}
	h := evidence.History{Minutes: []evidence.Minute{{Tally: tally}}, Hours: make([]evidence.Hour, 1)}
	h.Hours[0].Skipped[algorithms.QueueFull] = 1

	const want = "authoritative_error 75 %, queue_full 25 %; repair the authoritative limiter"
	if why := status.WhyUncompared(status.UncomparedCauses(&h)); !strings.HasPrefix(why, want) {
		t.Errorf("%q, want %q", why, want)
	}
}
