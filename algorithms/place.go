package algorithms

// Place is how a charge's key comes into a canary: as its hash says, or as an operator has
// declared for it.
type Place uint8

// The places. A key for which nothing is declared has the zero value.
const (
	ByHash Place = iota // the hash decides
	First               // from the first step of a canary on
	Last                // not before the promotion
)

// String returns the place as commands write it: hash, first or last.
func (p Place) String() string { return [...]string{"hash", "first", "last"}[p] }
