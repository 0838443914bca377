package stages

import (
	"context"
	"time"
)

// recentFor is how long a published assessment counts as one of now: four rounds of the leader.
const recentFor = time.Minute

// Look returns what the leader has published of all announced policies, with their states
// and instances of now. A policy of which nothing recent is published is assessed here: no instance
// runs.
func (c *Controller) Look(ctx context.Context) ([]Assessment, error) {
	f, states, err := c.read(ctx, nil)
	if err != nil {
		return nil, err
	}
	published, err := c.store.Published(ctx, f.Policies(), true)
	if err != nil {
		return nil, err
	}

	list := make([]Assessment, len(f.Specs))
	var missing []string
	for i, spec := range f.Specs {
		if p := &published[i]; p.Of(&states[i]) && within(f.Now, p.Evidence.Now, recentFor) {
			list[i] = p.Assessment(spec, states[i])
		} else {
			missing = append(missing, spec.Policy)
		}
	}
	if err := c.assessHere(ctx, list, f.Specs, missing); err != nil {
		return nil, err
	}

	// Levels are shown, and may be missing.
	h, _ := c.store.Heartbeat(ctx, Heartbeat{})
	for i := range list {
		a := &list[i]
		a.LookedAt, a.Levels = f.Now, h.Levels
		a.Live, a.Silent = f.With(a.Spec.Policy)
	}
	return list, nil
}

// assessHere fills in the assessments of the policies that are missing in a list.
func (c *Controller) assessHere(ctx context.Context, list []Assessment, specs []Spec, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	found, err := c.Assess(ctx, missing...)
	for _, a := range found {
		for i := range specs {
			if specs[i].Policy == a.Spec.Policy {
				list[i] = a
			}
		}
	}
	return err
}
