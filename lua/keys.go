package lua

import (
	"encoding/base32"
	"hash/fnv"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// RecordKey returns the Redis key of the record of a policy's key. Braces in a key do no
// harm: Redis takes the text between the first { and the first } after it as the hash
// tag, and that is the same in all keys of one record.
func (p *Pair) RecordKey(policy, key string) string {
	return algorithms.KeyPrefix + "{" + p.name + ":" + policy + ":" + algorithms.StoredKey(key, p.secret) + "}"
}

// LogKey returns the Redis key of the sorted set that a side of that id, with a sliding
// window log, keeps beside the record.
func (p *Pair) LogKey(policy, key, id string) string {
	return logKey(p.RecordKey(policy, key), partName(id, algorithms.SlidingWindowLog{}.Name()))
}

// logKey returns the key of a log. It begins with the record's, so that both have one hash tag and one node of a cluster.
func logKey(record, part string) string { return record + ":log:" + part }

var partEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// partName returns the 8 characters that name a side's part of the record: a hash of its
// id and its algorithm. Scripts find parts by it, so a state of another algorithm is never
// taken for one of this.
func partName(id, algorithm string) string {
	h := fnv.New64a()
	h.Write([]byte(id + "\x00" + algorithm))
	return partEncoding.EncodeToString(h.Sum(nil)[:5])
}
