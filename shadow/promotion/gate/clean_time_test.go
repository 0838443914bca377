package gate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// The wait for clean time is the first minute with enough of it, by the strikes that are left then.
func TestUntilCleanIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &judgement{evidence: &Evidence{}, cfg: Config{Soak: time.Duration(rapid.IntRange(1, 9*24).Draw(t, "soak")) * time.Hour}}
		end := int64(0)
		for range rapid.IntRange(0, 4).Draw(t, "bad blocks") {
			end += rapid.Int64Range(0, 4*minutesADay).Draw(t, "end")
			from := end - rapid.Int64Range(1, 2*minutesADay).Draw(t, "length")
			b := badBlock{}
			b.From, b.To = from, end
			j.bad = append(j.bad, b)
		}
		j.now = end + rapid.Int64Range(0, 8*minutesADay).Draw(t, "now")
		j.clean = time.Duration(rapid.Int64Range(0, j.now-end).Draw(t, "clean")) * time.Minute

		strikesAt := func(wait int64) int { return len(strikesOf(j.bad, j.now+wait-strikesOver)) }
		j.strikes = strikesAt(0)
		j.needed = j.soak() * time.Duration(j.strikes+1)
		if j.clean >= j.needed {
			return
		}

		want := int64(0)
		for j.clean+time.Duration(want)*time.Minute < j.soak()*time.Duration(strikesAt(want)+1) {
			want++
		}
		if got := j.untilClean(); got.minutes != float64(want) {
			t.Fatalf("%g minutes until there is enough clean time, want %d", got.minutes, want)
		}
		if j.strikes > 0 && strikesAt(j.strikeLeaves(j.now)-j.now) != j.strikes-1 {
			t.Fatalf("no strike of %d leaves at minute %d", j.strikes, j.strikeLeaves(j.now))
		}
	})
}
