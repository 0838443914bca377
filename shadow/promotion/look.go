package promotion

import (
	"context"
	"time"
)

// recentFor is how long a published assessment counts as one of now: four rounds of its judge.
const recentFor = time.Minute

// Look returns what the judges have published of all announced policies, with their states, votes
// and instances of now. A policy of which nothing recent is published is judged here: no instance
// runs.
func (c *Controller) Look(ctx context.Context) ([]Assessment, error) {
	specs, err := c.store.Specs(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Policy
	}
	states, now, err := c.statesNow(ctx, names)
	if err != nil {
		return nil, err
	}
	published, err := c.store.Assessments(ctx, names)
	if err != nil {
		return nil, err
	}

	list := make([]Assessment, len(specs))
	var missing []string
	for i, spec := range specs {
		if p := &published[i]; p.Of(&states[i]) && within(now, p.Evidence.Now, recentFor) {
			list[i] = p.Assessment(spec, states[i])
		} else {
			missing = append(missing, spec.Policy)
		}
	}
	if err := c.judgeHere(ctx, list, specs, missing); err != nil {
		return nil, err
	}
	return list, c.complete(ctx, list, now)
}

// judgeHere fills in the assessments of the policies that are missing in a list.
func (c *Controller) judgeHere(ctx context.Context, list []Assessment, specs []Spec, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	judged, err := c.Assess(ctx, missing...)
	for _, a := range judged {
		for i := range specs {
			if specs[i].Policy == a.Spec.Policy {
				list[i] = a
			}
		}
	}
	return err
}

// complete adds the instances and votes of now to assessments that others have made.
func (c *Controller) complete(ctx context.Context, list []Assessment, now time.Time) error {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Spec.Policy
	}
	instances, err := c.store.Instances(ctx)
	if err != nil {
		return err
	}
	details, err := c.store.Details(ctx, names)
	if err != nil {
		return err
	}

	// The votes and levels are shown, and may be missing.
	count, counted := c.store.Count(ctx)
	for i := range list {
		a := &list[i]
		a.LookedAt = now
		a.Live, a.Silent = LiveAt(now, a.Spec.Policy, instances)
		if a.Judge != "" {
			a.Details = details[i]
		}
		if counted == nil {
			a.Levels = count.RecentLevels(now)
		}
		if counted == nil && within(now, count.At, leaseFor) {
			a.Votes = count.Policies[a.Spec.Policy]
		}
	}
	return nil
}
