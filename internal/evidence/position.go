package evidence

import (
	"github.com/cespare/xxhash/v2"
)

// keyShares is how finely keys are divided: a share is a hundredth of a percent.
const keyShares = 10_000

// Hash says when a canary reaches a key: xxHash64 with seed 0 of name, policy and the key in clear, with a zero byte between them. It is
// the same on every instance and in every version, so that a key stays on its side. The name and the policy are in it,
// so that a client is not among the first of every canary.
func Hash(name, policy, key string) uint64 {
	h := NewKeyHash(name, policy)
	return h.Of(key)
}

// KeyHash is the Hash of the keys of one policy.
type KeyHash struct{ prefix string }

// NewKeyHash returns the hash of a policy's keys.
func NewKeyHash(name, policy string) KeyHash {
	return KeyHash{prefix: name + "\x00" + policy + "\x00"}
}

// Of returns the Hash of a key. A digest costs a request 4 % more than a buffer that is nearly always long enough.
func (h *KeyHash) Of(key string) uint64 {
	var buffer [128]byte
	if len(h.prefix)+len(key) > len(buffer) {
		return hashAll(h.prefix, key)
	}
	n := copy(buffer[:], h.prefix)
	n += copy(buffer[n:], key)
	return xxhash.Sum64(buffer[:n])
}

// hashAll hashes what is longer than the buffer of KeyHash.Of.
func hashAll(prefix, key string) uint64 {
	d := xxhash.New()
	_, _ = d.WriteString(prefix)
	_, _ = d.WriteString(key)
	return d.Sum64()
}

// HashPercent returns where a key with this hash lies, from 0 to 99.99: it belongs to a canary of more percent.
func HashPercent(hash uint64) float64 { return float64(hash%keyShares) * 100 / keyShares }

// InCanary reports whether a key with this hash belongs to a canary of percent of the keys. A larger percentage only
// adds keys.
func InCanary(hash uint64, percent float64) bool {
	return float64(hash%keyShares) < percent*(keyShares/100)
}

// Position is where a key stands in the order in which keys come to the candidate. It is the same on every instance
// with the same policy file.
type Position struct {
	Hash uint64
	// Pinned reports that the policy file has the key in a canary from its first step (promotion.first).
	Pinned bool
}

// InCanary reports whether the key belongs to a canary of percent of the keys.
func (p Position) InCanary(percent float64) bool {
	return p.Pinned && percent > 0 || InCanary(p.Hash, percent)
}
