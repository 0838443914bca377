package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// of words a ratio's denominator.
var of = [...]string{
	divergence.OfComparisons: "of all comparisons",
	divergence.OfAllows:      "of what the authoritative allows",
	divergence.OfDenials:     "of what the authoritative denies",
	divergence.ExtraLoad:     "more than the authoritative allows",
}

// verdict returns the first verdict that applies, and its sentence.
func (j *judgement) verdict() (string, string) {
	// Certainty decides the order: a candidate that is known to be bad fails even where
	// evidence is missing. The simple rule knows no certainty.
	if reason := j.failure(); reason != "" && j.cfg.Rule != Simple {
		return Fail, reason
	}
	if list := j.obstacles(); len(list) > 0 {
		return list[0].verdict(), j.sentence(list)
	}

	if j.cfg.Rule == Simple {
		return Pass, fmt.Sprintf("all ratios are below their thresholds over the last %s", hours(j.soak()))
	}
	return Pass, fmt.Sprintf("%s clean and %s compared: "+
		"all ratios are below their thresholds with scores of at least %d",
		hours(j.clean), humanize.Counted(j.total.Comparisons(), "request"), enough)
}

// sentence words the first obstacle, and the forecast where a reader may hope for one.
func (j *judgement) sentence(list []Obstacle) string {
	first, text := list[0], list[0].Text

	// A score and the clean time grow side by side: either may be the last to suffice.
	if first.Kind == LowScore && len(list) > 1 {
		text += "; " + list[1].Text
	}
	if j.terse || !first.Waits() && first.verdict() != Wait {
		return text
	}

	// A ratio above its threshold matters more than denials that are still few, though it proves nothing yet.
	if above := slices.IndexFunc(list, func(o Obstacle) bool { return o.Kind == AboveThreshold }); above > 0 && first.Waits() {
		// Where it is too early to tell, more traffic may lower it: the sentence must not say both.
		if tooEarly := strings.HasSuffix(list[above].Text, TooEarly); tooEarly {
			return list[above].Text + "; besides, " + text
		}
		return list[above].Text + ", and waiting alone does not lower it; besides, " + text
	}
	switch f := j.forecast(); {
	case f.Never:
		if last := list[len(list)-1]; last.Kind == CleanTime {
			return "cannot pass: " + f.NoForecast + "; besides, " + last.Text
		}
		return "cannot pass: " + f.NoForecast
	case f.WouldPassAt == nil:
		return text + "; no forecast: " + f.NoForecast
	default:
		return text + "; could pass " + dated(*f.WouldPassAt) + " if traffic and ratios stay as they were"
	}
}

// failure says why it is sound to call the candidate bad; "" if it is not. Each way has an
// error bound: a raw ratio alone would call every candidate bad whose first night is.
func (j *judgement) failure() string {
	if j.strikes >= mostStrikes {
		return fmt.Sprintf("%s: %d strikes within 7 days; change the candidate, which starts a new epoch, or promote by force",
			j.worst(), j.strikes)
	}

	for _, r := range byHarm {
		s := &j.streams[r]
		switch {
		case s.mirror.alarm() >= alarmAt(j.cfg.Block):
			return j.excess(s) + ", and it has risen: " + advice
		case s.mirror.evidence() >= enough && j.unseen() == "":
			return j.excess(s) + ", which is no chance: " + advice
		}
	}
	return ""
}

// worst words the ratio that is above its threshold, or else the worst of the bad blocks that are strikes.
func (j *judgement) worst() string {
	for _, r := range byHarm {
		if s := &j.streams[r]; s.atOrAbove() {
			return j.excess(s)
		}
	}

	if list := j.protectedLost(); len(list) > 0 {
		return list[0].Text
	}
	b := slices.MaxFunc(strikesOf(j.bad, j.now-strikesOver), func(a, b badBlock) int {
		return cmp.Compare(a.ratio/a.cap, b.ratio/b.cap)
	})
	return fmt.Sprintf("%s was %s %s from %s to %s UTC, and %s makes an hour bad", b.of,
		humanize.Percent(b.ratio), of[b.of], stamp(atMinute(b.From)), atMinute(b.To).Format("15:04"), humanize.Percent(b.cap))
}

const advice = "change the candidate, or raise the threshold if the difference is wanted"

// excess words a ratio that is above its threshold: over the last day where that is worse.
func (j *judgement) excess(s *stream) string {
	numerator, denominator, since := j.shown(s)
	return fmt.Sprintf("%s is %s %s%s, its threshold %s", s.ratio,
		humanize.Percent(float64(numerator)/float64(denominator)), of[s.ratio], since, humanize.Percent(s.threshold))
}

// shown returns the ratio that excess shows, and since when it is; "" for all the evidence.
func (j *judgement) shown(s *stream) (numerator, denominator int64, since string) {
	n, d, from := j.lately(s)
	better := float64(n)*float64(s.denominator) <= float64(s.numerator)*float64(d)

	// Evidence that is no older than a day is the same in both, but for the minutes at its ends, which are not whole. Two ratios
	// of the same requests would only be a riddle.
	if better || s.atOrAbove() && j.since >= j.now-minutesADay {
		return s.numerator, s.denominator, ""
	}

	// A quiet policy needs longer for one difference to be allowed at all.
	if from < j.now-minutesADay {
		return n, d, " since " + dated(atMinute(from))
	}
	return n, d, " over the last 24 h"
}

// lately returns the raw ratio of the last 24 hours, or of as long as the denominator allows one
// difference, and the first minute of that.
func (j *judgement) lately(s *stream) (numerator, denominator, from int64) {
	minutes, least := between(j.evidence.History.Minutes, j.since, j.now), blockDenominator(s.threshold)
	for i := len(minutes) - 1; i >= 0 && (minutes[i].Unix >= j.now-minutesADay || denominator < least); i-- {
		if j.invalid[minutes[i].Unix/minutesAnHour] {
			continue
		}
		n, d := s.ratio.Of(minutes[i].Tally)
		numerator, denominator, from = numerator+n, denominator+d, minutes[i].Unix
	}
	return numerator, denominator, from
}

// belowAgain says when the ratio of the last 24 hours falls below its threshold if it stays below that from now on; "" if the
// evidence does not tell. More traffic can only make it earlier, so the evidence so far is a bound.
func (j *judgement) belowAgain(s *stream) string {
	numerator, denominator, from := j.lately(s)
	if j.terse || from < j.now-minutesADay {
		return ""
	}

	least := blockDenominator(s.threshold)
	for _, m := range between(j.evidence.History.Minutes, from, j.now) {
		if j.invalid[m.Unix/minutesAnHour] {
			continue
		}
		n, d := s.ratio.Of(m.Tally)
		numerator, denominator = numerator-n, denominator-d

		// With less left, the ratio would reach further back than a day.
		switch {
		case denominator < least:
			return ""
		case float64(numerator) < s.threshold*float64(denominator):
			return ", and falls below that by " + dated(atMinute(m.Unix+1+minutesADay)) + " if no more requests differ"
		}
	}
	return ""
}

// noisy reports whether the way of comparing makes a third of the differences that the
// threshold allows.
func (j *judgement) noisy() bool {
	most := j.cfg.Divergence / 3

	// With a smaller denominator than a block by that share the noise may be chance.
	numerator, denominator := divergence.OfComparisons.Of(j.evidence.Noise)
	return denominator >= leastDenominator(most) && float64(numerator) >= most*float64(denominator)
}

// lastDay returns the tally of the last 24 hours.
func (j *judgement) lastDay() divergence.Tally {
	return recent(j.evidence.History.Minutes, j.now-minutesADay)
}

// soak is the clean time that the step needs, without strikes.
func (j *judgement) soak() time.Duration { return j.cfg.SoakFor(j.evidence.Step.Percent) }

// unseen lists the hours of the day in which no instance was live, or their number where
// they are many.
func (j *judgement) unseen() string {
	var list []string
	for hour, seen := range j.seen {
		if !seen {
			list = append(list, fmt.Sprintf("%02d", hour))
		}
	}

	// The number says more than a list of most hours.
	if len(list) > 12 {
		return fmt.Sprintf("%d of 24", len(list))
	}
	return strings.Join(list, " ")
}

// unseenWeekdays lists the weekdays in which no instance was live for half of the day, if the
// step needs them.
func (j *judgement) unseenWeekdays() string {
	if !j.cfg.asksForWeekdays(j.evidence.Step.Percent) {
		return ""
	}
	var list []string
	for day, seen := range j.weekdays {
		if !seen {
			list = append(list, time.Weekday(day).String())
		}
	}
	return strings.Join(list, " ")
}

// afterStrikes names the strikes that make the clean time longer, and when that ends.
func (j *judgement) afterStrikes() string {
	if j.strikes == 0 {
		return ""
	}
	which := "which counts until "
	if j.strikes > 1 {
		which = "the first of which counts until "
	}
	return " after " + humanize.Counted(int64(j.strikes), "strike") + ", " + which + dated(atMinute(j.strikeLeaves(j.now)))
}

// dated writes an instant as a sentence names it.
func dated(t time.Time) string { return t.Format("Mon 2006-01-02 15:04 MST") }

func hours(d time.Duration) string { return hoursText(d.Hours()) }

// hoursText writes hours to a tenth, and less than an hour in minutes. It rounds down: too few hours must not look like enough.
func hoursText(h float64) string {
	const rounding = 1e-6 // a tenth of an hour has no exact form
	switch {
	case h >= 10_000:
		return humanize.Grouped(int64(h)) + " h"
	case h > 0 && h < 1:
		return fmt.Sprintf("%d min", int64(h*60+rounding))
	}
	return strconv.FormatFloat(math.Floor(h*10+rounding)/10, 'f', -1, 64) + " h"
}
