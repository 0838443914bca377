package gate

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Bounds of a course.
const (
	mostJudged   = 2000 // instants; in a longer history they are hours apart
	mostVerdicts = 50
)

// Course is how the gate's verdict went over a history: what it would have said
// at the end of every hour, and at the history's end. Of a history of over 2,000 hours it is asked at
// most so often, Every hours apart, in those in which an instance was live.
type Course struct {
	// PassedAt and FailedAt are when the verdict was first pass and fail; nil if it
	// never was.
	PassedAt *time.Time `json:"passed_at"`
	FailedAt *time.Time `json:"failed_at"`
	// Strikes are those of the whole history, in order. The gate counts only the
	// last 7 days.
	Strikes []Strike `json:"strikes"`
	// Verdicts are the changes of the verdict, beginning with the first. Of more
	// than 50 those in the middle are left out.
	Verdicts []Change `json:"verdicts"`
	LeftOut  int      `json:"verdicts_left_out,omitempty"`
	Every    int64    `json:"judged_every_hours"`

	length, soak time.Duration // of the history; asked for
	shorter      time.Duration // soak by which it would have passed at the end; 0 if none
}

// Strike is a block in which a ratio was above its cap, from at least 3 keys.
type Strike struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"` // not included
	Ratio string    `json:"ratio"`
	Value float64   `json:"value"`
	Cap   float64   `json:"cap"`
	// Key is the protected key that lost too much, where Ratio is protect.
	Key string `json:"key,omitempty"`
}

// Change is a verdict that differs from the one before.
type Change struct {
	At      time.Time `json:"at"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
}

// Follow returns the course over the evidence by a configuration with its defaults filled
// in. It ends with the verdict of [Assess]. It counts denied keys by Evidence.Denied. The fleet is
// taken as it is at the end.
func Follow(cfg Config, e Evidence) Course {
	c := Course{Strikes: []Strike{}, Verdicts: []Change{}, length: e.Now.Sub(e.Since), soak: cfg.SoakFor(e.Step.Percent)}
	if len(e.History.Minutes) == 0 {
		return c
	}

	end := judge(cfg, &e)
	for _, b := range strikesOf(end.bad, math.MinInt64) {
		c.Strikes = append(c.Strikes, b.strike())
	}

	w := newWalk(end)
	hours := hoursOf([]divergence.Span{{From: end.since, To: end.now}}, end.now)
	if len(hours) > mostJudged {
		hours = hoursOf(e.History.Live, end.now)
	}
	c.Every = int64(max(1, (len(hours)+mostJudged-1)/mostJudged))
	for i := c.Every - 1; i < int64(len(hours)); i += c.Every {
		w.advance(hours[i])
		c.note(w.at)
	}
	c.note(end)
	c.shorter = end.shorterSoak()
	return c
}

func (b badBlock) strike() Strike {
	if b.key != nil {
		return Strike{From: atMinute(b.From), To: atMinute(b.To), Ratio: "protect", Value: b.ratio, Cap: b.cap, Key: humanize.Printable(b.key.Key)}
	}
	return Strike{From: atMinute(b.From), To: atMinute(b.To), Ratio: b.of.String(), Value: b.ratio, Cap: b.cap}
}

func atMinute(unix int64) time.Time { return time.Unix(unix*60, 0).UTC() }

// hoursOf returns the ends of the hours of some spans before an instant, in order. Hours are complete at their
// ends.
func hoursOf(live []divergence.Span, now int64) (ends []int64) {
	last := int64(math.MinInt64)
	for _, s := range live {
		for end := max(last+minutesAnHour, (s.From/minutesAnHour+1)*minutesAnHour); end < min(now, s.To+minutesAnHour); end += minutesAnHour {
			ends, last = append(ends, end), end
		}
	}
	return ends
}

// note takes down the verdict if it has changed.
func (c *Course) note(j *judgement) {
	// Most hours change nothing, so the forecast for the sentence is left out of the
	// first look.
	verdict, _ := j.tersely().verdict()
	if n := len(c.Verdicts); n > 0 && c.Verdicts[n-1].Verdict == verdict {
		return
	}
	change := Change{At: j.evidence.Now.UTC(), Verdict: verdict}
	_, change.Reason = j.verdict()

	// The beginning and the end of a long course say more than its middle.
	if c.Verdicts = append(c.Verdicts, change); len(c.Verdicts) > mostVerdicts {
		c.Verdicts = slices.Delete(c.Verdicts, mostVerdicts/2, mostVerdicts/2+1)
		c.LeftOut++
	}

	switch {
	case verdict == Pass && c.PassedAt == nil:
		c.PassedAt = &change.At
	case verdict == Fail && c.FailedAt == nil:
		c.FailedAt = &change.At
	}
}

// tersely returns the judgement with sentences that have no forecast.
func (j *judgement) tersely() *judgement {
	other := *j
	other.terse = true
	return &other
}

// shorterSoak returns the longest soak, in whole hours or else minutes, by which
// the gate would pass; 0 if clean time is not all that it waits for.
func (j *judgement) shorterSoak() time.Duration {
	// A soak as an operator would write it: in whole hours, or else in whole minutes.
	soak := j.clean / time.Duration(j.strikes+1)
	if soak >= time.Hour {
		soak = soak.Truncate(time.Hour)
	}
	if soak = soak.Truncate(time.Minute); soak <= 0 || soak >= j.soak() {
		return 0
	}

	// A shorter soak helps only where clean time is the one obstacle.
	other := *j
	other.cfg.Soak, other.cfg.Graded, other.needed = soak, false, soak*time.Duration(j.strikes+1)
	if verdict, _ := other.verdict(); verdict != Pass {
		return 0
	}
	return soak
}

// walk judges ever longer parts of a history. Each judgement adds the new minutes to the
// one before: judging every hour from the start would take quadratic time.
type walk struct {
	at    *judgement
	whole *judgement
}

func newWalk(whole *judgement) *walk {
	at := &judgement{
		cfg: whole.cfg, since: whole.since, now: math.MinInt64, invalid: whole.invalid, disturbance: whole.disturbance,
	}
	e := *whole.evidence
	e.History.Minutes, e.Denied, at.evidence = nil, []int64{}, &e
	for i, s := range whole.streams {
		at.streams[i] = newStream(whole.cfg, s.ratio, at.since)
		at.streams[i].disturbed, at.streams[i].invalid = s.disturbed, s.invalid
	}
	return &walk{at, whole}
}

// advance goes on to the end of an hour. The hour is complete then, so hours that are
// valid stay valid, and blocks that have ended stay as they are.
func (w *walk) advance(now int64) {
	j, all := w.at, w.whole.evidence.History
	before := j.now
	j.now, j.evidence.Now = now, atMinute(now)

	passed := len(j.evidence.History.Minutes)
	n := sort.Search(len(all.Minutes), func(i int) bool { return all.Minutes[i].Unix >= now })
	j.count(all.Minutes[passed:n])
	j.evidence.History.Minutes = all.Minutes[:n]

	denied := w.whole.evidence.Denied
	known := sort.Search(len(denied), func(i int) bool { return denied[i] >= now })
	j.evidence.History.Distinct[divergence.KeysDenied], j.evidence.Denied = int64(known), denied[:known:known]

	for i := range j.streams {
		s := &j.streams[i]
		s.advance(&w.whole.streams[i], now)
	}
	bad := w.whole.bad
	j.strike(bad[:sort.Search(len(bad), func(i int) bool { return bad[i].To > now })])
	j.addHours(before, now)
}

// advance takes the blocks that have ended by now from all of them.
func (s *stream) advance(all *stream, now int64) {
	s.take(endedBy(now, all.blocks[len(s.blocks):]))
	s.accuse(endedBy(now, all.against[len(s.against):]))
}

func endedBy(now int64, blocks []block) []block {
	n := 0
	for n < len(blocks) && blocks[n].To <= now {
		n++
	}
	return blocks[:n]
}

// addHours adds the counts between two ends of hours.
func (j *judgement) addHours(from, to int64) {
	// A day may have been looked at in pieces, so its minutes are counted from its beginning.
	from = max(from, j.since) / minutesADay * minutesADay
	var live []divergence.Span
	for _, s := range j.evidence.History.Live {
		if s.From < to && s.To > from {
			live = append(live, divergence.Span{From: max(s.From, from), To: min(s.To, to)})
		}
	}

	hours, weekdays := seenIn(live, j.invalid)
	for i, seen := range hours {
		j.seen[i] = j.seen[i] || seen
	}
	for i, seen := range weekdays {
		j.weekdays[i] = j.weekdays[i] || seen
	}
}
