package divergence

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// sipVectors are the hashes of the texts of 0, 1, ... 16 bytes 0, 1, 2, ... under the key of the bytes 0 to 15: the first ones of
// test_siphash_1_3 in library/coretests/tests/hash/sip.rs of rust-lang/rust (commit 193cc91), read as little-endian numbers.
var sipVectors = []uint64{
	0xabac0158050fc4dc, 0xc9f49bf37d57ca93, 0x82cb9b024dc7d44d, 0x8bf80ab8e7ddf7fb,
	0xcf75576088d38328, 0xdef9d52f49533b67, 0xc50d2b50c59f22a7, 0xd3927d989bb11140,
	0x369095118d299a8e, 0x25a48eb36c063de4, 0x79de85ee92ff097f, 0x70c118c1f94dc352,
	0x78a384b157b4d9a2, 0x306f760c1229ffa7, 0x605aa111c0f95d34, 0xd320d86d2a519956,
	0xcc4fdd1a7d908b66,
}

// sipOf is SipHash-1-3 of any text, as its authors describe it.
func sipOf(k0, k1 uint64, text []byte) uint64 {
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	round := func() {
		for _, half := range [][6]int{{0, 1, 2, 3, 13, 16}, {2, 1, 0, 3, 17, 21}} {
			a, b, c, d := &v[half[0]], &v[half[1]], &v[half[2]], &v[half[3]]
			*a, *c = *a+*b, *c+*d
			*b, *d = bits.RotateLeft64(*b, half[4])^*a, bits.RotateLeft64(*d, half[5])^*c
			*a = bits.RotateLeft64(*a, 32)
		}
	}

	padded := make([]byte, len(text)/8*8+8)
	copy(padded, text)
	padded[len(padded)-1] = byte(len(text))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		round()
		v[0] ^= m
	}

	v[2] ^= 0xff
	for range 3 {
		round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// The hash of a secret ordering is SipHash-1-3, as others have it.
func TestSecretOrderIsSipHash(t *testing.T) {
	var text []byte
	for n, want := range sipVectors {
		if got := sipOf(0x0706050403020100, 0x0f0e0d0c0b0a0908, text); got != want {
			t.Fatalf("the hash of %d bytes is %x, want %x", n, got, want)
		}
		text = append(text, byte(n))
	}

	published := ordering{true, 0x0706050403020100, 0x0f0e0d0c0b0a0908}
	if got := published.sip(0x0706050403020100); got != sipVectors[8] {
		t.Fatalf("the hash of a word is %x, want %x", got, sipVectors[8])
	}
	rapid.Check(t, func(t *rapid.T) {
		o := ordering{true, rapid.Uint64().Draw(t, "k0"), rapid.Uint64().Draw(t, "k1")}
		m := rapid.Uint64().Draw(t, "word")
		if got, want := o.sip(m), sipOf(o.k0, o.k1, binary.LittleEndian.AppendUint64(nil, m)); got != want {
			t.Fatalf("the hash of %x is %x, want %x", m, got, want)
		}
	})
}
