package evidence_test

import (
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Golden vectors: a changed hash would move keys to the other side.
var hashes = []struct {
	name, policy, key string
	want              uint64
}{
	{"", "", "", 0x9aaba41ffa2da101},
	{"shop", "search", "10.0.0.1", 0x295ac238ba6e0334},
	{"shop", "search", "10.0.0.2", 0x858d0f32fb4e4598},
	{"shop", "login", "user:42", 0xec208d4f94135352},
	{"a", "b", "c", 0xa23dddc4b4bf51a2},
	{"Größe", "später", "schlüssel/ü", 0xa4a66c79287222fa},
}

func TestHash(t *testing.T) {
	for _, v := range hashes {
		got := evidence.Hash(v.name, v.policy, v.key)
		if got != v.want || got != xxhash.Sum64String(v.name+"\x00"+v.policy+"\x00"+v.key) {
			t.Errorf("Hash(%q, %q, %q) = %#x, want %#x", v.name, v.policy, v.key, got, v.want)
		}
	}
}

func TestInCanary(t *testing.T) {
	tests := []struct {
		share   uint64 // hash mod 10000
		percent float64
		want    bool
	}{
		{0, 0, false},
		{0, 0.01, true},
		{1, 0.01, false},
		{99, 1, true},
		{100, 1, false},
		{4999, 50, true},
		{5000, 50, false},
		{9998, 99.99, true},
		{9999, 99.99, false},
		{9999, 100, true},
	}

	// The last multiple is about the largest.
	for _, tt := range tests {
		for _, multiple := range []uint64{0, 1, 1_844_674_407_370_954} {
			if got := evidence.InCanary(multiple*10_000+tt.share, tt.percent); got != tt.want {
				t.Errorf("InCanary(%d * 10000 + %d, %g) = %t, want %t", multiple, tt.share, tt.percent, got, tt.want)
			}
		}
	}
}

// A pinned key is in every canary.
func TestPositions(t *testing.T) {
	tests := []struct {
		share   uint64
		pinned  bool
		percent float64
		canary  bool
	}{
		{50, false, 1, true},
		{100, false, 1, false},
		{9999, false, 100, true},
		{9999, true, 0.01, true},
		{9999, true, 0, false},
	}

	for _, tt := range tests {
		p := evidence.Position{Hash: tt.share, Pinned: tt.pinned}
		if got := p.InCanary(tt.percent); got != tt.canary {
			t.Errorf("%d, pinned %t: in a canary of %g %%: %t", tt.share, tt.pinned, tt.percent, got)
		}
	}
}

// Hash is xxHash64 of the three texts with zero bytes between them, however long they are.
func TestHashOfLongTexts(t *testing.T) {
	for n := range 600 {
		key := strings.Repeat("k", n)
		if got, want := evidence.Hash("name", "policy", key), xxhash.Sum64String("name\x00policy\x00"+key); got != want {
			t.Fatalf("a key of %d bytes: hash %x, want %x", n, got, want)
		}
	}
}

func TestCanaryOnlyGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.Float64Range(0, 100)
		hash, a, b := rapid.Uint64().Draw(t, "hash"), percent.Draw(t, "a"), percent.Draw(t, "b")
		if evidence.InCanary(hash, min(a, b)) && !evidence.InCanary(hash, max(a, b)) {
			t.Errorf("%d is in at %g %% but not at %g %%", hash, min(a, b), max(a, b))
		}
		if evidence.InCanary(hash, 0) || !evidence.InCanary(hash, 100) {
			t.Errorf("%d: want it out at 0 %% and in at 100 %%", hash)
		}
	})
}
