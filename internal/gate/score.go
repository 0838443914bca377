package gate

import (
	"math"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// bets are the shares of the score that are staked on each hour. A larger bet wins sooner with quiet
// hours and loses more with bad ones; the mean of three does well whatever the true ratio is.
var bets = [...]float64{0.2, 0.5, 0.9}

// capOf returns the ratio up to which an hour loses as the bet says. A cap of 1 or more would never be
// reached, so it is at most (1+p0)/2.
func capOf(p0 float64) float64 { return math.Min(5*p0, (1+p0)/2) }

// product is what each bet has grown to, as its logarithm.
type product [len(bets)]float64

func (p *product) mean() float64 {
	sum := 0.0
	for _, log := range p {
		sum += math.Exp(math.Min(log, mostLog))
	}
	return sum / float64(len(p))
}

// mostLog keeps sums finite: JSON knows no infinity.
const mostLog = 690

// score is the evidence that a ratio is below its threshold p0: a test martingale by betting (Waudby-Smith and Ramdas,
// "Estimating means of bounded random variables by betting"), made smaller in two ways. For an hour with the ratio x the bet g
// grows by f = 1 - g*e with e = (x-p0)/(cap-p0), and
//
//   - above the cap, where e is 1, the logarithm goes on along its tangent, so that no harm is too large to count;
//   - the logarithm is weighted by the hour's requests in units of a busy hour, where it falls without a bound, and where it
//     grows by at most 1: see weight.
//
// So the logarithm is concave in x and proportional to the requests. By Jensen's inequality no score is above 1 while the
// ratio of all requests is at the threshold or above, whatever the traffic, as long as a busy hour has as many requests as
// before: where traffic grows manifold, its first hours count for more. If each hour's ratio, capped, is at the threshold in
// expectation, the score reaches 400 with a probability of at most 1/400 (Ville's inequality), however often one looks.
type score struct{ product }

// add bets on one more hour, of n busy hours.
func (s *score) add(x, p0, n float64) {
	e := (x - p0) / (capOf(p0) - p0)
	w := weight(n, e < 0)
	for i, g := range bets {
		s.product[i] += w * (math.Log1p(-g*math.Min(e, 1)) - g/(1-g)*math.Max(0, e-1))
	}
}

// weight returns what an hour of n busy hours counts for; n is below 0 if it is not known what a busy hour is. What
// gains counts for at most 1, for a crowd must not win by being a crowd; what loses counts for all of it.
func weight(n float64, gains bool) float64 {
	switch {
	case n < 0 && gains:
		return 0
	case n < 0:
		return 1
	case gains:
		return math.Min(1, n)
	}
	return n
}

// againstBets are the shares that are staked on each hour being above the threshold.
var againstBets = [...]float64{0.1, 0.3, 0.6}

const (
	// timesCap is how many times its threshold a ratio counts for against the candidate.
	timesCap = 20
	// idle is the weight under which an hour does not renew the stake of the regression score: a night with few requests must
	// not make chance likelier.
	idle = 0.2
	// suspect is the regression score from which no step is taken.
	suspect = 24
	// alarmAt is the regression score at which a ratio is taken for risen: as many as hours are in 90 days, the mean time between
	// two false alarms at the threshold.
	alarmAt = 90 * evidence.HoursPerDay
	// proven is the mirrored score at which a ratio is proved to be above its threshold.
	proven = 20
)

// regression sees a candidate that became worse: a Shiryaev-Roberts e-detector for each bet g (Shin, Ramdas and Rinaldo,
// "E-detectors"). It forgets good times. An hour with the ratio x multiplies by 1 + w*g*(min(x, 20 p0)/p0 - 1).
type regression [len(againstBets)]float64

// add takes in one more hour, of n busy hours.
func (r *regression) add(x, p0, n float64) {
	w := math.Max(0, math.Min(1, n))
	stake := 1.0
	if w < idle {
		stake = 0
	}
	for i, g := range againstBets {
		r[i] = math.Min((r[i]+stake)*(1+w*g*(math.Min(x, timesCap*p0)/p0-1)), 1e300)
	}
}

func (r *regression) value() float64 { return (r[0] + r[1] + r[2]) / float64(len(r)) }

// mirrored is the evidence that a ratio is above its threshold: the score the other way round, with a logarithm that is
// concave and proportional to the requests, too. It is at most 1 while the ratio of all requests is at the threshold or below.
type mirrored struct{ product }

func (m *mirrored) add(x, p0, n float64) {
	e := math.Min(x, timesCap*p0)/p0 - 1
	w := weight(n, e > 0)
	for i, g := range againstBets {
		m.product[i] += w * math.Log1p(g*e)
	}
}

// regressed returns the alarm of the worst regression score, where the candidate is enforced. A canary is
// put on hold at the alarm and rolled back at twice it; in a promoted candidate a hold would
// change nothing, so it is rolled back at the alarm.
func regressionAlarm(j *judgement) (worst Alarm) {
	exposure := j.evidence.Exposure
	if exposure.Since.IsZero() {
		return Alarm{}
	}
	rollBackAt := 2.0 * alarmAt
	if exposure.AllKeys {
		rollBackAt = alarmAt
	}

	for i := range j.ratios {
		s := &j.ratios[i]
		level := Calm
		switch risen := s.risenSince(exposure.Since.Unix() / 60); {
		case !s.judged():
		case risen >= rollBackAt:
			level = RollBack
		case risen >= alarmAt:
			level = Hold
		}
		if level > worst.Level {
			worst = Alarm{Level: level, Reason: s.againstText() + ": it has risen, which comes by chance once in 90 days"}
		}
	}
	return worst
}
