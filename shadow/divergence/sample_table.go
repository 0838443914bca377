package divergence

import "slices"

// sampleTable keeps a value for each of the clients of least place among those of one stripe, in an open-addressed table of the
// hashes of their keys. The stripe's lock guards it. It grows with the clients that it has, up to a quarter more than it keeps.
type sampleTable[V any] struct {
	below uint64 // as in Clients; it only falls, as long as the hour lasts
	n     int    // slots in use
	slots []sampleSlot[V]
}

// sampleSlot is a client between two snapshots. There is a power of two of them, or none.
type sampleSlot[V any] struct {
	hash  uint64 // of the key
	place uint64 // by the ordering; 0: the slot is free
	value V
}

// of returns the value of a key, or nil if the table keeps lesser places.
func (t *sampleTable[V]) of(hash uint64, by *sampling) *V {
	// As long as all keys are kept, only a new one needs its place: with a secret that costs more than finding its slot.
	if t.below != 0 && by.of(hash) >= t.below {
		return nil
	}
	if s := t.find(hash); s != nil && s.place != 0 {
		return &s.value
	}
	return t.insert(hash, by.of(hash), by.keep)
}

// insert returns the value of a key that has none yet, or nil as of does.
func (t *sampleTable[V]) insert(hash, place uint64, keep int) *V {
	// Seven of eight slots may be in use. Then the table doubles, or leaves out the largest places.
	if 8*(t.n+1) > 7*len(t.slots) || t.n >= keep+keep/4 {
		if t.n < keep+keep/4 {
			t.rebuild(max(16, 2*len(t.slots)))
		} else if t.shrink(keep); place >= t.below {
			return nil
		}
	}

	s := t.find(hash)
	s.hash, s.place = hash, place
	t.n++
	return &s.value
}

// find returns the slot of a key, or the free one where it would be; nil if the table is empty. The lowest bits of a hash have
// chosen the stripe, so the next ones choose the slot.
func (t *sampleTable[V]) find(hash uint64) *sampleSlot[V] {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash >> 8 & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == hash || s.place == 0 {
			return s
		}
	}
}

// rebuild moves all clients that are below the bound into a table of another size.
func (t *sampleTable[V]) rebuild(size int) {
	old := t.slots
	t.slots, t.n = make([]sampleSlot[V], size), 0
	for i := range old {
		if s := &old[i]; s.place != 0 && (t.below == 0 || s.place < t.below) {
			*t.find(s.hash) = *s
			t.n++
		}
	}
}

// shrink keeps the least places. It is rare: of n keys about keep times ln(n/keep) are ever among the least.
func (t *sampleTable[V]) shrink(keep int) {
	places := make([]uint64, 0, t.n)
	for i := range t.slots {
		if place := t.slots[i].place; place != 0 {
			places = append(places, place)
		}
	}

	slices.Sort(places)
	t.below = places[keep]
	t.rebuild(len(t.slots))
}

// takeSample returns the members made of a table's values, in the order of their places, and begins again. The bound stays: a member
// left out is missing in the rest of the hour, too.
func takeSample[V any, M any, P member[M]](t *sampleTable[V], made func(place uint64, v *V) M) []M {
	list := make([]M, 0, t.n)
	for i := range t.slots {
		if s := &t.slots[i]; s.place != 0 {
			list = append(list, made(s.place, &s.value))
		}
	}

	slices.SortFunc(list, func(a, b M) int { return byHash(P(&a).place(), P(&b).place()) })
	clear(t.slots)
	t.n = 0
	return joinEqual[M, P](list)
}

// joinEqual adds up the members of a sorted list that have one place: for a reader they are one.
func joinEqual[M any, P member[M]](list []M) []M {
	out := list[:0]
	for i := range list {
		if n := len(out); n > 0 && P(&out[n-1]).place() == P(&list[i]).place() {
			P(&out[n-1]).join(&list[i])
			continue
		}
		out = append(out, list[i])
	}
	return out
}
