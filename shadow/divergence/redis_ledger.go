package divergence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// KeptDays is how many days a ledger remembers.
const KeptDays = 32

// RedisLedger is the ledger of a fleet. The keys of a policy share a hash tag and begin with
// shadowlimit:{name:policy}:ledger:EPOCH. They are
//
//   - :hour:N, a hash of instances to their hours,
//   - :top:KIND:N, a hash of instances to the frequent keys of their day,
//   - :keys:KIND, a HyperLogLog,
//   - :ticks:N, a hash of instances to their ticks.
//
// They expire 33 days after the last write, ticks after two hours.
type RedisLedger struct {
	rdb  redis.UniversalClient
	name string
}

var _ Ledger = (*RedisLedger)(nil)

// NewRedisLedger returns the ledger of the services with this name.
func NewRedisLedger(rdb redis.UniversalClient, name string) *RedisLedger {
	return &RedisLedger{rdb: rdb, name: name}
}

// Times to live, set again with every write. A day more than KeptDays covers an entry that was written early on its
// day. Triggers look back for minutes only, so ticks expire much sooner (decision 0308).
const (
	ledgerTTL = (KeptDays + 1) * HoursPerDay * time.Hour
	ticksTTL  = 2 * time.Hour
)

// key returns a key of an ID. The braces are a hash tag: all keys of a policy lie in one slot of a cluster, so that one
// pipeline goes to one server.
func (l *RedisLedger) key(id ID, what string) string {
	return "shadowlimit:{" + l.name + ":" + id.Policy + "}:ledger:" + id.Epoch + ":" + what
}

func (l *RedisLedger) hourKey(id ID, hour int64) string {
	return l.key(id, "hour:"+strconv.FormatInt(hour, 10))
}

func (l *RedisLedger) topKey(id ID, kind KeyKind, day int64) string {
	return l.key(id, "top:"+kind.String()+":"+strconv.FormatInt(day, 10))
}

func (l *RedisLedger) ticksKey(id ID, bucket int64) string {
	return l.key(id, "ticks:"+strconv.FormatInt(bucket, 10))
}

func (l *RedisLedger) keysKey(id ID, kind KeyKind) string { return l.key(id, "keys:"+kind.String()) }

// Write implements Ledger in one pipeline.
func (l *RedisLedger) Write(ctx context.Context, id ID, instance string, s *Snapshot) error {
	writer := s.writer(instance)
	pipe := l.rdb.Pipeline()
	put := func(key string, value any, ttl time.Duration) error {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("divergence: write ledger: %w", err)
		}

		pipe.HSet(ctx, key, writer, text)
		pipe.Expire(ctx, key, ttl)
		return nil
	}

	for i := range s.Hours {
		if err := put(l.hourKey(id, s.Hours[i].Unix), packed(&s.Hours[i]), ledgerTTL); err != nil {
			return err
		}
	}
	for bucket, ticks := range bucketsOf(s.Ticks) {
		if err := put(l.ticksKey(id, bucket), ticks, ticksTTL); err != nil {
			return err
		}
	}

	// Most kinds are empty most of the time: an empty list would be a key in Redis for each day.
	for kind := range KeyKind(keyKinds) {
		if len(s.Tops[kind]) > 0 {
			if err := put(l.topKey(id, kind, s.Day), s.Tops[kind], ledgerTTL); err != nil {
				return err
			}
		}
		if len(s.Keys[kind]) > 0 {
			key := l.keysKey(id, kind)
			pipe.PFAdd(ctx, key, elements(s.Keys[kind])...)
			pipe.Expire(ctx, key, ledgerTTL)
		}
	}

	if _, err := pipe.Exec(ctx); err != nil {
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

// Hours implements Ledger in one pipeline.
//
// One entry that cannot be read fails the whole read, so that the gate never judges evidence with a hole that it does
// not know of. Until the entry expires or is deleted, the policy has no verdict; the error names the key.
func (l *RedisLedger) Hours(ctx context.Context, id ID, from, to int64) ([]Hour, error) {
	// A caller may ask for all time, and expired hours are not worth a command each.
	from = max(from, to-KeptDays*HoursPerDay)
	pipe := l.rdb.Pipeline()
	for hour := from; hour <= to; hour++ {
		pipe.HGetAll(ctx, l.hourKey(id, hour))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("divergence: read ledger: %w", humanize.Discreet(err))
	}

	var out []Hour
	for i, cmd := range cmds {
		hour := from + int64(i)
		for _, text := range cmd.(*redis.MapStringStringCmd).Val() {
			h, err := parseHour(text, hour)
			if err != nil {
				return nil, fmt.Errorf("divergence: read ledger: %s: %w", l.hourKey(id, hour), err)
			}
			out = append(out, h)
		}
	}

	return out, nil
}

func parseHour(text string, hour int64) (Hour, error) {
	var p packedHour
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Hour{}, err
	}
	return p.unpack(hour)
}

// Ticks implements Ledger in one pipeline.
//
// It skips an entry that cannot be read: the fast triggers must go on protecting clients with what the other instances
// saw.
func (l *RedisLedger) Ticks(ctx context.Context, id ID, from, to int64) ([]Tick, error) {
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
				all = append(all, ticks[i].unpack())
			}
		}
	}

	return JoinTicks(all), nil
}

// Distinct implements Ledger by HyperLogLogs: bounded memory, and hashes that are sent twice count once (decision 0303).
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

// Top implements Ledger in one pipeline.
//
// One list that cannot be read fails the whole read: the counts of the others would look complete, and a key could be
// missing without a trace.
func (l *RedisLedger) Top(ctx context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error) {
	from = max(from, to-KeptDays)
	pipe := l.rdb.Pipeline()
	for day := from; day <= to; day++ {
		pipe.HVals(ctx, l.topKey(id, kind, day))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("divergence: top keys: %w", humanize.Discreet(err))
	}

	var lists [][]KeyCount
	for _, cmd := range cmds {
		for _, text := range cmd.(*redis.StringSliceCmd).Val() {
			var list []KeyCount
			if e := json.Unmarshal([]byte(text), &list); e != nil {
				err = errors.Join(err, e)
			}
			lists = append(lists, list)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("divergence: top keys: %w", err)
	}

	return MergeTop(topWritten, lists...), nil
}
