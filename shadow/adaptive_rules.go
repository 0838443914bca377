package shadow

import (
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// checkRules refuses a file whose rules would not reach the fleet, or of which one has no signal.
func (h *Harness) checkRules(set *policies.Set) error {
	known := map[string]bool{}
	for _, p := range set.Policies {
		for _, s := range p.Sides {
			if s == nil || s.Adaptive() == nil {
				continue
			}
			known[s.Adaptive().Key()] = true
			if s.Adaptive().Signal == adaptive.Saturation && h.cfg.Signal == nil {
				return errors.New("adaptive by saturation: put the service's signal into Config.Signal")
			}
		}
	}
	if len(known) > stages.MostRules {
		return errors.New("more than 8 different adaptive rules: give sides the same one")
	}
	return nil
}

// Served tells the harness that a request was served: how long its handler took, and whether it failed. Adaptive limits go by
// it; without one it has no effect. httplimit calls it by itself. It may be called concurrently, allocates nothing and takes no
// lock.
func (h *Harness) Served(d time.Duration, failed bool) { h.fleet.Served(d, failed) }
