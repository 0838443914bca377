// Package evidence counts how two limiters differ, and keeps the counts of a fleet: the evidence for a promotion.
//
// Compare turns the observations of one check into an Outcome. A Recorder counts the outcomes that one instance sees
// of one policy, in memory and on the path of a request. Every few seconds a Batch of them is added to a Ledger, in
// Redis or in memory, and a Reader makes a History of what all instances have added, which the promotion gate assesses.
//
// There are two harms, and they are never one number. A newly denied check hurts a client, and is measured against
// what the authoritative allows. A newly allowed one loses protection, and is measured against what it denies. A Tally
// counts both, and a Ratio divides each by its own denominator.
//
// # Caveats
//
// A ledger remembers 32 days. An instance that crashes loses what it has counted since its last batch.
//
// Keys leave a Recorder in the lists of frequent keys, as names of the 20 clients of a list that lose most, and as
// hashes. With a secret, names are HMACs and hashes are keyed, except for those of the HyperLogLogs, which are of the key
// in clear. Counts of distinct keys are estimates (about 1 % in Redis), and counts of frequent keys have a stated error.
//
// The cause of a difference is a guess from the answers of both sides and their limits; TestCauses says how good.
package evidence
