package policies

import (
	"context"
	"fmt"
	"time"

	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

// ClientHarm is how many clients may lose how much of their own requests. Without Clients
// nothing is declared.
type ClientHarm struct {
	// Losing is the share of its own requests at which a client is harmed, a fraction.
	Losing float64
	// OfAtLeast is how many requests make a client active.
	OfAtLeast int64
	// Within is the time that both are counted in.
	Within time.Duration
	// Clients is the share of the active clients that may be harmed, a fraction.
	Clients float64
}

// clientHarm returns a reader of that section. Of two requests a client that loses one loses half,
// so a client is active with more: 50 within an hour, if the section does not say otherwise.
func (r *reader) clientHarm(into *ClientHarm) func(*yaml.Node) {
	return func(n *yaml.Node) {
		h := ClientHarm{OfAtLeast: 50, Within: time.Hour}
		before := r.errors()
		r.mapping(n, "client_harm", map[string]field{
			"losing":      {read: r.fraction("losing", &h.Losing), required: true},
			"of_at_least": {read: r.count("of_at_least", &h.OfAtLeast, 1)},
			"within":      {read: r.minutes("within", &h.Within)},
			"clients":     {read: r.fraction("clients", &h.Clients), required: true},
		})

		// Of a section with a problem the gate would find another one, in the field that is missing by it.
		if r.errors() == before {
			*into = h
		}
	}
}

// protect returns a reader of the keys for which there is no exception.
func (c *compiler) protect(into *Promotion) func(*yaml.Node) {
	return func(n *yaml.Node) {
		into.protect, into.ProtectLosing = nil, 0 // a policy's section replaces the file's
		c.mapping(n, "protect", map[string]field{
			"keys":   {read: c.placing("protect", &into.protect), required: true},
			"losing": {read: c.fraction("losing", &into.ProtectLosing), required: true},
		})
	}
}

// Protects reports whether the policy declares protected keys. If not, its keys need not be
// asked.
func (p *Policy) Protects() bool { return p.Promotion.protect != nil }

// Protected reports whether the key of a request is protected, which must be one that the
// policy charges. The key alone decides, so that the answer may be kept. With an error it is not.
func (p *Policy) Protected(ctx context.Context, r *Request) (bool, error) {
	if !p.Protects() {
		return false, nil
	}

	// A key of more than 256 bytes is charged under its hash, and asked for by what it was.
	parts, err := p.key.parts(r.evaluation(ctx, p.scope))
	if err != nil {
		return false, err
	}
	return p.Promotion.protects(parts)
}

// ProtectsKey is Protected of a key as commands show it. A key of which nothing but its hash is known is not protected.
func (p *Policy) ProtectsKey(key string) bool {
	if !p.Protects() {
		return false
	}

	// A report must not fail for one key, and a protected key that is not known as one is only less loud there.
	parts, err := p.key.partsOf(key)
	if err != nil {
		return false
	}

	// A request of the key would count the error.
	protected, _ := p.Promotion.protects(parts)
	return protected
}

// protects evaluates the condition for the parts of a key. It sees nothing else, so the answer is the key's, whatever the request.
func (p *Promotion) protects(parts []string) (bool, error) {
	v, _, err := p.protect.program.Eval(keyOf(parts))
	if err != nil {
		return false, fmt.Errorf("policies: protect %s: %w", p.protect.source, err)
	}
	return v == types.True, nil
}
