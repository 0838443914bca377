package stages

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// Service is what an instance with adaptive limits says of its service.
type Service struct {
	// Rules are those of its policy file, each once, at most MostRules.
	Rules []adaptive.Rule `json:"rules"`
	// Served is what it has served in the last seconds, and Saturation its own signal, a ratio between 0 and 1; nil for none.
	Served     adaptive.Sketch `json:"served"`
	Saturation *float64        `json:"saturation,omitempty"`
}

// MostRules bounds the rules of an instance, and mostLevels those of a fleet: while a release goes out it has the rules of two
// files.
const (
	MostRules  = 8
	mostLevels = 2 * MostRules
)

// levelsOf looks at what live instances report, and returns the next state of each of their rules, by its key.
func levelsOf(before map[string]adaptive.State, live []Instance, now time.Time) map[string]adaptive.State {
	var evidence adaptive.Evidence
	rules := map[string]adaptive.Rule{}
	for _, i := range live {
		if i.Service == nil {
			continue
		}
		evidence.Add(&i.Service.Served)
		if i.Service.Saturation != nil {
			evidence.Saturate(*i.Service.Saturation)
		}
		for _, r := range i.Service.Rules[:min(len(i.Service.Rules), MostRules)] {
			if _, known := rules[r.Key()]; r.Valid() && (known || len(rules) < mostLevels) {
				rules[r.Key()] = r
			}
		}
	}

	// Services without adaptive limits publish what they did before there were any.
	if len(rules) == 0 {
		return nil
	}
	levels := make(map[string]adaptive.State, len(rules))
	for key, r := range rules {
		levels[key] = r.Next(before[key], &evidence, now)
	}
	return levels
}
