package status_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// A reason that is added to the library has its remedy, and the row of the runbook that the text names.
func TestEveryReasonNotToCompareHasARemedy(t *testing.T) {
	for _, reason := range algorithms.AllSkipReasons {
		var hour divergence.Hour
		hour.Skipped[reason] = 3
		h := divergence.History{Hours: []divergence.Hour{hour}}

		why := status.WhyUncompared(status.UncomparedCauses(&h))
		if cause, remedy, _ := strings.Cut(why, "; "); cause != reason.String()+" 100 %" || remedy == "" {
			t.Errorf("%s: %q, want the reason and what to do", reason, why)
		}
	}
}

func TestFailuresOfTheAuthoritativeAreACause(t *testing.T) {
	tally := divergence.Tally{divergence.AuthoritativeError: 3, divergence.Inconclusive: 1}
	h := divergence.History{Minutes: []divergence.Minute{{Tally: tally}}, Hours: make([]divergence.Hour, 1)}
	h.Hours[0].Skipped[algorithms.QueueFull] = 1

	const want = "authoritative_error 75 %, queue_full 25 %; repair the authoritative limiter"
	if why := status.WhyUncompared(status.UncomparedCauses(&h)); !strings.HasPrefix(why, want) {
		t.Errorf("%q, want %q", why, want)
	}
}
