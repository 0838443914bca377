// Package divergence says how two limiters differ: the outcome of one paired
// evaluation, and what outcomes add up to.
//
// There are two harms and they are never one number. A newly denied charge hurts
// a client, and is measured against what the authoritative allows; a newly
// allowed one takes protection away, and is measured against what it denies.
package divergence
