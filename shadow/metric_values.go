package shadow

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// compared leaves out policies without a candidate.
func compared(values func(reading, sender)) func(reading, sender) {
	return func(r reading, send sender) {
		if r.hasCandidate() {
			values(r, send)
		}
	}
}

// assessed leaves out values that are old. An instance that is cut off from the store does
// not know the fleet's verdict any more.
func assessed(values func(*stages.Assessment, sender)) func(reading, sender) {
	return compared(func(r reading, send sender) {
		if r.assessment != nil {
			values(r.assessment, send)
		}
	})
}

// byRatio sends a number of each ratio that is judged.
func byRatio(value func(*gate.RatioResult) float64) func(reading, sender) {
	return compared(func(r reading, send sender) {
		if r.assessment == nil {
			return
		}
		for _, ratio := range r.spec.Ratios() {
			if r.spec.Config.Threshold(ratio) > 0 {
				send(value(r.assessment.Gate.Ratio(ratio)), ratio.String())
			}
		}
	})
}

// noAssessment stands in before the first assessment, so that all series are there from
// the start.
var noAssessment = func() *stages.Assessment {
	a := &stages.Assessment{}
	for _, ratio := range evidence.AllRatios {
		a.Gate.Ratio(ratio).Score = 1
	}
	return a
}()

// oldAfter is the age at which an assessment is left out of metrics: four rounds of
// the leader without one.
const oldAfter = time.Minute

// latest returns the last assessment, nil if it is old. An instance that has just started shows none of its own, and no alarm. One
// that has started without Redis must not show for long that there is no alarm.
func (p *progress) latest() *stages.Assessment {
	switch a := p.assessment.Load(); {
	case a == nil && time.Since(p.started) < oldAfter:
		return noAssessment
	case a == nil:
		return nil
	case time.Since(a.at) < oldAfter:
		return a.Assessment
	}
	return nil
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
