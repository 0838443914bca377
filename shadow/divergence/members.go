package divergence

import (
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Members are the limits of a group with what each has denied on both sides. A charge that several members deny counts for
// the one that supplies the answer: the one with the longest wait.
type Members []Member

// Member is one limit of a group, by the name of its policy.
type Member struct {
	Name                string `json:"name"`
	AuthoritativeDenied int64  `json:"authoritative_denied"`
	CandidateDenied     int64  `json:"candidate_denied"`
}

// MembersOf returns the members of a group, which have denied nothing yet; nil for no group.
func MembersOf(g *algorithms.Group) Members {
	if g == nil {
		return nil
	}

	list := make(Members, len(g.Members))
	for i := range g.Members {
		list[i].Name = g.Members[i].Name
	}
	return list
}

// Count counts the denials of an evaluation.
func (list *Members) Count(o *[2]algorithms.Observation) {
	for role := range o {
		if name := o[role].Member; name != "" && o[role].Status == algorithms.Judged && !o[role].Decision.Allowed {
			list.at(name).add(algorithms.Role(role), 1)
		}
	}
}

// Add joins what another observer has counted.
func (list *Members) Add(other Members) {
	for _, m := range other {
		to := list.at(m.Name)
		to.add(algorithms.Authoritative, m.AuthoritativeDenied)
		to.add(algorithms.Candidate, m.CandidateDenied)
	}
}

// at returns the member of a name. A group has no more than MaxMembers: what an entry of the ledger has beyond them counts
// for none.
func (list *Members) at(name string) *Member {
	i := slices.IndexFunc(*list, func(m Member) bool { return m.Name == name })
	if i >= 0 {
		return &(*list)[i]
	}
	if len(*list) >= algorithms.MaxMembers {
		return &Member{}
	}
	*list = append(*list, Member{Name: name})
	return &(*list)[len(*list)-1]
}

func (m *Member) add(role algorithms.Role, n int64) {
	if role == algorithms.Candidate {
		m.CandidateDenied += n
	} else {
		m.AuthoritativeDenied += n
	}
}
