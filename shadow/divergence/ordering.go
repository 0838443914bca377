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
		hash = o.sip(hash)
	} else {
		// The finalizer of splitmix64 (Steele, Lea, Flood 2014), which is one to one.
		hash = (hash ^ hash>>30) * 0xbf58476d1ce4e5b9
		hash = (hash ^ hash>>27) * 0x94d049bb133111eb
		hash ^= hash >> 31
	}
	return max(1, hash>>16)
}

// sip is SipHash-1-3 of one word (Aumasson, Bernstein 2012): with a secret, a list in the ledger must not say to its reader
// which keys are in it.
func (o *ordering) sip(m uint64) uint64 {
	v := [4]uint64{o.k0 ^ 0x736f6d6570736575, o.k1 ^ 0x646f72616e646f6d, o.k0 ^ 0x6c7967656e657261, o.k1 ^ 0x7465646279746573}
	v[3] ^= m
	sipRound(&v)
	v[0] ^= m
	const length = 8 << 56
	v[3] ^= length
	sipRound(&v)
	v[0] ^= length

	v[2] ^= 0xff
	sipRound(&v)
	sipRound(&v)
	sipRound(&v)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// sipRound is the round of SipHash.
func sipRound(v *[4]uint64) {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
