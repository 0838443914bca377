package lua

import (
	"encoding/base32"
	"hash/fnv"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// RecordKey returns the Redis key of the record of a policy's key. Braces in a key
// do no harm: the hash tag is what stands between the first { and the first }
// after it, and the keys of one record share that.
func (p *Pair) RecordKey(policy, key string) string {
	return "shadowlimit:{" + p.name + ":" + policy + ":" + algorithms.StoredKey(key, p.secret) + "}"
}

// LogKey returns the Redis key of the sorted set that a side with a sliding window
// log keeps beside the record.
func (p *Pair) LogKey(policy, key, id string) string {
	return logKey(p.RecordKey(policy, key), partName(id, algorithms.SlidingWindowLog{}.Name()))
}

func logKey(record, part string) string { return record + ":log:" + part }

// revision is part of every part's name: raise it when the meaning of a stored
// state changes, and states of before start afresh.
const revision = "1"

var partEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// partName returns the 8 characters that name a side's part of the record: a
// hash of its id, its algorithm and the revision. Scripts find parts by them.
func partName(id, algorithm string) string {
	h := fnv.New64a()
	h.Write([]byte(id + "\x00" + algorithm + "\x00" + revision))
	return partEncoding.EncodeToString(h.Sum(nil)[:5])
}
