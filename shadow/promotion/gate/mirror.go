package gate

import "github.com/shadowlimit/shadowlimit/shadow/divergence"

// mirrorBets are the shares that the mirror stakes on each block being above the threshold.
var mirrorBets = [...]float64{0.1, 0.3, 0.6}

const (
	// mirrorCap is how many times its threshold a ratio counts for in the mirror.
	mirrorCap = 20
	// idle is the weight under which a block does not renew the alarm's stake: a night with few
	// requests must not make chance likelier.
	idle = 0.2
	// suspect is the alarm statistic from which no step is taken.
	suspect = 24
	// alarmAt is the alarm statistic at which a ratio is taken for risen: as many as blocks are in 90 days, the mean time
	// between two false alarms at the threshold.
	alarmAt = 90 * divergence.HoursPerDay
)

// mirror is the evidence that a ratio is above its threshold, from the same blocks as the
// score. The factor of a block with the ratio x and the weight w is
// 1 + w*g*(min(x, 20 p0)/p0 - 1) for each bet g.
type mirror struct {
	// rise is the alarm's statistic R for each bet, a Shiryaev-Roberts e-detector: (R+1) times
	// the factor (Shin, Ramdas and Rinaldo, "E-detectors"). It forgets good times, so it sees a
	// candidate that became worse.
	rise [len(mirrorBets)]float64
	// excess is the product of the factors for each bet: evidence over all the time.
	excess [len(mirrorBets)]float64
}

// unmirrored returns the mirror before the first block: no evidence in either direction.
func unmirrored() mirror { return mirror{excess: [len(mirrorBets)]float64{1, 1, 1}} }

// most keeps sums and products finite: JSON knows no infinity.
const most = 1e300

// add takes in one more block.
func (m *mirror) add(x, p0, weight float64) {
	stake := 1.0
	if weight < idle {
		stake = 0
	}

	for i, g := range mirrorBets {
		factor := 1 + weight*g*(min(x, mirrorCap*p0)/p0-1)
		m.rise[i] = min((m.rise[i]+stake)*factor, most)
		m.excess[i] = min(m.excess[i]*factor, most)
	}
}

// alarm returns the alarm's statistic, from 0.
func (m *mirror) alarm() float64 { return meanOf(m.rise) }

// evidence returns the evidence that the ratio was above its threshold in all the time. At
// the threshold or below it reaches 20 with a probability of at most 1/20.
func (m *mirror) evidence() float64 { return meanOf(m.excess) }

func meanOf(v [len(mirrorBets)]float64) float64 { return (v[0] + v[1] + v[2]) / float64(len(v)) }
