package divergence

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Snapshot is what one instance writes to the ledger: its whole open hours so far, the day's most frequent keys so far,
// and hashes of keys that may be new. It may be written any number of times.
type Snapshot struct {
	Hours []Hour
	// Incarnation is part of the instance's name in the ledger, unless it is 0. When the clock goes back, the recorder
	// begins a new one: it must not overwrite the hours that it wrote before.
	Incarnation int64
	// Day is the day of Tops, counted from the Unix epoch.
	Day int64
	// Tops are the most frequent keys by KeyKind, masked if there is a secret.
	Tops [keyKinds][]KeyCount
	// Keys are hashes by KeyKind that the ledger may not have counted yet.
	Keys [keyKinds][]uint64
	// Ticks of the current entry of the ledger and of the one before, in order.
	Ticks []Tick
}

const (
	topWritten   = 100          // keys of each kind that a snapshot carries
	unsentHashes = 64 * 1 << 10 // of each kind, kept over failed writes: 512 KiB
)

// Snapshot returns what to write at an instant of the store's clock. The instance counts as present in every minute
// since the last Snapshot, unless that is more than 10 minutes ago. Call Commit or Abandon after the write.
func (r *Recorder) Snapshot(now time.Time) *Snapshot {
	r.flush.Lock()
	defer r.flush.Unlock()

	// The clock has gone back to an hour that this instance has already written and dropped.
	if now.Unix()/SecondsPerHour < r.closed {
		r.beginIncarnation()
	}

	r.notePresence(now.Unix() / SecondsPerMinute)

	// Frequent keys belong to the day on which their lists began, until a Commit on a later day.
	if r.day == 0 {
		r.day = now.Unix() / SecondsPerDay
	}

	// An hour without requests is written too: the instance was present.
	out := &Snapshot{Day: r.day, Incarnation: r.incarnation}
	hours := map[int64]*Hour{}
	for hour, live := range r.live {
		hours[hour] = &Hour{Unix: hour, Live: live}
	}

	// Open hours are copied whole each time. A snapshot that is lost or repeated then changes nothing.
	var tops [keyKinds][][]KeyCount
	for i := range r.stripes {
		r.stripes[i].collect(hours, &tops, &r.unsent)
	}

	for _, h := range hours {
		out.Hours = append(out.Hours, *h)
	}
	slices.SortFunc(out.Hours, func(a, b Hour) int { return cmp.Compare(a.Unix, b.Unix) })
	out.Ticks = r.ticks(now)

	// The hashes are copied, because the recorder goes on appending while the snapshot is written.
	for kind := range out.Tops {
		out.Tops[kind] = MergeTop(topWritten, tops[kind]...)
		r.unsent[kind] = r.unsent[kind][:min(len(r.unsent[kind]), unsentHashes)]
		out.Keys[kind] = slices.Clone(r.unsent[kind])
	}

	// The texts that JSON cannot carry are quoted last: an HMAC is of the key itself.
	r.mask(out)
	for _, list := range out.Tops {
		for i := range list {
			list[i].Key = jsonSafe(list[i].Key)
		}
	}

	return out
}

// ticks returns the ticks of the current entry of the ledger and of the one before.
func (r *Recorder) ticks(now time.Time) []Tick {
	var all []Tick
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.recent.dropBefore((now.Unix()/BucketSeconds - 1) * FreshTicks)
		for _, t := range s.recent.ticks {
			all = append(all, t.clone())
		}
		s.mu.Unlock()
	}

	// A key belongs to one stripe, so the heaviest of all stripes are the heaviest of this instance.
	joined := JoinTicks(all)
	for i := range joined {
		t := &joined[i]
		t.Denied = r.heaviest(t.Denied)
		t.Allowed = r.heaviest(t.Allowed)
	}

	return joined
}

// heaviest returns the keys that a tick in the ledger names.
func (r *Recorder) heaviest(all Weights) Weights {
	top := all.Top(heaviest)
	for i := range top {
		top[i].Key = r.masked(top[i].Key)
	}
	return top
}

// jsonSafe quotes a key that is not UTF-8: JSON would replace its bytes, and different keys would become equal.
func jsonSafe(key string) string {
	if utf8.ValidString(key) {
		return key
	}
	return strconv.QuoteToASCII(key)
}

// Restart forgets everything that waits for the ledger, so that the evidence begins again. Totals stay.
func (r *Recorder) Restart() {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.beginIncarnation()
	r.day = 0
	for kind := range r.unsent {
		r.unsent[kind] = nil
	}

	// Totals are metrics, which must not go down.
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.tops = [keyKinds]*top{}
		s.fresh = [keyKinds][]uint64{}
		s.sent = [keyKinds][sentHashes]uint64{}
		s.recent = ticking{}
		s.mu.Unlock()
	}
}

// beginIncarnation makes later snapshots write beside the earlier ones. Counts since the last write are lost.
// Requires r.flush.
func (r *Recorder) beginIncarnation() {
	r.incarnation++
	r.closed = 0
	r.liveTill = 0
	clear(r.live)

	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.hours = nil
		s.closed = 0
		s.recent = ticking{}
		s.mu.Unlock()
	}
}

// longestNap is the longest time between two snapshots, in minutes, in which the instance counts as present. After a
// longer one it was suspended, or the clock has jumped.
const longestNap = 10

// notePresence marks the minutes since the last call.
func (r *Recorder) notePresence(minute int64) {
	from := r.liveTill + 1
	if minute-r.liveTill > longestNap {
		from = minute
	}

	// After a clock that went back a little, from is later than minute, and nothing is noted twice.
	for m := from; m <= minute; m++ {
		r.live[m/MinutesPerHour] |= 1 << (m % MinutesPerHour)
	}
	r.liveTill = max(r.liveTill, minute)
}

// collect adds a stripe's hours and frequent keys, and moves its new hashes.
func (s *stripe) collect(hours map[int64]*Hour, tops *[keyKinds][][]KeyCount, unsent *[keyKinds][]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, h := range s.hours {
		if hours[h.Unix] == nil {
			hours[h.Unix] = &Hour{Unix: h.Unix}
		}
		hours[h.Unix].join(h)
	}

	// Hashes move to the recorder, which keeps them until a write succeeds, and the stripe has room for new ones.
	for kind, t := range s.tops {
		if t != nil {
			tops[kind] = append(tops[kind], slices.Clone(t.slots))
		}
		unsent[kind] = append(unsent[kind], s.fresh[kind]...)
		s.fresh[kind] = s.fresh[kind][:0]
	}
}

// Commit reports that a snapshot was written. It closes all hours but the current one and the one before, and on a new
// day the lists of frequent keys start empty.
func (r *Recorder) Commit(s *Snapshot, now time.Time) {
	r.flush.Lock()
	defer r.flush.Unlock()

	for kind := range r.unsent {
		r.unsent[kind] = r.unsent[kind][:0]
	}

	// The hour before the current one stays open for observations that arrive late. The frequent keys of an old day
	// were just written for the last time.
	day := now.Unix() / SecondsPerDay
	r.closeHours(now.Unix()/SecondsPerHour - 1)
	if day != r.day {
		r.dropTops()
	}
	r.day = day
}

// Abandon reports that a snapshot could not be written, or that it is not known whether it was. Everything is kept for
// the next one, except hours beyond the memory bound.
func (r *Recorder) Abandon(now time.Time) {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.closeHours(now.Unix()/SecondsPerHour - openHours + 1)
}

// closeHours forgets the hours before one. Requires r.flush.
func (r *Recorder) closeHours(before int64) {
	newHour := before > r.closed
	r.closed = max(r.closed, before)
	for hour := range r.live {
		if hour < before {
			delete(r.live, hour)
		}
	}

	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.closed = r.closed
		s.hours = slices.DeleteFunc(s.hours, func(h *Hour) bool { return h.Unix < before })

		// Send all keys again once an hour: the ledger may have lost them.
		if newHour {
			s.sent = [keyKinds][sentHashes]uint64{}
		}
		s.mu.Unlock()
	}
}

// dropTops forgets the lists of frequent keys. Requires r.flush.
func (r *Recorder) dropTops() {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.tops = [keyKinds]*top{}
		s.mu.Unlock()
	}
}

// mask replaces keys by HMACs if there is a secret: a key by the text that the Redis pair stores for it, a hash by
// another hash. The hashes for a HyperLogLog stay: it cannot be read back.
func (r *Recorder) mask(s *Snapshot) {
	if len(r.secret) == 0 {
		return
	}

	for _, list := range s.Tops {
		for i := range list {
			list[i].Key = algorithms.StoredKey(list[i].Key, r.secret)
		}
	}

	for h := range s.Hours {
		for m := range s.Hours[h].Minutes {
			for _, sample := range s.Hours[h].Minutes[m].Keys {
				for i, hash := range sample {
					sample[i] = binary.BigEndian.Uint64(r.sum(binary.BigEndian.AppendUint64(nil, hash)))
				}
			}
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
