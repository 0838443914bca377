package algorithms

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Format is the format of all that is stored, in Redis and on disks. Raise it when the meaning of something stored
// changes: what has another number is left alone and not read, so every key then starts with a full budget.
const Format = "1"

// KeyPrefix begins every key in Redis.
const KeyPrefix = "shadowlimit" + Format + ":"

// maxKeyBytes is the longest key that is kept as it is.
const maxKeyBytes = 256

// hashMark begins every key that was hashed. A key that a caller begins with it is
// hashed, too: otherwise a client could name the record of another client's long key.
const hashMark = "#"

// BoundedKey returns a key of at most 256 bytes, so that a client that sends long
// keys does not fill memory: the key itself, or '#' and its SHA-256 in hex if it is
// longer than that or begins with '#'.
//
// It is applied where a key enters: to what a policy's expressions make of a request,
// and to the argument of shadow.Pair.Allow.
func BoundedKey(key string) string {
	if len(key) <= maxKeyBytes && !strings.HasPrefix(key, hashMark) {
		return key
	}

	sum := sha256.Sum256([]byte(key))
	return hashMark + hex.EncodeToString(sum[:])
}

// StoredKey returns the name of a key outside this process: without a secret
// BoundedKey(key), with one '#' and the first 128 bits of the key's HMAC-SHA-256 in
// hex, from which the key cannot be guessed without the secret.
//
// A key that was hashed where it entered is hashed once more here, for it begins with
// '#'.
func StoredKey(key string, secret []byte) string {
	if len(secret) == 0 {
		return BoundedKey(key)
	}

	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return hashMark + hex.EncodeToString(mac.Sum(nil)[:16])
}
