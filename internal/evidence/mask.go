package evidence

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// KeyName returns the name of a key in the lists of a ledger: an HMAC if there is a secret, by the text that the Redis pair stores
// for it. It quotes the texts that JSON cannot carry last: an HMAC is of the key itself.
func KeyName(key string, secret []byte) string {
	return jsonSafe(algorithms.StoredKey(key, secret))
}

// maskTops replaces keys by their names.
func (r *Recorder) maskTops(list []KeyCount) {
	for i := range list {
		list[i].Key = KeyName(list[i].Key, r.secret)
	}
}

// maskSlot replaces hashes by others if there is a secret. The hashes for a HyperLogLog stay: it cannot be read back.
// Instances with one secret give a key the same hash, so their samples can be joined.
func (r *Recorder) maskSlot(s *Slot) {
	for i := range s.Protected {
		s.Protected[i].Key = KeyName(s.Protected[i].Key, r.secret)
	}
	slices.SortFunc(s.Protected, func(a, b ProtectedKey) int { return cmp.Compare(a.Key, b.Key) })
	if len(r.secret) == 0 {
		return
	}

	for _, sample := range s.Keys {
		for i, hash := range sample {
			sample[i] = binary.BigEndian.Uint64(r.sum(binary.BigEndian.AppendUint64(nil, hash)))
		}
	}
}

// masked replaces the hash of a key by an HMAC, if there is a secret.
func (r *Recorder) masked(hash uint32) uint32 {
	if len(r.secret) == 0 {
		return hash
	}
	return binary.BigEndian.Uint32(r.sum(binary.BigEndian.AppendUint32(nil, hash)))
}

// sum returns the HMAC-SHA256 of data by the secret.
func (r *Recorder) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, r.secret)
	mac.Write(data)
	return mac.Sum(nil)
}
