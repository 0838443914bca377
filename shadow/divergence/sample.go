package divergence

import (
	"cmp"
	"slices"
)

// member is an element of a sample of clients: lists of them are in the order of their hashes.
type member[M any] interface {
	*M
	// place is the hash.
	place() uint64
	// join adds what another observer saw of the same client.
	join(other *M)
}

// joinSamples adds up two lists that are complete below their bounds. Of more than most clients it keeps those of least
// hash, and the bound falls to the first that it leaves out. No list is changed.
func joinSamples[M any, P member[M]](belowA uint64, a []M, belowB uint64, b []M, most int) (below uint64, joined []M) {
	below = lesser(belowA, belowB)
	a, b = until[M, P](a, below), until[M, P](b, below)

	// One of the two is usually empty: its list is not copied.
	switch {
	case len(a) == 0:
		joined = b
	case len(b) == 0:
		joined = a
	default:
		joined = mergeSamples[M, P](a, b)
	}
	if len(joined) > most {
		below = P(&joined[most]).place()
		joined = joined[:most:most]
	}
	return below, joined
}

// lesser returns the lesser of two bounds, of which 0 is none.
func lesser(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// until returns the clients below a hash.
func until[M any, P member[M]](list []M, below uint64) []M {
	if below == 0 {
		return list
	}
	n, _ := search[M, P](list, below)
	return list[:n:n]
}

// search returns where a hash is in a list, or where it would be.
func search[M any, P member[M]](list []M, hash uint64) (int, bool) {
	return slices.BinarySearchFunc(list, hash, func(m M, hash uint64) int { return byHash(P(&m).place(), hash) })
}

// byHash orders the places of a sample.
func byHash(a, b uint64) int { return cmp.Compare(a, b) }

// mergeSamples adds up two lists.
func mergeSamples[M any, P member[M]](a, b []M) []M {
	out := make([]M, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch byHash(P(&a[0]).place(), P(&b[0]).place()) {
		case -1:
			out, a = append(out, a[0]), a[1:]
		case 1:
			out, b = append(out, b[0]), b[1:]

		default: // one client in both
			out = append(out, a[0])
			P(&out[len(out)-1]).join(&b[0])
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}
