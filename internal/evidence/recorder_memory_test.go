package evidence

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// bytes returns the memory of a recorder, without names of keys.
func (r *Recorder) bytes() (n uintptr) {
	for i := range r.stripes {
		s := &r.stripes[i]
		n += unsafe.Sizeof(*s)
		for _, h := range s.hours {
			n += unsafe.Sizeof(*h) + uintptr(cap(h.Minutes))*unsafe.Sizeof(Minute{})
			n += uintptr(cap(h.Protected)) * unsafe.Sizeof(ProtectedKey{})
		}
		for kind := range s.fresh {
			n += uintptr(cap(s.fresh[kind])) * 8
			if t := s.tops[kind]; t != nil {
				n += uintptr(cap(t.slots)) * 3 * unsafe.Sizeof(KeyCount{}) // with the index
			}
		}
	}
	return n
}

// A million keys take no more than the memory that docs/performance.md states, which does not depend on the number of keys; nor does
// a policy file that protects others of them again and again.
func TestAMillionKeysAreBounded(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := [2]algorithms.Observation{{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}, {Status: algorithms.Judged}}
	r, setting := NewRecorder(nil), &Setting{Cost: 1, Protected: true}
	for n := range uint64(1_000_000) {
		at := noon.Add(time.Duration(n/250_000) * time.Hour)
		r.Observe(strconv.FormatUint(n, 10), n*0x9e3779b97f4a7c15+8, at, &o, setting)
	}

	// A recorder keeps three hours while the ledger does not answer, and four of them until it looks at the clock.
	if n, most := r.bytes(), uintptr(10<<20); n > most {
		t.Errorf("the recorder takes %d bytes, want at most %d", n, most)
	}
	if list := r.Batch(noon.Add(3*time.Hour), true).Slots[0].Protected; len(list) != mostListed {
		t.Errorf("%d protected keys, want %d", len(list), mostListed)
	}
}
