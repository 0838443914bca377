package divergence

import (
	"encoding/binary"
	"errors"
)

// packedReactions are Reactions as they are stored: the bound, then of each client the distance of its hash from the one before, its
// denials and its last request; and after a denial its minutes, and how long before its last request the last denial was. All
// numbers are varints, so a client that is not denied takes about 10 bytes.
type packedReactions []byte

// packReactions writes a list, nil for an empty one: policies without a holdback have none.
func packReactions(r *Reactions) packedReactions {
	if r.Below == 0 && len(r.List) == 0 {
		return nil
	}

	p := binary.AppendUvarint(nil, r.Below)
	before := uint64(0)
	for i := range r.List {
		one := &r.List[i]
		p = binary.AppendUvarint(p, one.Hash-before)
		p = binary.AppendUvarint(p, uint64(one.Denials))
		p = binary.AppendUvarint(p, uint64(one.Last))
		if one.Denials > 0 {
			p = binary.AppendUvarint(p, one.Minutes)
			p = binary.AppendUvarint(p, uint64(one.Last-one.LastDenied))
		}
		before = one.Hash
	}
	return p
}

// errReactions says that a list is not as packReactions makes it.
var errReactions = errors.New("a list of reactions that cannot be read")

// unpack checks the order and the numbers: other programs can write to the ledger.
func (p packedReactions) unpack() (list Reactions, err error) {
	if len(p) == 0 {
		return Reactions{}, nil
	}

	r := clientReader{rest: p}
	list.Below = r.number(1 << 48)
	before := uint64(0)
	for len(r.rest) > 0 && !r.failed {
		one := r.reaction(before)
		if one.Hash <= before || list.Below != 0 && one.Hash >= list.Below || len(list.List) >= mostUnpacked {
			return Reactions{}, errReactions
		}
		list.List = append(list.List, one)
		before = one.Hash
	}
	if r.failed {
		return Reactions{}, errReactions
	}
	return list, nil
}

// reaction reads one client. Its last denial cannot be later than its last request.
func (r *clientReader) reaction(before uint64) Reaction {
	const msPerHour = SecondsPerHour * 1000
	one := Reaction{Hash: before + r.number(1<<48), Denials: int64(r.number(mostCounted)), Last: uint32(r.number(msPerHour - 1))}
	if one.Denials > 0 {
		one.Minutes = r.number(1<<MinutesPerHour - 1)
		one.LastDenied = one.Last - uint32(r.number(uint64(one.Last)))
	}
	return one
}
