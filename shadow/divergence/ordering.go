package divergence

import (
	"encoding/binary"
	"math/bits"
)

// ordering is how hashes of keys become the order of clients: one that does not coincide with the rank of a key in the canary,
// so that a canary has its share of the sample.
type ordering struct {
	keyed  bool
	k0, k1 uint64
}

// newOrdering returns the ordering of all instances with this secret.
func (r *Recorder) newOrdering() ordering {
	if len(r.secret) == 0 {
		return ordering{}
	}
	key := r.sum([]byte("clients"))
	return ordering{true, binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:])}
}

// ClientHash returns the hash of a key's Client, of a service without a secret. hash is the key's Hash.
func ClientHash(hash uint64) uint64 {
	var o ordering
	return o.of(hash)
}

// of returns a key's place in the order, 48 bits and never 0. With 10,000,000 keys, one of 4,096 shares it with
// another key with a probability of 1 to 7,000.
func (o *ordering) of(hash uint64) uint64 {
	if o.keyed {
		return max(1, o.sip(hash)>>16)
	}
	return max(1, mix(hash)>>16)
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014), which is one to one.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sip is SipHash-1-3 of one word (Aumasson, Bernstein 2012): with a secret, a list in the ledger must not say to its reader
// which keys are in it.
func (o *ordering) sip(m uint64) uint64 {
	v0, v1, v2, v3 := o.k0^0x736f6d6570736575, o.k1^0x646f72616e646f6d, o.k0^0x6c7967656e657261, o.k1^0x7465646279746573
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^m)
	v0 ^= m

	// The last word of a message has its length in the highest byte.
	const length = 8 << 56
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^length)
	v0 ^= length

	v0, v1, v2, v3 = sipRound(v0, v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// sipRound is the round of SipHash, in two halves that the compiler inlines.
func sipRound(v0, v1, v2, v3 uint64) (w0, w1, w2, w3 uint64) {
	v0, v1, v2, v3 = sipHalf(v0, v1, v2, v3, 13, 16)
	v2, v1, v0, v3 = sipHalf(v2, v1, v0, v3, 17, 21)
	return v0, v1, v2, v3
}

// sipHalf is half of a round: two additions, each with a rotation and an exclusive or.
func sipHalf(a, b, c, d uint64, left, right int) (w, x, y, z uint64) {
	a += b
	c += d
	return bits.RotateLeft64(a, 32), bits.RotateLeft64(b, left) ^ a, c, bits.RotateLeft64(d, right) ^ c
}
