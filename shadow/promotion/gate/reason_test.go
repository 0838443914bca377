package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// The reason of a wait names the ratio that is farthest from a pass, and how much is missing.
func TestWaitNamesTheWorst(t *testing.T) {
	var worst stream
	worst.ratio, worst.score, worst.blocks = divergence.OfDenials, 2, make([]block, 3)
	j := &judgement{terse: true, clean: 50 * time.Hour, needed: 48 * time.Hour}
	j.streams = [len(divergence.AllRatios)]stream{{score: 19}, {ratio: divergence.OfAllows, score: 25}, worst}

	if got, want := j.sentence(j.pending()), "the score of newly_allowed is 2.0 of 20 after 3 blocks"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	j.clean = 3 * time.Hour
	if got, want := j.sentence(j.pending()), "after 3 blocks; 3 h of 48 h clean"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at the end", got, want)
	}

	j.streams[0] = stream{threshold: 0.02, numerator: 10, denominator: 120}
	if got, want := j.sentence(j.pending()), "from 120 so far; from 500 on the verdict is fail"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at the end", got, want)
	}
}
