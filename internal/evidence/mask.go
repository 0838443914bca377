package evidence

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// KeyName returns the name of a key in the lists of a ledger: an HMAC if there is a secret, by the text that the Redis pair stores
// for it. It quotes the texts that JSON cannot carry last: an HMAC is of the key itself.
func KeyName(key string, secret []byte) string {
	return jsonSafe(algorithms.StoredKey(key, secret))
}

// jsonSafe quotes a key that is not UTF-8: JSON would replace its bytes, and different keys would become equal.
func jsonSafe(key string) string {
	if utf8.ValidString(key) {
		return key
	}
	return strconv.QuoteToASCII(key)
}

// mask is the secret by which keys and hashes leave a recorder as HMACs. An empty one leaves them as they are.
type mask []byte

// tops replaces keys by their names.
func (m mask) tops(list []KeyCount) {
	for i := range list {
		list[i].Key = KeyName(list[i].Key, m)
	}
}

// slot masks the keys and the samples of a slot, and leaves of a tick's weights the heaviest. The hashes for a HyperLogLog stay: it
// cannot be read back. Instances with one secret give a key the same hash, so their samples can be joined.
func (m mask) slot(s *Slot) {
	for i := range s.Protected {
		s.Protected[i].Key = KeyName(s.Protected[i].Key, m)
	}
	slices.SortFunc(s.Protected, func(a, b ProtectedKey) int { return cmp.Compare(a.Key, b.Key) })

	if len(m) > 0 {
		for _, sample := range s.Keys {
			for i, hash := range sample {
				sample[i] = binary.BigEndian.Uint64(m.sum(binary.BigEndian.AppendUint64(nil, hash)))
			}
		}
	}

	for i := range s.Ticks {
		t := &s.Ticks[i]
		t.Lonely, t.Denied, t.Allowed = m.heaviest(t.Lonely), m.heaviest(t.Denied), m.heaviest(t.Allowed)
	}
}

// heaviest returns the keys that a tick in the ledger names.
func (m mask) heaviest(all Weights) Weights {
	top := all.Top(heaviest)
	for i := range top {
		top[i].Key = m.hash(top[i].Key)
	}
	return top
}

// hash replaces the hash of a key.
func (m mask) hash(hash uint32) uint32 {
	if len(m) == 0 {
		return hash
	}
	return binary.BigEndian.Uint32(m.sum(binary.BigEndian.AppendUint32(nil, hash)))
}

// sum returns the HMAC-SHA256 of data by the secret.
func (m mask) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, m)
	mac.Write(data)
	return mac.Sum(nil)
}
