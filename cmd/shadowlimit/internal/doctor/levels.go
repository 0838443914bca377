package doctor

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// levels looks at the adaptive limits of the service, those of policies without a candidate, too.
func (d *doctor) levels(ctx context.Context) []Finding {
	store := promotion.NewRedisStore(d.client, d.name)
	instances, err := store.Instances(ctx)
	if err != nil {
		return []Finding{unknown(checkLevels, err)}
	}
	head, err := store.Head(ctx)
	if err != nil {
		return []Finding{unknown(checkLevels, err)}
	}
	now, err := store.Now(ctx)
	if err != nil {
		return []Finding{unknown(checkLevels, err)}
	}

	live, _ := promotion.LiveAt(now, "", instances)
	return levelsOf(live, head.RecentLevels(now), now)
}

const (
	checkLevels  = "adaptive limits"
	levelRunbook = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbooks/ShadowlimitAdaptiveLevelLow.md"
)

// levelsOf returns the findings about the rules of live instances and their levels; none where no limit is adaptive.
func levelsOf(live []promotion.Instance, levels map[string]adaptive.State, now time.Time) (list []Finding) {
	rules := map[string]adaptive.Signal{}
	var without int
	for _, i := range live {
		if i.Service == nil {
			without++
			continue
		}
		for _, r := range i.Service.Rules {
			if r.Valid() { // another release may have rules that this one does not know
				rules[r.Key()] = r.Signal
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}

	// The fleet's signal is of the instances that report one.
	if without > 0 {
		list = append(list, Finding{
			Check: checkLevels, Level: warning,
			Message: humanize.Counted(int64(without), "live instance") + " without an adaptive limit: what they serve is in no signal",
			Fix:     "deploy the same policy file and release everywhere",
		})
	}
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		state, published := levels[key]
		list = append(list, levelOf(rules[key], state, published, now))
	}
	return list
}

// levelOf returns the finding about one rule.
func levelOf(signal adaptive.Signal, s adaptive.State, published bool, now time.Time) Finding {
	f := Finding{Check: checkLevels, Level: warning}
	rule := "adaptive by " + signal.String() + ": "
	switch {
	case !published:
		f.Message = rule + "no level was published recently, so the whole limit holds or returns by itself"
		f.Fix = "wait 10 s after a start; if it lasts, look for an instance of an earlier release"
	case s.Level() < adaptive.Full:
		f.Message = rule + humanize.Percent(float64(s.Level())/float64(adaptive.Full)) + " of the limit holds, because the service suffers"
		f.Fix = "look for the cause in the service: " + levelRunbook
	case s.Seen.IsZero() || now.Sub(s.Seen) > adaptive.LostAfter:
		f.Message = rule + "the service gives no signal, so the whole limit holds whatever happens"
		f.Fix = fixes[signal]
	default:
		f.Level, f.Message = fine, rule+"the service gives a signal, and the whole limit holds"
	}
	return f
}

// measured is how durations and failures become known.
const measured = "send traffic: fewer than 20 requests of the fleet in 10 s are no signal; " +
	"behind shadowlimit serve, the service for Envoy or a framework of your own no handler is measured: call Harness.Served"

// fixes say how a signal is given.
var fixes = map[adaptive.Signal]string{
	adaptive.LatencyP99: measured, adaptive.ErrorRate: measured,
	adaptive.Saturation: "let Config.Signal return a number from 0 to 1: another number, and a panic, are no signal",
}
