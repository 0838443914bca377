package replay

import (
	"cmp"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// clientHours counts what clients lose in each hour, where a rule of the gate asks for it. Every key is counted.
type clientHours struct {
	wanted    bool
	protects  func(key string) bool // nil: none is protected
	protected map[uint32]bool       // answers of protects
	hour      int64
	clients   map[uint32]*divergence.Client
	kept      map[uint32]*divergence.Client // the protected ones
	hours     []divergence.Hour             // that are over
}

func newClientHours(cfg *Config) clientHours {
	return clientHours{
		wanted:    cfg.Gate.ClientHarm.Declared() || cfg.Gate.Protect > 0,
		protects:  cfg.Protects,
		protected: map[uint32]bool{},
		clients:   map[uint32]*divergence.Client{},
		kept:      map[uint32]*divergence.Client{},
	}
}

// count counts a comparison of a key. Events come in order, so an hour that has ended has no more.
func (h *clientHours) count(hour int64, key uint32, name string, o divergence.Outcome) {
	if !h.wanted || o > divergence.NewlyAllowed && o != divergence.ExpectedDenied && o != divergence.ExpectedAllowed {
		return
	}
	if hour != h.hour {
		h.end()
		h.hour = hour
	}

	one := divergence.ClientCount{Requests: 1}
	if o == divergence.AgreeAllow || o == divergence.NewlyDenied || o == divergence.ExpectedDenied {
		one.Allowed = 1
	}
	switch o {
	case divergence.NewlyDenied:
		one.Lost = 1
	case divergence.NewlyAllowed:
		one.Gained = 1
	}
	add(h.clients, key, name, one)

	// A declared difference is a loss of a protected key, too.
	if h.isProtected(key, name) {
		switch o {
		case divergence.ExpectedDenied:
			one.Lost = 1
		case divergence.ExpectedAllowed:
			one.Gained = 1
		}
		add(h.kept, key, name, one)
	}
}

func (h *clientHours) isProtected(key uint32, name string) bool {
	if h.protects == nil {
		return false
	}
	answer, known := h.protected[key]
	if !known {
		answer = h.protects(name)
		h.protected[key] = answer
	}
	return answer
}

func add(to map[uint32]*divergence.Client, key uint32, name string, one divergence.ClientCount) {
	if to[key] == nil {
		// The gate may take a sample by the hash, so it must not be the order of the log.
		to[key] = &divergence.Client{Hash: max(1, divergence.Hash("", "", name)>>16), Name: name}
	}
	to[key].Counts[algorithms.Authoritative].Add(one)
}

// end closes the hour.
func (h *clientHours) end() {
	if len(h.clients) > 0 {
		h.hours = append(h.hours, divergence.Hour{Unix: h.hour, Clients: listOf(h.clients), Protected: listOf(h.kept)})
	}
	clear(h.clients)
	clear(h.kept)
}

func listOf(clients map[uint32]*divergence.Client) (list divergence.Clients) {
	for _, c := range clients {
		list.List = append(list.List, *c)
	}
	slices.SortFunc(list.List, func(a, b divergence.Client) int { return cmp.Compare(a.Hash, b.Hash) })
	return list
}
