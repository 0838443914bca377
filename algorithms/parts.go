package algorithms

import (
	"sync"
	"sync/atomic"
)

// partName stands for a side's id and algorithm. Parts are compared for every check,
// and numbers compare faster than strings.
type partName struct{ id, algorithm uint32 }

// noPart is the name of an absent side's part, and of an empty one.
var noPart partName

// partNames numbers the ids and algorithms that checks have had. Sides come from
// configuration, so there are few: the table only grows, is searched from its beginning,
// and is replaced as a whole, so that readers take no lock.
type partNames struct {
	mu    sync.Mutex
	known atomic.Pointer[[]namedPart]
}

type namedPart struct {
	id, algorithm string // as the side has them: the id may be ""
	name          partName
}

// ofCheck returns the names of the check's parts, by role, or the error of CheckSides. To compare the names' numbers is
// cheaper than to compare the ids. Most checks find their names in the record: see entry.recognize.
func (p *partNames) ofCheck(c *Check) (names [2]partName, err error) {
	for r := range c.Sides {
		if c.Sides[r].Present() {
			names[r] = p.of(c.Sides[r].ID, c.Sides[r].Algorithm.Name())
		}
	}

	if names[0] != noPart && names[1] != noPart && names[0].id == names[1].id {
		return names, ErrSameID
	}
	return names, nil
}

// of returns the name of a part, which is new at most once.
func (p *partNames) of(id, algorithm string) partName {
	if known := p.known.Load(); known != nil {
		for i := range *known {
			if k := &(*known)[i]; k.algorithm == algorithm && k.id == id {
				return k.name
			}
		}
	}

	return p.add(id, algorithm)
}

// add numbers a part. Two callers may add the same one at once; the second finds the
// numbers of the first and gets an equal name.
func (p *partNames) add(id, algorithm string) partName {
	p.mu.Lock()
	defer p.mu.Unlock()

	var list []namedPart
	if known := p.known.Load(); known != nil {
		list = append(list, *known...)
	}

	// An id that is left out and one that is written as the algorithm's name are the same.
	full := id
	if id == "" {
		full = algorithm
	}

	next := uint32(len(list) + 1)
	name := partName{next, next}
	for _, k := range list {
		if k.id == full || k.id == "" && k.algorithm == full {
			name.id = k.name.id
		}
		if k.algorithm == algorithm {
			name.algorithm = k.name.algorithm
		}
	}

	list = append(list, namedPart{id, algorithm, name})
	p.known.Store(&list)
	return name
}
