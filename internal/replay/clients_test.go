package replay

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// A replay counts clients by hours where a rule asks for that, and a declared difference is a loss of protected keys only.
func TestReplayCountsClientsByHours(t *testing.T) {
	h := newClientHours(&Config{Gate: gate.Config{Harms: gate.Harms{Protect: 0.05}}, Protects: func(key string) bool { return key == "acme" }})
	for _, o := range []divergence.Outcome{
		divergence.AgreeAllow, divergence.NewlyDenied, divergence.ExpectedDenied, divergence.AgreeDeny, divergence.CandidateError,
	} {
		h.count(7, 0, "acme", o)
		h.count(7, 1, "other", o)
	}
	h.count(8, 1, "other", divergence.AgreeAllow)
	h.end()

	if len(h.hours) != 2 || len(h.hours[0].Clients.List) != 2 || len(h.hours[1].Clients.List) != 1 || len(h.hours[0].Protected.List) != 1 {
		t.Fatalf("%+v", h.hours)
	}
	want := divergence.ClientCount{Requests: 4, Allowed: 3, Lost: 1}
	for i := range h.hours[0].Clients.List {
		if got := h.hours[0].Clients.List[i].Total(); got != want {
			t.Errorf("client %d has %+v, want %+v", i, got, want)
		}
	}
	want.Lost = 2
	if got := h.hours[0].Protected.List[0].Total(); got != want {
		t.Errorf("the protected key has %+v, want %+v", got, want)
	}

	// Without a rule nothing is kept.
	none := newClientHours(&Config{Gate: gate.Config{Soak: time.Hour}})
	none.count(7, 0, "acme", divergence.AgreeAllow)
	if none.end(); len(none.hours) != 0 {
		t.Errorf("%+v without a rule", none.hours)
	}
}
