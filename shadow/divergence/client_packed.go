package divergence

import (
	"encoding/binary"
	"errors"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// packedClients are Clients as they are stored: the bound, then each client as the distance of its hash from the one
// before, a byte that says what follows, the counts by role, and the name. All numbers are varints, so a client that loses nothing
// takes about 8 bytes.
type packedClients []byte

// Bits of the byte that says what follows.
const (
	hasCounts = 1 << iota // of the authoritative; the next bit is the candidate's
	_
	hasDenials // requests that the authoritative denied
	_
	hasLosses
	_
	hasName
	hasGains // a number for each role with denials
)

// packClients writes a list, nil for an empty one: most policies have no protected keys, and an empty field is left out of JSON.
func packClients(c *Clients) packedClients {
	if c.Below == 0 && len(c.List) == 0 {
		return nil
	}

	p := binary.AppendUvarint(nil, c.Below)
	before := uint64(0)
	for i := range c.List {
		p = appendClient(p, &c.List[i], before)
		before = c.List[i].Hash
	}
	return p
}

// appendClient appends one client. A count that is zero for most clients takes no byte, because a list may have thousands of them in each
// of 26 hours.
func appendClient(p []byte, c *Client, before uint64) []byte {
	p = binary.AppendUvarint(p, c.Hash-before)
	at := len(p)
	p = append(p, 0)

	gains := c.Total().Gained > 0
	if gains {
		p[at] |= hasGains
	}
	for role, n := range c.Counts {
		if n == (ClientCount{}) {
			continue
		}
		p[at] |= hasCounts << role
		p = binary.AppendUvarint(p, uint64(n.Requests))
		if n.Requests != n.Allowed {
			p[at] |= hasDenials << role
			p = binary.AppendUvarint(p, uint64(n.Allowed))
		}
		if n.Lost > 0 {
			p[at] |= hasLosses << role
			p = binary.AppendUvarint(p, uint64(n.Lost))
		}
		if gains && n.OverLimit() {
			p = binary.AppendUvarint(p, uint64(n.Gained))
		}
	}

	if c.Name != "" {
		p[at] |= hasName
		p = binary.AppendUvarint(p, uint64(len(c.Name)))
		p = append(p, c.Name...)
	}
	return p
}

// mostUnpacked bounds a list of any release.
const mostUnpacked = 1 << 16

// errClients says that a list is not as packClients makes it.
var errClients = errors.New("a list of clients that cannot be read")

// unpack checks the order and the counts: other programs can write to the ledger.
func (p packedClients) unpack() (c Clients, err error) {
	if len(p) == 0 {
		return Clients{}, nil
	}

	r := clientReader{rest: p}
	c.Below = r.number(1 << 48)
	for len(r.rest) > 0 && !r.failed {
		var before uint64
		if n := len(c.List); n > 0 {
			before = c.List[n-1].Hash
		}
		c.List = append(c.List, r.client(before))
		if one := &c.List[len(c.List)-1]; one.Hash <= before || c.Below != 0 && one.Hash >= c.Below || len(c.List) > mostUnpacked {
			return Clients{}, errClients
		}
	}
	if r.failed {
		return Clients{}, errClients
	}
	return c, nil
}

// clientReader reads numbers until one is missing or too large.
type clientReader struct {
	rest   []byte
	failed bool
}

// number reads a number of at most that size. After the first mistake all further numbers are 0, so callers check failed once.
func (r *clientReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > most {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// client reads one client. Before is the hash of the one in front of it: hashes rise, so differences are small.
func (r *clientReader) client(before uint64) (c Client) {
	c.Hash = before + r.number(1<<48)
	if len(r.rest) == 0 {
		r.failed = true
		return c
	}
	what := r.rest[0]
	r.rest = r.rest[1:]

	for _, role := range [...]algorithms.Role{algorithms.Authoritative, algorithms.Candidate} {
		c.Counts[role] = r.count(what>>role, what&hasGains != 0)
	}
	if what&hasName != 0 {
		if n := r.number(uint64(len(r.rest))); n <= uint64(len(r.rest)) {
			c.Name = string(r.rest[:n])
			r.rest = r.rest[n:]
		} else {
			r.failed = true
		}
	}
	return c
}

// count reads what became of a client under one enforced side. No count can be more than the one that it is a part of.
func (r *clientReader) count(what byte, gains bool) (n ClientCount) {
	if what&hasCounts == 0 {
		return n
	}
	n.Requests = int64(r.number(mostCounted))

	// A client that was denied nothing takes no byte for that.
	n.Allowed = n.Requests
	if what&hasDenials != 0 {
		n.Allowed = int64(r.number(uint64(n.Requests)))
	}
	if what&hasLosses != 0 {
		n.Lost = int64(r.number(uint64(n.Allowed)))
	}

	// Only a client beyond its limit has denied requests that it can gain.
	if gains && n.OverLimit() {
		n.Gained = int64(r.number(uint64(n.Requests - n.Allowed)))
	}
	return n
}

// packedCauses are the causes of what one client lost, by its place in the list of clients. They are no part of that list: a
// release that does not know them could not read it.
type packedCauses struct {
	Client int          `json:"c"`
	Lost   ClientCauses `json:"n"`
}

// packCauses writes the causes of the named clients, because status names no others.
func packCauses(c *Clients) (list []packedCauses) {
	for i := range c.List {
		if causes := c.List[i].Causes; causes != nil {
			list = append(list, packedCauses{i, *causes})
		}
	}
	return list
}

// unpackCauses gives clients that were just unpacked their causes.
func unpackCauses(list []packedCauses, into *Clients) error {
	for i := range list {
		p := &list[i]
		if p.Client < 0 || p.Client >= len(into.List) || !believed(p.Lost[:]...) {
			return errClients
		}
		into.List[p.Client].Causes = &p.Lost
	}
	return nil
}
