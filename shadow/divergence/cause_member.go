package divergence

import "github.com/shadowlimit/shadowlimit/algorithms"

// CompareMembers makes limits and shapes those of one member of two groups: of the member that denies, where one side denies.
// The cause of a difference is then found in that member, which both sides have.
func (s *Setting) CompareMembers(groups [2]*algorithms.Group, o *[2]algorithms.Observation) {
	name := o[algorithms.Candidate].Member
	if o[algorithms.Authoritative].Status == algorithms.Judged && !o[algorithms.Authoritative].Decision.Allowed {
		name = o[algorithms.Authoritative].Member
	}

	for role, g := range groups {
		if g == nil {
			continue
		}
		for i := range g.Members {
			if m := &g.Members[i]; m.Name == name {
				s.Limits[role], s.Shapes[role] = m.Limit, algorithms.TraitsOf(m.Algorithm).Shape
			}
		}
	}
}

// answerOf returns the decision of the side that allows, as far as it is about the limit that denies. A group answers by the
// member with the least remaining: where that is another one, the limit that denies counts as used up.
func (s *Setting) answerOf(o *[2]algorithms.Observation, allows, denies algorithms.Role) *algorithms.Decision {
	if o[allows].Member == o[denies].Member {
		return &o[allows].Decision
	}
	return &algorithms.Decision{Allowed: true, Limit: s.Limits[allows].Capacity()}
}
