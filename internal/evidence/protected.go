package evidence

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

const (
	// MostProtected is how many keys a policy may protect.
	MostProtected = 32
	// mostListed is how many protected keys an hour has. The list of a policy may change within it.
	mostListed = 4 * MostProtected
)

// KeyTally counts the comparisons of one key by Outcome: those with two answers, of which NewlyAllowed is the last.
type KeyTally [NewlyAllowed + 1]int64

// Add adds another tally.
func (t *KeyTally) Add(other KeyTally) {
	for o, n := range other {
		t[o] += n
	}
}

// Allowed returns how many requests the authoritative allowed.
func (t KeyTally) Allowed() int64 { return t[AgreeAllow] + t[NewlyDenied] }

// Denied returns how many requests the authoritative denied.
func (t KeyTally) Denied() int64 { return t[AgreeDeny] + t[NewlyAllowed] }

// Missing returns how many requests fewer the candidate allows than the authoritative. Of a client that is over its limit two sides of one
// rate deny different requests, and as many.
func (t KeyTally) Missing() int64 { return max(0, t[NewlyDenied]-t[NewlyAllowed]) }

// ProtectedKey is what became of the requests of a key that the policy protects.
type ProtectedKey struct {
	// Key is the KeyName.
	Key string `json:"k"`
	// Counts by the enforced role.
	Counts [2]KeyTally `json:"n"`
}

// Total returns the counts whichever side was enforced.
func (k *ProtectedKey) Total() KeyTally {
	sum := k.Counts[algorithms.Authoritative]
	sum.Add(k.Counts[algorithms.Candidate])
	return sum
}

// ProtectedKeys are those of a time, in the order of their names.
type ProtectedKeys []ProtectedKey

// search returns where a key is in the list, or where it would be.
func (p ProtectedKeys) search(key string) (int, bool) {
	return slices.BinarySearchFunc(p, key, func(k ProtectedKey, key string) int { return cmp.Compare(k.Key, key) })
}

// Find returns a key, nil if it is not in the list.
func (p ProtectedKeys) Find(key string) *ProtectedKey {
	if i, found := p.search(key); found {
		return &p[i]
	}
	return nil
}

// of returns a key, which it inserts if it is new; nil if the list is full.
func (p *ProtectedKeys) of(key string) *ProtectedKey {
	i, found := p.search(key)
	if !found {
		if len(*p) >= mostListed {
			return nil
		}
		*p = slices.Insert(*p, i, ProtectedKey{Key: strings.Clone(key)}) // it may be part of a request's buffer
	}
	return &(*p)[i]
}

// Join adds what another observer saw. The list becomes a new one, for others may share the one that it was.
func (p *ProtectedKeys) Join(other ProtectedKeys) {
	if len(other) == 0 {
		return
	}
	*p = slices.Clone(*p)
	for i := range other {
		if k := p.of(other[i].Key); k != nil {
			for role := range k.Counts {
				k.Counts[role].Add(other[i].Counts[role])
			}
		}
	}
}

// Since returns what has become of the keys since an earlier list of the same hour. After a loss of data the earlier counts may be larger.
func (p ProtectedKeys) Since(earlier ProtectedKeys) ProtectedKeys {
	list := slices.Clone(p)
	for i := range list {
		before := earlier.Find(list[i].Key)
		if before == nil {
			continue
		}
		for role := range list[i].Counts {
			for o := range list[i].Counts[role] {
				list[i].Counts[role][o] = max(0, list[i].Counts[role][o]-before.Counts[role][o])
			}
		}
	}
	return list
}

// believed reports whether a ledger can have stored the list: other programs can write to it.
func (p ProtectedKeys) believed() bool {
	for i := range p {
		if i > 0 && p[i].Key <= p[i-1].Key || !believed(p[i].Counts[0][:]...) || !believed(p[i].Counts[1][:]...) {
			return false
		}
	}
	return len(p) <= mostListed
}
