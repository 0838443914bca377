package promotion

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// Count is what the teller has counted, for all instances.
type Count struct {
	Head
	// Policies by name.
	Policies map[string]Votes `json:"policies"`
}

// Head is the small part of a count, which every instance reads at each count. The votes grow
// with the number of policies, and are read when they have changed.
type Head struct {
	At     time.Time `json:"at"`
	Teller string    `json:"teller"`
	// Live is the number of live instances, with a vote or without.
	Live int `json:"live"`
	// Changes is Store.Changes of this count; 0 if the teller could not repair it.
	Changes int64 `json:"changes,omitempty"`
	// Revision is another one when the votes are others, apart from their times.
	Revision int64 `json:"revision,omitempty"`
	// Levels are those of adaptive limits, by the key of their rule.
	Levels map[string]adaptive.State `json:"levels,omitempty"`
}

// RecentLevels returns the published levels, nil if the count is old: instances then do not go by them.
func (h *Head) RecentLevels(now time.Time) map[string]adaptive.State {
	if !within(now, h.At, LiveFor) {
		return nil
	}
	return h.Levels
}

// Votes are those for the epochs of one policy. An instance has a vote if it is live and
// has decided a request since it started.
type Votes struct {
	// Stored is the epoch of the stored state, and Seen when it last had a vote.
	Stored string    `json:"stored"`
	Seen   time.Time `json:"seen"`
	// Epochs by name. An epoch without a vote is not there.
	Epochs map[string]Support `json:"epochs"`
	// Ahead is the epoch that has more votes than any other, and that is not the stored one;
	// "" if there is none. Since is since when, in counts without a gap.
	Ahead string    `json:"ahead,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Older says that Ahead does not take over, because its generation is smaller than the
	// stored one.
	Older bool `json:"older,omitempty"`
	// Judge judges the policy, StandBy does so if the judge does not. Both are ids, and "" if no
	// instance can.
	Judge   string `json:"judge,omitempty"`
	StandBy string `json:"stand_by,omitempty"`
}

// TakesOverAt returns when the epoch that is ahead takes over if it stays so.
func (v *Votes) TakesOverAt() time.Time { return v.Since.Add(confirmFor) }

// Support is what speaks for an epoch.
type Support struct {
	Votes int `json:"votes"`
	// Generation is the least one among its votes.
	Generation int64 `json:"generation,omitempty"`
}

// sameVotes reports whether two counts have the same votes, whenever they were counted.
func sameVotes(a, b map[string]Votes) bool {
	return maps.EqualFunc(a, b, func(v, w Votes) bool {
		v.Seen, v.Since = w.Seen, w.Since
		return reflect.DeepEqual(v, w)
	})
}

// silentAfter is how long an instance may be silent while another one of its name beats.
// Three beats fit into it.
const silentAfter = 7 * time.Second

// random is the end of an id, which makes it unique; the rest is the instance's name.
var random = regexp.MustCompile(`-[0-9a-f]{8}$`)

// voters returns the instances that have a vote on a policy at an instant. An instance that
// is silent while another one of its name beats has been restarted: a process that crashes
// again and again must not have one vote for each start.
func voters(policy string, instances []Instance, now time.Time) (list []Instance) {
	latest := map[string]time.Time{}
	for _, i := range instances {
		name := random.ReplaceAllString(i.ID, "")
		if within(now, i.At, LiveFor) && i.At.After(latest[name]) {
			latest[name] = i.At
		}
	}

	for _, i := range instances {
		restarted := latest[random.ReplaceAllString(i.ID, "")].Sub(i.At) > silentAfter
		if _, knows := i.Policies[policy]; knows && !i.Idle && !restarted && within(now, i.At, LiveFor) {
			list = append(list, i)
		}
	}
	return list
}

// countVotes counts the votes for a policy. Since and Seen are not known to it.
func countVotes(policy string, stored State, instances []Instance, now time.Time) Votes {
	v := Votes{Stored: stored.Epoch, Epochs: map[string]Support{}}
	for _, i := range voters(policy, instances, now) {
		applied := i.Policies[policy]
		e, known := v.Epochs[applied.Epoch]
		if !known || applied.Generation < e.Generation {
			e.Generation = applied.Generation
		}
		e.Votes++
		v.Epochs[applied.Epoch] = e
	}

	v.Ahead = v.ahead()
	return v
}

// ahead returns the epoch with more votes than any other, and "" if it is the stored one or
// if two have the same number.
func (v *Votes) ahead() string {
	// The stored epoch stays at a tie with another one, and a tie of two others is no majority for
	// either.
	best := v.Stored
	tied := false
	for _, epoch := range slices.Sorted(maps.Keys(v.Epochs)) {
		switch n := v.Epochs[epoch].Votes; {
		case epoch == v.Stored:
		case n > v.Epochs[best].Votes:
			best, tied = epoch, false
		case n == v.Epochs[best].Votes && best != v.Stored:
			tied = true
		}
	}

	if tied || best == v.Stored {
		return ""
	}
	return best
}
