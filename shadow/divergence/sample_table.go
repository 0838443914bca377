package divergence

import "slices"

// sampleTable keeps a value for each of the clients of least hash among those of one stripe, in an open-addressed table. The
// stripe's lock guards it. It grows with the clients that it has, up to a quarter more than it keeps.
type sampleTable[V any] struct {
	below uint64 // as in Clients; it only falls, as long as the hour lasts
	n     int    // slots in use
	slots []sampleSlot[V]
}

// sampleSlot is a client between two snapshots; the hash 0 is a free one. There is a power of two of them, or none.
type sampleSlot[V any] struct {
	hash  uint64
	value V
}

// of returns the value of a hash, or nil if the table keeps smaller ones. Keys of a larger hash than those kept cost one comparison.
func (t *sampleTable[V]) of(hash uint64, keep int) *V {
	if t.below != 0 && hash >= t.below {
		return nil
	}
	if s := t.find(hash); s != nil && s.hash == hash {
		return &s.value
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
	return &s.value
}

// find returns the slot of a hash, or the free one where it would be; nil if the table is empty. Kept hashes are small
// numbers, so the low bits choose.
func (t *sampleTable[V]) find(hash uint64) *sampleSlot[V] {
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
func (t *sampleTable[V]) rebuild(size int) {
	old := t.slots
	t.slots, t.n = make([]sampleSlot[V], size), 0
	for i := range old {
		if s := &old[i]; s.hash != 0 && (t.below == 0 || s.hash < t.below) {
			*t.find(s.hash) = *s
			t.n++
		}
	}
}

// shrink keeps the least hashes. It is rare: of n keys about keep times ln(n/keep) are ever among the least.
func (t *sampleTable[V]) shrink(keep int) {
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

// takeSample returns the members made of a table's values, in the order of their hashes, and begins again. The bound stays: what was
// left out is missing in the rest of the hour, too.
func takeSample[V any, M any, P member[M]](t *sampleTable[V], made func(hash uint64, v *V) M) []M {
	list := make([]M, 0, t.n)
	for i := range t.slots {
		if s := &t.slots[i]; s.hash != 0 {
			list = append(list, made(s.hash, &s.value))
		}
	}

	slices.SortFunc(list, func(a, b M) int { return byHash(P(&a).place(), P(&b).place()) })
	clear(t.slots)
	t.n = 0
	return list
}
