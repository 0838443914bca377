package evidence

import (
	"cmp"
	"slices"
	"strings"
)

// KeyCount is a key and how often something happened to it: at least Count-Error times. By the list of one observer it is
// also at most Count. By several lists it may be more, where a list had no place for the key.
type KeyCount struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Error int64  `json:"error"`
}

// KeyKind is a group of keys that is counted. A key can be in several.
type KeyKind int

const (
	KeysSeen         KeyKind = iota // all keys
	KeysDenied                      // that the authoritative denied
	KeysNewlyDenied                 // that only the candidate denied
	KeysNewlyAllowed                // that only the authoritative denied
	keyKinds         = iota
)

var keyKindNames = [keyKinds]string{"seen", "denied", "newly_denied", "newly_allowed"}

// String returns the kind's name in Redis.
func (k KeyKind) String() string { return keyKindNames[k] }

// kindsOf are the kinds that a key belongs to by an outcome, besides KeysSeen. A declared difference is no evidence
// against the candidate, so its key is in no kind of differences.
var kindsOf = [outcomes][]KeyKind{
	AgreeDeny:    {KeysDenied},
	NewlyDenied:  {KeysNewlyDenied},
	NewlyAllowed: {KeysDenied, KeysNewlyAllowed},

	ExpectedAllowed: {KeysDenied},
}

// top finds the most frequent keys in bounded memory by the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005):
// a key that finds no slot takes over the smallest count, and has that count as its error. A key that was counted more
// than total/slots times is in it.
type top struct {
	slots []KeyCount     // in no order
	index map[string]int // of slots by key
	most  int            // slots at most
}

// newTop returns an empty list of at most that many keys.
func newTop(most int) *top { return &top{index: map[string]int{}, most: most} }

// add counts a key once.
func (t *top) add(key string) { t.addCount(KeyCount{Key: key, Count: 1}) }

// addCount adds what another list has counted.
func (t *top) addCount(k KeyCount) {
	if i, ok := t.index[k.Key]; ok {
		t.slots[i].Count += k.Count
		t.slots[i].Error += k.Error
		return
	}

	// The key may be part of a request's buffer, which it must not keep alive.
	k.Key = strings.Clone(k.Key)
	if len(t.slots) < t.most {
		t.index[k.Key] = len(t.slots)
		t.slots = append(t.slots, k)
		return
	}

	// A linear search: there are few slots, and this is the path of rare keys only.
	least := 0
	for i := range t.slots {
		if t.slots[i].Count < t.slots[least].Count {
			least = i
		}
	}

	slot := &t.slots[least]
	delete(t.index, slot.Key)
	t.index[k.Key] = least
	*slot = KeyCount{Key: k.Key, Count: slot.Count + k.Count, Error: slot.Count + k.Error}
}

// MergeTop adds up the lists of several observers and returns the most frequent keys, ties by key. Errors add up, too;
// what a list has dropped is in neither number. It returns none where most is 0 or less.
func MergeTop(most int, lists ...[]KeyCount) []KeyCount {
	sum := map[string]KeyCount{}
	for _, list := range lists {
		for _, k := range list {
			s := sum[k.Key]
			sum[k.Key] = KeyCount{k.Key, s.Count + k.Count, s.Error + k.Error}
		}
	}

	all := make([]KeyCount, 0, len(sum))
	for _, k := range sum {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})

	return all[:min(max(most, 0), len(all))]
}
