package algorithms

import "testing"

// Keys of one hash are told apart, whichever of them goes first.
func TestKeysOfOneHash(t *testing.T) {
	const hash = 7
	keys := []recordKey{{"p", "a"}, {"p", "b"}, {"q", "a"}}
	for gone := range keys {
		var s shard
		entries := make([]*entry, len(keys))
		for i, key := range keys {
			entries[i] = &entry{}
			s.insert(hash, key, entries[i])
		}

		s.remove(entries[gone])
		for i, key := range keys {
			want := entries[i]
			if i == gone {
				want = nil
			}
			if s.find(hash, key) != want {
				t.Errorf("without %v: %v is wrong", keys[gone], key)
			}
		}
		for i := range keys {
			if i != gone {
				s.remove(entries[i])
			}
		}
		if len(s.keys) != 0 {
			t.Errorf("%d keys are left", len(s.keys))
		}
	}
}
