package divergence

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
			n += h.clients.bytes() + h.protected.bytes()
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

// bytes returns the memory of a table, in which each loser is a value of its own.
func (t *clientTable) bytes() uintptr {
	n := uintptr(cap(t.slots)) * unsafe.Sizeof(sampleSlot[clientTally]{})
	for i := range t.slots {
		if t.slots[i].value.loser != nil {
			n += unsafe.Sizeof(loser{})
		}
	}
	return n
}

// A million clients of one request hide no client that loses, and take no more than the memory that docs/performance.md
// states: it does not depend on the number of keys.
func TestAMillionClientsHideNone(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := [2]algorithms.Observation{{Decision: algorithms.Decision{Allowed: true}}, {}}
	r, setting := NewRecorder(nil), &Setting{Cost: 1, Protected: true}
	loses := hashAt(1)
	for n := range uint64(1_000_000) {
		at := noon.Add(time.Duration(n/250_000) * time.Hour)
		r.Observe(strconv.FormatUint(n, 10), n*0x9e3779b97f4a7c15+8, at, &o, setting)
		if n%10_000 == 0 {
			r.Observe("loses", loses, noon, &o, setting)
		}
	}

	// Four hours are the most that a recorder keeps while the ledger does not answer.
	if n, most := r.bytes(), uintptr(24<<20); n > most {
		t.Errorf("the recorder takes %d bytes, want at most %d", n, most)
	}
	first := r.Snapshot(noon).Record.Open[0]
	for list, clients := range map[string]*Clients{"clients": &first.Clients, "protected": &first.Protected} {
		worst := clients.Worst(1, 50)
		if len(worst) != 1 || worst[0].Name != "loses" || worst[0].Total() != (ClientCount{100, 100, 100, 0}) {
			t.Errorf("%s: %+v, want the only one with 100 requests", list, worst)
		}
	}
}
