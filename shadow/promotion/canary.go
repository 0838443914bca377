package promotion

import "github.com/cespare/xxhash/v2"

// canaryShares is how finely keys are divided: a hundredth of a percent.
const canaryShares = 10_000

// Hash places a key: xxHash64 with seed 0 of name, policy and key in clear, with
// a zero byte between them. It is the same on every instance and in every
// version.
func Hash(name, policy, key string) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.WriteString(name)
	d.WriteString("\x00")
	d.WriteString(policy)
	d.WriteString("\x00")
	d.WriteString(key)
	return d.Sum64()
}

// InCanary reports whether a key of that hash belongs to the canary. A larger
// percentage only adds keys.
func InCanary(hash uint64, percent float64) bool {
	return float64(hash%canaryShares) < percent*(canaryShares/100)
}
