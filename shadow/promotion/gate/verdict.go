package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// denominatorWords name the denominators of ratios.
var denominatorWords = [...]string{
	divergence.OfComparisons: "of all comparisons",
	divergence.OfAllows:      "of what the authoritative allows",
	divergence.OfDenials:     "of what the authoritative denies",
	divergence.ExtraLoad:     "more than the authoritative allows",
}

// verdict returns the first verdict that applies, and its sentence.
func (j *judgement) verdict() (string, string) {
	// Certainty decides the order: a candidate that is known to be bad fails even where
	// evidence is missing.
	if reason := j.failure(); reason != "" {
		return Fail, reason
	}
	if list := j.obstacles(); len(list) > 0 {
		return list[0].Kind.subject().verdict, j.sentence(list)
	}

	return Pass, fmt.Sprintf("%s clean and %s compared: "+
		"all ratios are below their thresholds with scores of at least %d",
		hours(j.clean), humanize.Counted(j.total.Comparisons(), "request"), enough)
}

// sentence words the obstacle that comes first, and the forecast where a reader may hope for one.
func (j *judgement) sentence(list []Obstacle) string {
	// A fault must be mended whatever else is missing, and none of the evidence behind it mends it.
	if fault := slices.IndexFunc(list, Obstacle.fault); fault >= 0 {
		return j.withFault(list, fault)
	}
	first, text := list[0], list[0].Text

	// A score and the clean time grow side by side: either may be the last to suffice.
	if first.Kind == LowScore && len(list) > 1 {
		text += "; " + list[1].Text
	}
	if j.terse {
		return text
	}

	// A ratio above its threshold matters more than denials that are still few, though it proves nothing yet. Where it is
	// too early to tell, more traffic may lower it: the sentence must not say both.
	if above := slices.IndexFunc(list, Obstacle.isAbove); above > 0 && first.Waits() {
		lead := list[above].Text
		if !list[above].Early && !list[above].Falls {
			lead += ", and waiting alone does not lower it"
		}
		return lead + "; besides, " + text
	}
	switch f := j.forecast(list); {
	case f.Never:
		if last := list[len(list)-1]; last.Kind == CleanTime {
			return "cannot pass: " + f.NoForecast + "; besides, " + last.Text
		}
		return "cannot pass: " + f.NoForecast
	case f.WouldPassAt == nil:
		return text + "; no forecast: " + f.NoForecast
	default:
		return text + "; could pass " + f.earliest() + ", if traffic and ratios stay as they were"
	}
}

// fault reports whether nothing can be concluded before the cause of the obstacle ends, which waiting does not bring about.
func (o Obstacle) fault() bool { return !o.Waits() && o.Kind.subject().verdict == Insufficient }

func (o Obstacle) isAbove() bool { return o.Kind == AboveThreshold }

// withFault words a fault, and the one of the other obstacles that matters most.
func (j *judgement) withFault(list []Obstacle, fault int) string {
	text := list[fault].Text

	others := slices.Delete(slices.Clone(list), fault, fault+1)
	if j.terse || len(others) == 0 {
		return text
	}
	other := max(0, slices.IndexFunc(others, Obstacle.isAbove))
	if again := slices.IndexFunc(others, Obstacle.fault); again >= 0 {
		other = again
	}
	return text + "; besides, " + others[other].Text
}

// failure says why it is sound to call the candidate bad; "" if it is not. Each way has an
// error bound: a raw ratio alone would call every candidate bad whose first night is.
func (j *judgement) failure() string {
	if j.strikes >= mostStrikes {
		return fmt.Sprintf("%s: %d strikes within 7 days; change the candidate, which starts a new fingerprint", j.worst(), j.strikes)
	}

	proved := j.gravest(func(s *stream) bool {
		return s.mirror.alarm() >= alarmAt || s.mirror.evidence() >= enough && j.allHoursSeen()
	})
	switch {
	case proved == nil:
		return ""
	case proved.mirror.alarm() >= alarmAt:
		return proved.exceeds(j.accusation(proved)) + ", and that is proved: " + advice
	}
	return proved.exceeds(j.accusation(proved)) + ", which is not chance: " + advice
}

// gravest returns the meant ratio that is highest in relation to its cap; nil if none is meant. Extra load counts the same requests
// as newly allowed, and a candidate that limits nothing must not look like one that lets a little more through.
func (j *judgement) gravest(meant func(*stream) bool) (gravest *stream) {
	height := func(s *stream) float64 { return j.accusation(s).value() / capOf(s.threshold) }
	for _, r := range byHarm {
		if s := &j.streams[r]; meant(s) && (gravest == nil || height(s) > height(gravest)) {
			gravest = s
		}
	}
	return gravest
}

// worst words the ratio that is above its threshold, or else the worst of the bad blocks that are strikes.
func (j *judgement) worst() string {
	if s := j.gravest((*stream).atOrAbove); s != nil {
		return j.excess(s)
	}

	if list := j.protectedLost(); len(list) > 0 {
		return list[0].Text
	}
	b := slices.MaxFunc(strikesOf(j.bad, j.now-strikesOver), func(a, b badBlock) int {
		return cmp.Compare(a.ratio/a.cap, b.ratio/b.cap)
	})
	return fmt.Sprintf("%s was %s %s from %s to %s UTC, and %s makes an hour bad", b.of,
		humanize.Percent(b.ratio), denominatorWords[b.of], stamp(atMinute(b.From)), atMinute(b.To).Format("15:04"), humanize.Percent(b.cap))
}

const advice = "change the candidate, or raise the threshold if the difference is wanted"

// rawRatio is a raw ratio over some time. Over says which, "" for all the evidence.
type rawRatio struct {
	numerator, denominator int64
	over                   string
}

// value returns the ratio, 0 to 1; 0 without a denominator.
func (r rawRatio) value() float64 { return float64(r.numerator) / float64(max(1, r.denominator)) }

// higher returns the raw ratio over all the evidence, or over the last day where that is worse.
func (j *judgement) higher(s *stream) rawRatio {
	all := rawRatio{s.numerator, s.denominator, ""}
	n, d, from := j.lately(s)
	switch {
	case float64(n)*float64(all.denominator) <= float64(all.numerator)*float64(d):
		return all

	// Evidence that is no older than a day is the same in both, but for the minutes at its ends, which are not whole. Two
	// ratios of the same requests would only be a riddle.
	case s.atOrAbove() && j.since >= j.now-minutesADay:
		return all

	// A quiet policy needs longer for one difference to be allowed at all.
	case from < j.now-minutesADay:
		return rawRatio{n, d, " since " + dated(atMinute(from))}
	}
	return rawRatio{n, d, " over the last 24 h"}
}

// falling says when a ratio over all the evidence falls below its threshold if the last 24 h go on; "" if it does not. One
// incident of long ago leaves a ratio so: all requests since then dilute it.
func (j *judgement) falling(s *stream) string {
	n, d, from := j.lately(s)
	surplus := float64(s.numerator) - s.threshold*float64(s.denominator)
	perSpan := s.threshold*float64(d) - float64(n)
	if s.tooEarly() || j.since >= j.now-minutesADay || perSpan <= 0 {
		return ""
	}

	ahead := math.Floor(surplus/perSpan*float64(j.now-from)) + 1
	if ahead > keptFor.Minutes() {
		return ""
	}
	return fmt.Sprintf("; it was %s over the last 24 h, and falls below the threshold about %s if that goes on",
		humanize.Percent(float64(n)/float64(d)), dated(*j.in(ahead)))
}

// accusation returns the raw ratio that speaks against the candidate.
func (j *judgement) accusation(s *stream) rawRatio {
	if n, d := s.ratio.Of(s.accused); n != s.numerator || d != s.denominator {
		return rawRatio{n, d, ""}
	}
	return j.higher(s)
}

// excess words a ratio that is above its threshold.
func (j *judgement) excess(s *stream) string { return s.exceeds(j.higher(s)) }

func (s *stream) exceeds(r rawRatio) string {
	return fmt.Sprintf("%s is %s %s%s, its threshold %s", s.ratio,
		humanize.Percent(r.value()), denominatorWords[s.ratio], r.over, humanize.Percent(s.threshold))
}

// lately returns the raw ratio of the last 24 hours, or of as long as the denominator allows one
// difference, and the first minute of that.
func (j *judgement) lately(s *stream) (numerator, denominator, from int64) {
	minutes, least := between(j.evidence.History.Minutes, j.since, j.now), blockDenominator(s.threshold)
	for i := len(minutes) - 1; i >= 0 && (minutes[i].Unix >= j.now-minutesADay || denominator < least); i-- {
		if s.invalid.has(minutes[i].Unix) {
			continue
		}
		n, d := s.ratio.Of(minutes[i].Tally)
		numerator, denominator, from = numerator+n, denominator+d, minutes[i].Unix
	}
	return numerator, denominator, from
}

// belowAgain says when the ratio of the last 24 hours falls below its threshold if it stays below that from now on; "" if the
// evidence does not tell.
func (j *judgement) belowAgain(s *stream) string {
	numerator, denominator, from := j.lately(s)
	if j.terse || from < j.now-minutesADay {
		return ""
	}
	valid := s.invalid.leave(between(j.evidence.History.Minutes, from, j.now))

	// The minutes leave the day one by one. More traffic can only make it earlier, so the evidence so far is a bound.
	for _, m := range valid {
		n, d := s.ratio.Of(m.Tally)
		numerator, denominator = numerator-n, denominator-d
		switch {
		case denominator < blockDenominator(s.threshold): // the ratio would reach further back than a day
			return ""
		case float64(numerator) < s.threshold*float64(denominator):
			return ", and falls below that by " + dated(atMinute(m.Unix+1+minutesADay)) + " if no more requests differ"
		}
	}
	return ""
}

// lastDay returns the tally of the last 24 hours.
func (j *judgement) lastDay() divergence.Tally {
	return recent(j.evidence.History.Minutes, j.now-minutesADay)
}

// soak is the clean time that the step needs, without strikes.
func (j *judgement) soak() time.Duration { return j.cfg.SoakFor(j.evidence.Step.Percent) }

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
