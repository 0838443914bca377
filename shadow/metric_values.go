package shadow

import (
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// assessed leaves out values that are old. An instance that is cut off from the store does
// not know the fleet's verdict any more.
func assessed(values func(*stages.Assessment, sender)) func(reading, sender) {
	return func(r reading, send sender) {
		if r.assessment != nil {
			values(r.assessment, send)
		}
	}
}

// byRatio sends a number of each ratio that is judged.
func byRatio(value func(*gate.RatioResult) float64) func(reading, sender) {
	return func(r reading, send sender) {
		if r.assessment == nil {
			return
		}
		for _, ratio := range r.Spec.Ratios() {
			if part := r.assessment.Gate.Ratio(ratio); part != nil && r.Spec.Config.Threshold(ratio) > 0 {
				send(value(part), ratio.String())
			}
		}
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
