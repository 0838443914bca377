package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// mostBlocks is how many more blocks a forecast looks ahead.
const mostBlocks = 2000

// delay is how far away one condition of a pass is.
type delay struct {
	minutes float64
	of      string // what takes that long
	unknown string // why that cannot be said; the minutes are then infinite
	never   bool   // it is not met at all, as traffic and configuration are
	counts  bool   // it needs evidence that adds up, which the ledger must still have
	// For a score: how many blocks suffice, closed ones included, and how long each is.
	blocks int
	block  time.Duration
}

// unknown returns the delay of a condition whose time cannot be said yet.
func unknown(format string, args ...any) delay {
	return delay{minutes: math.Inf(1), unknown: fmt.Sprintf(format, args...)}
}

// never returns the delay of a condition that is not met by waiting.
func never(format string, args ...any) delay {
	d := unknown(format, args...)
	d.never = true
	return d
}

// forecast returns the forecast of a judgement that is no pass.
func (j *judgement) forecast() Forecast {
	// What needs an operator or a developer does not mend itself with time.
	for i, o := range j.obstacles() {
		switch {
		case o.Waits():

		// The reason names the first obstacle only. A ratio behind it is named here.
		case o.Kind == AboveThreshold && strings.HasSuffix(o.Text, TooEarly):
			return Forecast{NoForecast: "too few requests were compared to say whether a ratio stays at or above its threshold"}
		case o.Kind == AboveThreshold && i > 0:
			return Forecast{NoForecast: unforeseeable[o.Kind] + ": " + o.Text}
		default:
			return Forecast{NoForecast: unforeseeable[o.Kind]}
		}
	}

	// The forecast extrapolates scores, which the simple rule does not have.
	minutes := math.Min(float64(j.now-j.evidence.Since.Unix()/60), keptFor.Minutes())
	switch {
	case j.cfg.Rule == Simple:
		return Forecast{NoForecast: "the simple rule has no scores to extrapolate"}
	case minutes <= 0:
		return Forecast{NoForecast: "the evidence is less than a minute old"}
	}

	// Evidence that is forgotten before there is enough of it never suffices.
	last := j.last(minutes)
	switch {
	case last.unknown != "":
		return Forecast{NoForecast: last.unknown, Never: last.never}
	case last.counts && last.minutes+minutes > keptFor.Minutes():
		return Forecast{Never: true, NoForecast: fmt.Sprintf("%s would take %s days at the rate so far, and evidence is kept for %d: "+
			"raise the threshold, lower the needed numbers, or send more traffic",
			last.of, humanize.Grouped(int64(math.Ceil((last.minutes+minutes)/minutesADay))), divergence.KeptDays)}
	}
	ahead := time.Duration(math.Max(0, math.Ceil(last.minutes))) * time.Minute
	instant := j.evidence.Now.Add(ahead).UTC().Truncate(time.Minute)
	return Forecast{WouldPassAt: &instant}
}

// last returns the delay of the condition that will be met last.
func (j *judgement) last(minutes float64) delay {
	all := []delay{
		{minutes: j.untilClean().Minutes(), of: "the clean time"},
		more(j.total.AuthoritativeDenies(), j.cfg.MinDenials, minutes, "requests that the authoritative denies"),
		j.untilKeys(minutes),
		more(j.total[divergence.AgreeAllow], 1, minutes, "requests that both sides allow"),
		more(j.total[divergence.AgreeDeny], 1, minutes, "requests that both sides deny"),
		{minutes: j.untilSeen(), of: "the hours of the day"},
		{minutes: j.untilWeekdays(), of: "the weekdays"},
	}
	for i := range j.streams {
		all = append(all, j.untilEnough(&j.streams[i], minutes))
	}
	return slices.MaxFunc(all, func(a, b delay) int { return cmp.Compare(a.minutes, b.minutes) })
}

// untilClean returns how long until the clean time suffices, if no hour is bad any more.
func (j *judgement) untilClean() time.Duration {
	at, strikes := j.now, j.strikes
	for {
		// The clean time goes on when a strike leaves, so the wait may end with it.
		since := time.Duration(at-j.now) * time.Minute
		wait := max(since, j.soak()*time.Duration(strikes+1)-j.clean)
		if strikes == 0 {
			return wait
		}

		leaves := j.strikeLeaves(at)
		if wait <= time.Duration(leaves-j.now)*time.Minute {
			return wait
		}
		at = leaves
		strikes--
	}
}

// strikeLeaves returns the minute from which on there is one strike less than at another. There must be one.
func (j *judgement) strikeLeaves(at int64) int64 {
	strikes := strikesOf(j.bad, at-strikesOver)

	// A bad block that overlaps the strike may take its place when it leaves.
	for left := strikes; len(left) == len(strikes); left = strikesOf(j.bad, at-strikesOver) {
		at = left[0].To + strikesOver
	}
	return at
}

// more returns how long until there are as many as needed, at the rate so far. Without any
// so far there is no rate.
func more(have, need int64, minutes float64, what string) delay {
	switch {
	case have >= need:
		return delay{}
	case have == 0 && minutes >= minutesADay:
		return never("0 of the %d %s were seen in %.3g days: replay a log with lower limits on both sides, "+
			"lower the needed number, or promote by force", need, what, minutes/minutesADay)
	case have == 0:
		return unknown("there are no %s yet, so their rate is unknown", what)
	}
	return delay{minutes: float64(need-have) / (float64(have) / minutes), of: "enough " + what, counts: true}
}

// untilKeys returns how long until enough keys were denied. Their number cannot grow beyond that
// of all keys, of which a day shows most.
func (j *judgement) untilKeys(minutes float64) delay {
	distinct, need := j.evidence.History.Distinct, j.cfg.MinDeniedKeys
	denied, seen := distinct[divergence.KeysDenied], distinct[divergence.KeysSeen]
	if denied < need && 0 < seen && seen < need && minutes >= minutesADay {
		return never("the policy has only %s, and %d denied ones are needed: set min_denied_keys to what such a policy can show",
			humanize.Counted(seen, "key"), need)
	}
	return more(denied, need, minutes, "keys that the authoritative denies")
}

// untilSeen returns the minutes until every hour of the day was seen for half of it.
func (j *judgement) untilSeen() (wait float64) {
	for hour, seen := range j.seen {
		if seen {
			continue
		}

		// An hour counts as seen after its first half, and comes again within a day.
		half := int64(hour)*minutesAnHour + minutesAnHour/2
		ahead := (half - j.now%minutesADay + minutesADay) % minutesADay
		wait = math.Max(wait, float64(ahead))
	}
	return wait
}

// untilWeekdays returns the minutes until every weekday was seen for half of it, if the step
// needs that.
func (j *judgement) untilWeekdays() (wait float64) {
	if j.unseenWeekdays() == "" {
		return 0
	}
	now := atMinute(j.now)
	for day, seen := range j.weekdays {
		if !seen {
			ahead := (day - int(now.Weekday()) + 7) % 7
			noon := (j.now/minutesADay+int64(ahead))*minutesADay + minutesADay/2
			wait = math.Max(wait, float64((noon-j.now+7*minutesADay)%(7*minutesADay)))
		}
	}
	return wait
}

// untilEnough returns how long until a ratio's score suffices, if blocks go on with the mean
// ratio so far.
func (j *judgement) untilEnough(s *stream, minutes float64) delay {
	if s.score.value() >= enough {
		return delay{}
	}
	if s.denominator == 0 {
		return unknown("%s cannot be measured yet", s.ratio)
	}

	// A block lasts until it is long enough and full enough, whichever is later.
	filling := float64(blockDenominator(s.threshold)) / (float64(s.denominator) / minutes)
	length := math.Max(j.cfg.Block.Minutes(), filling)

	score, mean, weight := s.score, s.taken(), s.usualWeight()
	for n := 1; n <= mostBlocks; n++ {
		// The very first block bets nothing.
		if score.blocks == 0 {
			score.add(mean, s.threshold, 0)
			continue
		}
		if score.add(mean, s.threshold, weight); score.value() < enough {
			continue
		}

		// The open block should have closed by now: blocks do not fill any more as they did.
		first := float64(s.openFrom-j.now) + length
		if first < 0 {
			return unknown("the current block of %s should have closed already: its traffic has become rarer", s.ratio)
		}
		return delay{
			minutes: first + float64(n-1)*length, of: fmt.Sprintf("the score of %s", s.ratio), counts: true,
			blocks: len(s.blocks) + n, block: time.Duration(length) * time.Minute,
		}
	}

	return never("%s is %s %s, so close to its threshold of %s that its score does not reach %d: "+
		"change the candidate or raise the threshold",
		s.ratio, humanize.Percent(s.raw()), of[s.ratio], humanize.Percent(s.threshold), enough)
}

// usualWeight returns the mean weight of the blocks that have bet, 1 if none has.
func (s *stream) usualWeight() float64 {
	if len(s.blocks) < 2 {
		return 1
	}
	sum := 0.0
	for _, b := range s.blocks[1:] {
		sum += b.weight
	}
	return sum / float64(len(s.blocks)-1)
}
