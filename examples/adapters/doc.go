// Package adapters shows how limiters of other libraries become a side of a
// shadow.Pair or of a policy: copy the one you need.
package adapters
