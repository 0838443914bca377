package divergence

import (
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// clientTable counts the clients of least hash among those of one stripe, in an open-addressed table. The stripe's lock
// guards it. It grows with the clients that it has, up to a quarter more than it keeps.
type clientTable struct {
	below uint64       // as in Clients; it only falls, as long as the hour lasts
	n     int          // slots in use
	slots []clientSlot // a power of two, or none
}

// clientSlot is a Client between two snapshots; the hash 0 is a free one. Counts of that time fit into 32 bits.
type clientSlot struct {
	hash   uint64
	counts [2]struct{ requests, allowed, lost uint32 }
	name   string
}

// count counts a comparison of the key, and whether its client lost it. Keys of a larger hash than those kept cost one comparison.
func (t *clientTable) count(hash uint64, key string, enforced algorithms.Role, allowed, lost bool, keep int) {
	if t.below != 0 && hash >= t.below {
		return
	}

	slot := t.slot(hash, keep)
	if slot == nil {
		return
	}
	c := &slot.counts[enforced]
	c.requests++
	if allowed {
		c.allowed++
	}

	// Most clients never lose anything, so names cost nothing for them. The key may be part of a request's buffer.
	if lost {
		c.lost++
		if slot.name == "" {
			slot.name = strings.Clone(key)
		}
	}
}

// slot returns the slot of a hash, or nil if the table has to keep smaller ones instead.
func (t *clientTable) slot(hash uint64, keep int) *clientSlot {
	if s := t.find(hash); s != nil && s.hash == hash {
		return s
	}

	// Seven of eight slots may be in use. Then the table doubles, or leaves out the largest hashes.
	if 8*(t.n+1) > 7*len(t.slots) || t.n >= keep+keep/4 {
		if t.n < keep+keep/4 {
			t.rebuild(max(16, 2*len(t.slots)))
		} else if t.shrink(keep); hash >= t.below {
			return nil
		}
	}

	s := t.find(hash)
	s.hash = hash
	t.n++
	return s
}

// find returns the slot of a hash, or the free one where it would be; nil if the table is empty. Kept hashes are small
// numbers, so the low bits choose.
func (t *clientTable) find(hash uint64) *clientSlot {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == hash || s.hash == 0 {
			return s
		}
	}
}

// rebuild moves all clients that are below the bound into a table of another size.
func (t *clientTable) rebuild(size int) {
	old := t.slots
	t.slots, t.n = make([]clientSlot, size), 0
	for i := range old {
		if s := &old[i]; s.hash != 0 && (t.below == 0 || s.hash < t.below) {
			*t.find(s.hash) = *s
			t.n++
		}
	}
}

// shrink keeps the least hashes. It is rare: of n keys about keep times ln(n/keep) are ever among the least.
func (t *clientTable) shrink(keep int) {
	hashes := make([]uint64, 0, t.n)
	for i := range t.slots {
		if hash := t.slots[i].hash; hash != 0 {
			hashes = append(hashes, hash)
		}
	}

	slices.Sort(hashes)
	t.below = hashes[keep]
	t.rebuild(len(t.slots))
}

// take returns the counts and begins again. The bound stays: what was left out is missing in the rest of the hour, too.
func (t *clientTable) take() Clients {
	c := Clients{Below: t.below, List: make([]Client, 0, t.n)}
	for i := range t.slots {
		if s := &t.slots[i]; s.hash != 0 {
			c.List = append(c.List, s.client())
		}
	}

	slices.SortFunc(c.List, func(a, b Client) int { return byHash(a, b.Hash) })
	clear(t.slots)
	t.n = 0
	return c
}

func (s *clientSlot) client() Client {
	c := Client{Hash: s.hash, Name: s.name}
	for role, n := range s.counts {
		c.Counts[role] = ClientCount{int64(n.requests), int64(n.allowed), int64(n.lost)}
	}
	return c
}
