package gate

import (
	"fmt"
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// mostBlocks is how many more blocks a forecast looks ahead.
const mostBlocks = 2000

// delay is how far away one condition of a pass is.
type delay struct {
	kind    ObstacleKind // the obstacle until then
	ratio   string       // the name of the ratio whose score it is; "" for none
	minutes float64
	of      string // what takes that long: the clean time
	when    string // the condition as it is met: 48 h are clean
	unknown string // why that cannot be said; the minutes are then infinite
	never   bool   // it is not met at all, as traffic and configuration are
	counts  bool   // it needs evidence that adds up, which the ledger must still have
	at      string // the rate at which it does
	instead string // what to do if it takes longer than that
	// For a score: how many blocks suffice, closed ones included, and how long each is.
	blocks int
	block  time.Duration
}

// isUnknown returns the delay of a condition whose time cannot be said yet.
func (d delay) isUnknown(format string, args ...any) delay {
	d.minutes, d.unknown = math.Inf(1), fmt.Sprintf(format, args...)
	return d
}

// isNever returns the delay of a condition that is not met by waiting.
func (d delay) isNever(format string, args ...any) delay {
	d = d.isUnknown(format, args...)
	d.never = true
	return d
}

// unforeseeable says why there is no date, "" if there is one, and whether waiting never helps. Age is the evidence's, in minutes:
// evidence that is forgotten before there is enough of it never suffices.
func (d delay) unforeseeable(age float64) (why string, never bool) {
	if d.unknown != "" {
		return d.unknown, d.never
	}
	if !d.counts || d.minutes == 0 || d.minutes+age <= keptFor.Minutes() {
		return "", false
	}
	return fmt.Sprintf("%s would take %s days at %s, and evidence is kept for %d: %s", d.of,
		humanize.Grouped(int64(math.Ceil((d.minutes+age)/minutesADay))), d.at, divergence.KeptDays, d.instead), true
}

// blockText writes the length of a block as a sentence names it.
func (d delay) blockText() string {
	if d.block < 10*time.Hour {
		return hours(d.block)
	}
	return fmt.Sprintf("about %.3g h", d.block.Hours())
}

// pace is how fast a count grows.
type pace struct {
	perMinute float64 // 0 if that is unknown
	text      string  // over which time
	idle      int64   // minutes since it last grew
}

// paceOver returns how many minutes a pace is taken of: the last day, or all the evidence where that is less. A pace since
// the beginning would fall for ever after traffic that has ended, and the date would move away with it.
func (j *judgement) paceOver() float64 { return math.Min(j.age(), minutesADay) }

func (j *judgement) paceOf(count func(divergence.Tally) int64) pace {
	p := pace{text: "the rate so far", idle: j.now - j.since}
	var have, lately int64
	from := j.now - int64(j.paceOver())
	for _, m := range between(j.evidence.History.Minutes, j.since, j.now) {
		n := count(m.Tally)
		if have += n; n > 0 {
			p.idle = j.now - m.Unix - 1
		}
		if m.Unix >= from {
			lately += n
		}
	}
	if have == 0 || j.age() <= 0 {
		return p
	}

	// What comes less often than once a day has no pace of the last day. One that has not come for longer than usual has ended, as far
	// as anything shows, and a single one shows no pace.
	if usual := j.age() / float64(have); usual > minutesADay {
		if have > 1 && float64(p.idle) <= usual {
			p.perMinute = 1 / usual
		}
		return p
	}
	if p.perMinute = float64(lately) / j.paceOver(); j.paceOver() == minutesADay {
		p.text = "the rate of the last 24 h"
	}
	return p
}

const checkTheLimit = "check that the limit is the intended one, wait for a peak, replay a log of a peak, " +
	"or with lower limits on both sides, or promote by force"

// untilDenials returns how long until the authoritative has denied enough.
func (j *judgement) untilDenials() delay {
	have, need := j.total.AuthoritativeDenies(), j.cfg.MinDenials
	d := delay{
		kind: FewDenials, counts: true, of: "enough requests that the authoritative denies",
		when:    fmt.Sprintf("the authoritative has denied %s", humanize.Counted(need, "request")),
		instead: "lower min_denials, send more traffic, or promote by force",
	}
	if have >= need {
		return d
	}

	// A day without a denial shows that this traffic does not reach the limit. Before that, a peak may still come.
	p := j.paceOf(divergence.Tally.AuthoritativeDenies)
	switch {
	case have == 0 && p.idle >= minutesADay:
		return d.isNever("the authoritative has denied nothing in %s, so on this traffic nothing shows how the candidate denies: %s",
			daysText(p.idle), checkTheLimit)
	case have == 0:
		return d.isUnknown("there are no requests that the authoritative denies yet, so their rate is unknown")
	case p.perMinute == 0:
		return d.isUnknown("the authoritative has denied nothing for %s, so the rate of its denials is unknown: %s",
			hoursOfMinutes(p.idle), checkTheLimit)
	}
	d.minutes, d.at = float64(need-have)/p.perMinute, p.text
	return d
}

// untilAgreed returns how long until both sides have denied a request. Without any so far there is no rate.
func (j *judgement) untilAgreed() delay {
	d := delay{kind: DeniesNothing, of: "a request that both sides deny", when: "both sides have denied a request"}
	denials := j.total.AuthoritativeDenies()
	switch {
	case j.total[divergence.AgreeDeny] > 0:
		return d
	case denials > 0 && j.age() >= minutesADay:
		return d.isNever("the candidate has denied none of the %s that the authoritative denied in %s: check that it limits at all",
			humanize.Counted(denials, "request"), daysText(int64(j.age())))
	}
	return d.isUnknown("there are no requests that both sides deny yet, so their rate is unknown")
}

// subjectsOfRatios name the requests in the denominators of ratios: as they come, and as they do not come.
var subjectsOfRatios = [...]struct{ come, missing string }{
	divergence.OfComparisons: {"the comparisons come", "nothing was compared"},
	divergence.OfAllows:      {"what the authoritative allows comes", "the authoritative has allowed nothing"},
	divergence.OfDenials:     {"what the authoritative denies comes", "the authoritative has denied nothing"},
	divergence.ExtraLoad:     {"what the authoritative allows comes", "the authoritative has allowed nothing"},
}

// untilEnough returns how long until a ratio's score suffices, if blocks go on with the mean
// ratio so far.
func (j *judgement) untilEnough(s *stream) delay {
	d := delay{
		kind: LowScore, ratio: s.ratio.String(), counts: true, of: fmt.Sprintf("the score of %s", s.ratio),
		when:    fmt.Sprintf("the score of %s is %d", s.ratio, enough),
		instead: "raise the threshold, change the candidate, or send more traffic",
	}
	if s.score.value() >= enough {
		return d
	}
	if s.denominator == 0 {
		return d.isUnknown("%s cannot be measured yet", s.ratio)
	}

	// A block lasts until it is long enough and full enough, whichever is later.
	p := j.paceOf(func(t divergence.Tally) int64 {
		_, denominator := s.ratio.Of(t)
		return denominator
	})
	if p.perMinute == 0 {
		return d.isUnknown("%s for %s, so the pace of the score of %s is unknown: send more traffic",
			subjectsOfRatios[s.ratio].missing, hoursOfMinutes(p.idle), s.ratio)
	}
	length := math.Max(minutesAnHour, float64(blockDenominator(s.threshold))/p.perMinute)

	// A mean so close to the threshold proves nothing within any time that the ledger keeps.
	n := s.blocksUntilEnough()
	if n > mostBlocks && s.atOrAbove() {
		return d.isUnknown("%s is not below its threshold, so its score does not grow yet", s.ratio)
	}
	if n > mostBlocks {
		return d.isNever("%s is %s %s, so close to its threshold of %s that its score does not reach %d: "+
			"change the candidate or raise the threshold",
			s.ratio, humanize.Percent(s.raw()), denominatorWords[s.ratio], humanize.Percent(s.threshold), enough)
	}

	// An open block that should have closed by now did not fill as they did on average.
	first := float64(s.openFrom-j.now) + length
	if first < 0 {
		return d.isUnknown("%s in bursts, so the pace of the score of %s is unknown: wait for the next burst, or send more traffic",
			subjectsOfRatios[s.ratio].come, s.ratio)
	}
	d.minutes, d.at = first+float64(n-1)*length, p.text
	d.blocks, d.block = len(s.blocks)+n, time.Duration(length)*time.Minute
	return d
}

// blocksUntilEnough returns how many more blocks with the mean ratio so far make the score suffice, more than mostBlocks if they
// never do.
func (s *stream) blocksUntilEnough() int {
	score, mean, weight := s.score, s.taken(), s.usualWeight()
	for n := 1; n <= mostBlocks; n++ {
		// The very first block bets nothing.
		if score.blocks == 0 {
			score.add(mean, s.threshold, 0)
			continue
		}
		if score.add(mean, s.threshold, weight); score.value() >= enough {
			return n
		}
	}
	return mostBlocks + 1
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

func hoursOfMinutes(minutes int64) string { return hours(time.Duration(minutes) * time.Minute) }

// daysText writes minutes as whole days, and less than two days in hours. It rounds down.
func daysText(minutes int64) string {
	if minutes < 2*minutesADay {
		return hoursOfMinutes(minutes)
	}
	return fmt.Sprintf("%d days", minutes/minutesADay)
}
