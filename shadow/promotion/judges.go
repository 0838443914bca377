package promotion

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Judgement says when a policy was last judged, by the store's clock, and by which instance.
type Judgement struct {
	At time.Time
	By string
}

// nameJudges names the instance that judges a policy, and the one that stands by. They are those
// with the highest numbers of the policy and their ids, so that judges are spread, and a name
// stays when other instances come and go.
func (v *Votes) nameJudges(policy string, instances []Instance, now time.Time) {
	list := judgesOf(policy, v.Stored, instances, now)
	numbers := map[string]uint64{}
	for _, i := range list {
		sum := sha256.Sum256([]byte(policy + "\x00" + i.ID))
		numbers[i.ID] = binary.BigEndian.Uint64(sum[:])
	}
	slices.SortFunc(list, func(a, b Instance) int { return cmp.Compare(numbers[b.ID], numbers[a.ID]) })

	v.Judge, v.StandBy = "", ""
	if len(list) > 0 {
		v.Judge = list[0].ID
	}
	if len(list) > 1 {
		v.StandBy = list[1].ID
	}
}

// judgesOf returns the instances that may judge a policy: the voters for its stored epoch, or
// all that have that epoch, or all that have the policy.
func judgesOf(policy, epoch string, instances []Instance, now time.Time) []Instance {
	has := func(i Instance) bool {
		_, knows := i.Policies[policy]
		return knows
	}
	compares := func(i Instance) bool { return has(i) && i.Policies[policy].Epoch == epoch }

	// Voters come first: they have decided requests, and announce the thresholds of the stored
	// epoch. Without any of that epoch some instance has to judge all the same.
	live, _ := LiveAt(now, policy, instances)
	for _, list := range [][]Instance{
		matching(voters(policy, instances, now), compares), matching(live, compares), matching(live, has),
	} {
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

func matching(list []Instance, match func(Instance) bool) (some []Instance) {
	for _, i := range list {
		if match(i) {
			some = append(some, i)
		}
	}
	return some
}

// Published is an assessment as its judge publishes it for the others: all that metrics and a report
// need, and nothing that grows with the history. Without a Judge it says only that the policy was judged.
type Published struct {
	Policy  string    `json:"policy"`
	Judge   string    `json:"judge"`
	Version Version   `json:"version"`
	Epoch   string    `json:"epoch"`
	Since   time.Time `json:"since"`
	// Evidence has the sums of its history only; Evidence.Now is when it was judged.
	Evidence   gate.Evidence   `json:"evidence"`
	Silent     int             `json:"silent,omitempty"` // instances
	Gate       gate.Result     `json:"gate"`
	Obstacles  []gate.Obstacle `json:"obstacles,omitempty"`
	NoForecast string          `json:"no_forecast,omitempty"`
	Never      bool            `json:"never,omitempty"` // waiting does not help
	Alarm      gate.Alarm      `json:"alarm"`
	// Details are stored apart, because they grow with the history. nil leaves those of before.
	Details *Details `json:"-"`
}

// Details are the part of an assessment that only a report needs.
type Details struct {
	Series          []gate.Point          `json:"series"`
	TopNewlyDenied  []divergence.KeyCount `json:"top_newly_denied"`
	TopNewlyAllowed []divergence.KeyCount `json:"top_newly_allowed"`
}

// Publish returns what a judge publishes of an assessment.
func (a *Assessment) Publish(judge string) Published {
	p := Published{
		Policy: a.Spec.Policy, Judge: judge,
		Version: a.State.Version, Epoch: a.State.Epoch, Since: a.State.Since,
		Evidence: a.Evidence, Silent: len(a.Silent),
		Gate: a.Gate, Obstacles: a.Gate.Obstacles, NoForecast: a.Gate.NoForecast, Never: a.Gate.Never,
		Alarm: a.Alarm,
	}
	p.Evidence.History = a.Evidence.History.Sum()
	return p
}

// Of reports whether this was found of the evidence that a state has.
func (p *Published) Of(s *State) bool { return p.Judge != "" && s.counts(p.Epoch, p.Since) }

// Assessment returns the assessment in a state of the same evidence, which may be a later one: a
// stage that was left has no alarm any more.
func (p *Published) Assessment(spec Spec, s State) Assessment {
	a := Assessment{
		Spec: spec, State: s, Evidence: p.Evidence, Gate: p.Gate, Alarm: p.Alarm,
		Origin: Origin{Judge: p.Judge, Details: p.Details, SilentThen: p.Silent},
	}
	a.Gate.Obstacles, a.Gate.NoForecast, a.Gate.Never = p.Obstacles, p.NoForecast, p.Never
	if !s.Exposed() {
		a.Alarm = gate.Alarm{}
	}
	return a
}
