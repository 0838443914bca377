package divergence

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"
)

// repeatAfter is how long a written field counts as there. A Redis that has lost its data gets it again after that.
const repeatAfter = time.Hour

// recent is the text of each field that this process has written, by names of keys and fields. A field that has not changed
// is not written, and a key's time to live is set once an hour.
type recent struct {
	mu      sync.Mutex
	done    map[string]written
	cleared time.Time
}

// written is a value by its hash, 0 for a time to live.
type written struct {
	hash uint64
	at   time.Time
}

// has reports whether a name was written with this value, and not too long ago.
func (r *recent) has(name string, w written) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	last, known := r.done[name]
	return known && last.hash == w.hash && w.at.Sub(last.at) < repeatAfter
}

// note notes a written field, or that it is not known: then it is written again.
func (r *recent) note(done map[string]written, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.done == nil {
		r.done = map[string]written{}
	}
	for name, w := range done {
		if err != nil {
			delete(r.done, name)
			continue
		}
		r.done[name] = w

		// Most keys belong to an hour or a day, and are not written again: forgetting them bounds the memory.
		if w.at.Sub(r.cleared) >= repeatAfter {
			r.cleared = w.at
			maps.DeleteFunc(r.done, func(_ string, old written) bool { return w.at.Sub(old.at) >= repeatAfter })
		}
	}
}

// writing is one pipeline of a writer.
type writing struct {
	ledger *RedisLedger
	pipe   redis.Pipeliner
	writer string
	now    time.Time
	done   map[string]written
	err    error // of the first value that JSON cannot carry
}

// put writes a value into the writer's field of a hash, unless it stands there.
func (w *writing) put(ctx context.Context, key string, value any, ttl time.Duration) {
	text, err := json.Marshal(value)
	if err != nil {
		w.err = cmp.Or(w.err, err)
		return
	}

	if w.due(key+"\x00"+w.writer, xxhash.Sum64(text)) {
		w.pipe.HSet(ctx, key, w.writer, text)
		w.expire(ctx, key, ttl)
	}
}

// expire sets a key's time to live, once an hour.
func (w *writing) expire(ctx context.Context, key string, ttl time.Duration) {
	if w.due(key, 0) {
		w.pipe.Expire(ctx, key, ttl)
	}
}

// due reports whether to write a value, and notes it.
func (w *writing) due(name string, hash uint64) bool {
	value := written{hash, w.now}
	if w.ledger.recent.has(name, value) {
		return false
	}

	if w.done == nil {
		w.done = map[string]written{}
	}
	w.done[name] = value
	return true
}

// exec sends the pipeline.
func (w *writing) exec(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	_, err := w.pipe.Exec(ctx)
	w.ledger.recent.note(w.done, err)
	return err
}
