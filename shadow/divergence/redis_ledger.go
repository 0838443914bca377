package divergence

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// KeptDays is how many days a ledger remembers.
const KeptDays = 32

// RedisLedger is the ledger of a fleet. The keys of a policy share a hash tag and begin with
// {name:policy}:ledger:EPOCH, behind algorithms.KeyPrefix. They are
//
//   - :open, a hash of writers to their records,
//   - :folded, a hash of writers to their last folded batch, and the Mark,
//   - :hour:N, a hash with the fleet's hour,
//   - :top:KIND:N, a hash of writers to the frequent keys of their day,
//   - :keys:KIND, a HyperLogLog,
//   - :ticks:N, a hash of writers to their ticks.
//
// They expire 33 days after the last write, ticks after two hours. docs/ledger.md has the fields.
type RedisLedger struct {
	rdb    redis.UniversalClient
	name   string
	recent recent
}

var _ Ledger = (*RedisLedger)(nil)

// NewRedisLedger returns the ledger of the services with this name. The client stays the caller's: the ledger does not
// close it.
func NewRedisLedger(rdb redis.UniversalClient, name string) *RedisLedger {
	return &RedisLedger{rdb: rdb, name: name}
}

// Times to live, set once an hour and with each fold. A day more than KeptDays covers an entry that was written early on its
// day. Triggers look back for minutes only, so ticks expire much sooner.
const (
	ledgerTTL = (KeptDays + 1) * HoursPerDay * time.Hour
	ticksTTL  = 2 * time.Hour
)

// key returns a key of an ID. The braces are a hash tag: all keys of a policy lie in one slot of a cluster, so that one
// pipeline goes to one server.
func (l *RedisLedger) key(id ID, what string) string {
	return algorithms.KeyPrefix + "{" + l.name + ":" + id.Policy + "}:ledger:" + id.Epoch + ":" + what
}

// hourKey names the hash of an hour, by its number since 1970.
func (l *RedisLedger) hourKey(id ID, hour int64) string {
	return l.key(id, "hour:"+strconv.FormatInt(hour, 10))
}

// topKey names the hash of a day's frequent keys of a kind.
func (l *RedisLedger) topKey(id ID, kind KeyKind, day int64) string {
	return l.key(id, "top:"+kind.String()+":"+strconv.FormatInt(day, 10))
}

// ticksKey names the hash of ten minutes of ticks.
func (l *RedisLedger) ticksKey(id ID, bucket int64) string {
	return l.key(id, "ticks:"+strconv.FormatInt(bucket, 10))
}

// keysKey names the count of distinct keys of a kind, which has no hour: an epoch has one.
func (l *RedisLedger) keysKey(id ID, kind KeyKind) string { return l.key(id, "keys:"+kind.String()) }

// Write implements Ledger in one pipeline.
func (l *RedisLedger) Write(ctx context.Context, id ID, instance string, s *Snapshot) error {
	w := &writing{ledger: l, pipe: l.rdb.Pipeline(), writer: s.writer(instance), now: time.Now()}
	w.put(ctx, l.key(id, "open"), packRecord(&s.Record), ledgerTTL)
	for bucket, ticks := range bucketsOf(s.Ticks) {
		w.put(ctx, l.ticksKey(id, bucket), ticks, ticksTTL)
	}

	// Most kinds are empty most of the time: an empty list would be a key in Redis for each day.
	for kind := range KeyKind(keyKinds) {
		if s.Whole && len(s.Tops[kind]) > 0 {
			w.put(ctx, l.topKey(id, kind, s.Day), s.Tops[kind], ledgerTTL)
		}
		if s.Whole && len(s.Keys[kind]) > 0 {
			key := l.keysKey(id, kind)
			w.pipe.PFAdd(ctx, key, elements(s.Keys[kind])...)
			w.expire(ctx, key, ledgerTTL)
		}
	}

	if err := w.exec(ctx); err != nil {
		return fmt.Errorf("divergence: write ledger: %w", humanize.Discreet(err))
	}
	return nil
}

// elements writes hashes as the HyperLogLog has always had them: another text would count each key again.
func elements(hashes []uint64) []any {
	list := make([]any, len(hashes))
	for i, hash := range hashes {
		list[i] = strconv.FormatUint(hash, 36)
	}
	return list
}

// Ticks implements Ledger in one pipeline.
//
// It skips an entry that cannot be read, or believed: the fast triggers must go on protecting clients with what the other instances
// saw.
func (l *RedisLedger) Ticks(ctx context.Context, id ID, from, to int64) ([]Tick, error) {
	// Each entry is a command, and those before the time to live have expired.
	from = max(from, to-int64(ticksTTL/time.Second)/BucketSeconds)
	pipe := l.rdb.Pipeline()
	for bucket := from; bucket <= to; bucket++ {
		pipe.HVals(ctx, l.ticksKey(id, bucket))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("divergence: read ticks: %w", humanize.Discreet(err))
	}

	var all []Tick
	for _, cmd := range cmds {
		for _, text := range cmd.(*redis.StringSliceCmd).Val() {
			var ticks []packedTick
			if json.Unmarshal([]byte(text), &ticks) != nil {
				continue
			}
			for i := range ticks {
				if t, ok := ticks[i].unpack(); ok {
					all = append(all, t)
				}
			}
		}
	}

	return JoinTicks(all), nil
}

// Distinct implements Ledger by HyperLogLogs: bounded memory, and hashes that are sent twice count once.
func (l *RedisLedger) Distinct(ctx context.Context, id ID) (n [keyKinds]int64, err error) {
	pipe := l.rdb.Pipeline()
	for kind := range KeyKind(keyKinds) {
		pipe.PFCount(ctx, l.keysKey(id, kind))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return n, fmt.Errorf("divergence: count keys: %w", humanize.Discreet(err))
	}

	for kind, cmd := range cmds {
		n[kind] = cmd.(*redis.IntCmd).Val()
	}

	return n, nil
}
