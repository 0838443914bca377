package divergence

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// maskTops replaces keys by HMACs if there is a secret, by the text that the Redis pair stores for them. It quotes the
// texts that JSON cannot carry last: an HMAC is of the key itself.
func (r *Recorder) maskTops(list []KeyCount) {
	for i := range list {
		if len(r.secret) > 0 {
			list[i].Key = algorithms.StoredKey(list[i].Key, r.secret)
		}
		list[i].Key = jsonSafe(list[i].Key)
	}
}

// maskHours replaces hashes by others if there is a secret. The hashes for a HyperLogLog stay: it cannot be read back.
// Instances with one secret give a key the same hash, so their samples can be joined.
func (r *Recorder) maskHours(hours map[int64]*Hour) {
	for _, h := range hours {
		r.maskClients(h.Clients.List)
		r.maskClients(h.Protected.List)
	}
	if len(r.secret) == 0 {
		return
	}

	for _, h := range hours {
		for m := range h.Minutes {
			for _, sample := range h.Minutes[m].Keys {
				for i, hash := range sample {
					sample[i] = binary.BigEndian.Uint64(r.sum(binary.BigEndian.AppendUint64(nil, hash)))
				}
			}
		}
	}
}

// maskClients replaces the names of clients, as maskTops does. Their hashes are not those of other lists; see ordering.
func (r *Recorder) maskClients(list []Client) {
	for i := range list {
		if list[i].Name != "" {
			list[i].Name = jsonSafe(algorithms.StoredKey(list[i].Name, r.secret))
		}
	}
}

// masked replaces the hash of a key by an HMAC, if there is a secret.
func (r *Recorder) masked(hash uint32) uint32 {
	if len(r.secret) == 0 {
		return hash
	}
	return binary.BigEndian.Uint32(r.sum(binary.BigEndian.AppendUint32(nil, hash)))
}

// sum returns the HMAC-SHA256 of data by the secret.
func (r *Recorder) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, r.secret)
	mac.Write(data)
	return mac.Sum(nil)
}
