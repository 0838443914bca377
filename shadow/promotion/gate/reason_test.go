package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// scored returns a stream with a score after a number of blocks.
func scored(r divergence.Ratio, score float64, blocks int) stream {
	s := stream{ratio: r, blocks: make([]block, blocks), mirror: unmirrored()}
	s.score.halves = [2]wealth{{score, score, score}, {score, score, score}}
	return s
}

// The reason of a wait names the ratio that is farthest from a pass, and how much is missing.
func TestWaitNamesTheWorst(t *testing.T) {
	j := &judgement{terse: true, clean: 50 * time.Hour, needed: 48 * time.Hour, evidence: &Evidence{}}
	j.streams = [len(divergence.AllRatios)]stream{
		scored(divergence.OfComparisons, 19, 1), scored(divergence.OfAllows, 25, 1),
		scored(divergence.OfDenials, 2, 3), scored(divergence.ExtraLoad, 30, 1),
	}
	for i := range j.streams {
		j.streams[i].threshold = 0.02
	}

	if got, want := j.sentence(j.pending()), "newly_allowed has not been measured: its score is 2.0 of 20 after 3 blocks"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	j.clean = 3 * time.Hour
	if got, want := j.sentence(j.pending()), "after 3 blocks; 3 h of 48 h clean"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at the end", got, want)
	}

	j.streams[0].numerator, j.streams[0].denominator = 10, 120
	want := "its threshold 2 %: too early to tell, from 120 of the 500 needed"
	if got := j.sentence(j.pending()); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at the end", got, want)
	}
}
