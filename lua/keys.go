package lua

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"hash/fnv"
	"strings"
)

// maxKeyBytes is the longest key stored in clear.
const maxKeyBytes = 256

// recordKey returns the Redis key of a record. Braces in a key do no harm: the
// hash tag is what stands between the first { and the first } after it, and the
// keys of one record share that.
func (p *Pair) recordKey(policy, key string) string {
	return "shadowlimit:{" + p.name + ":" + policy + ":" + p.storedKey(key) + "}"
}

// storedKey hashes a key that is too long, or looks as if it were a hash.
func (p *Pair) storedKey(key string) string {
	if len(p.secret) > 0 {
		mac := hmac.New(sha256.New, p.secret)
		mac.Write([]byte(key))
		return "#" + hex.EncodeToString(mac.Sum(nil)[:16])
	}
	if len(key) > maxKeyBytes || strings.HasPrefix(key, "#") {
		sum := sha256.Sum256([]byte(key))
		return "#" + hex.EncodeToString(sum[:])
	}
	return key
}

// logKey returns the key of a side's sorted set beside the record.
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
