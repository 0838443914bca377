package promotion

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"
)

// beats writes and reads the beats of a fleet. What an instance has of each policy is its plan. It
// changes with a move or a reload only and is the same on most instances, so a beat names it by a
// digest of its text, and the text lies in :plans.
type beats struct {
	mu      sync.Mutex
	digest  string
	written time.Time                     // when the plan of this digest was
	plans   map[string]map[string]Applied // by digest
}

// planText is a plan to be written; without a text it need not be.
type planText struct {
	digest string
	text   []byte
}

const (
	// writtenFor is how long a plan counts as stored: another program may have removed it.
	writtenFor = time.Minute
	// behindAfter is how much later than others a policy may be written without being named.
	behindAfter = 2 * LiveFor
)

// encode returns the text of a beat, and the plan that it names.
func (b *beats) encode(i Instance) ([]byte, planText, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	planned, err := i.split()
	if err != nil {
		return nil, planText{}, err
	}

	// A fleet has few plans at a time, so eight bytes tell them apart. The plan is written again
	// from time to time, because the store may have lost it.
	sum := sha256.Sum256(planned)
	plan := planText{digest: hex.EncodeToString(sum[:8])}
	if plan.digest != b.digest || time.Since(b.written) > writtenFor {
		plan.text = planned
	}
	i.Plan = plan.digest
	text, err := json.Marshal(i)
	return text, plan, err
}

// split takes the policies out of a beat and returns them as a text. When they were written stays in
// the beat: one instant, and those of the policies that are behind.
func (i *Instance) split() ([]byte, error) {
	plan := make(map[string]Applied, len(i.Policies))
	for policy, applied := range i.Policies {
		if applied.Flushed.After(i.Flushed) {
			i.Flushed = applied.Flushed
		}
		plan[policy] = Applied{Version: applied.Version, Epoch: applied.Epoch, Generation: applied.Generation}
	}

	for policy, applied := range i.Policies {
		if i.Flushed.Sub(applied.Flushed) <= behindAfter {
			continue
		}
		if i.Behind == nil {
			i.Behind = map[string]time.Time{}
		}
		i.Behind[policy] = applied.Flushed
	}
	i.Policies = nil
	return json.Marshal(plan)
}

// wrote notes that a plan was written, for as long as it stays there.
func (b *beats) wrote(plan planText, stays bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !stays {
		b.digest = ""
	} else if plan.text != nil {
		b.digest, b.written = plan.digest, time.Now()
	}
}

// resolve fills in the policies of instances whose plans are known, and reports whether all are.
// The other instances have no policies; see Instance.has.
func (b *beats) resolve(list []Instance) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	complete := true
	for n := range list {
		i := &list[n]
		if i.Plan == "" || i.Policies != nil {
			continue
		}
		plan, known := b.plans[i.Plan]
		if !known {
			complete = false
			continue
		}

		i.Policies = make(map[string]Applied, len(plan))
		for policy, applied := range plan {
			applied.Flushed = i.Flushed
			if at, behind := i.Behind[policy]; behind {
				applied.Flushed = at
			}
			i.Policies[policy] = applied
		}
	}
	return complete
}

// learn takes over the stored plans. It returns the plans that no beat names, and that were known
// already when plans were read the last time: a new plan may have been written just before its beat.
func (b *beats) learn(stored map[string]string, list []Instance) (unnamed []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	named := map[string]bool{}
	for _, i := range list {
		named[i.Plan] = true
	}

	before := b.plans
	b.plans = map[string]map[string]Applied{}
	for digest, text := range stored {
		if _, seen := before[digest]; seen && !named[digest] {
			unnamed = append(unnamed, digest)
			continue
		}

		// Instances of a plan that cannot be read count as having every policy; see Instance.has.
		plan := map[string]Applied{}
		if json.Unmarshal([]byte(text), &plan) == nil && plan != nil {
			b.plans[digest] = plan
		}
	}
	return unnamed
}
