package divergence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// keptDays is how long the ledger remembers.
const keptDays = 32

// RedisLedger is the ledger of a fleet. Every policy's keys share a hash tag:
// shadowlimit:{name:policy}:ledger:EPOCH:hour:N is a hash of instances to their
// hours, :top:KIND:N one of instances to their day's frequent keys, :keys:KIND a
// HyperLogLog; they expire 33 days after they were written last. :ticks:N is one of
// instances to their ticks, and expires after two hours.
type RedisLedger struct {
	rdb  redis.UniversalClient
	name string
}

var _ Ledger = (*RedisLedger)(nil)

// NewRedisLedger returns the ledger of the services of that name.
func NewRedisLedger(rdb redis.UniversalClient, name string) *RedisLedger {
	return &RedisLedger{rdb: rdb, name: name}
}

const (
	ledgerTTL = (keptDays + 1) * HoursPerDay * time.Hour
	ticksTTL  = 2 * time.Hour
)

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
	pipe := l.rdb.Pipeline()
	put := func(key string, value any, ttl time.Duration) error {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("divergence: write ledger: %w", err)
		}
		pipe.HSet(ctx, key, s.writer(instance), text)
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
		return fmt.Errorf("divergence: write ledger: %w", err)
	}
	return nil
}

func elements(hashes []uint64) []any {
	list := make([]any, len(hashes))
	for i, hash := range hashes {
		list[i] = strconv.FormatUint(hash, 36)
	}
	return list
}

// Hours implements Ledger in one pipeline.
func (l *RedisLedger) Hours(ctx context.Context, id ID, from, to int64) ([]Hour, error) {
	from = max(from, to-keptDays*HoursPerDay)
	pipe := l.rdb.Pipeline()
	for hour := from; hour <= to; hour++ {
		pipe.HGetAll(ctx, l.hourKey(id, hour))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("divergence: read ledger: %w", err)
	}
	var out []Hour
	for i, cmd := range cmds {
		for _, text := range cmd.(*redis.MapStringStringCmd).Val() {
			var p packedHour
			err := json.Unmarshal([]byte(text), &p)
			if err == nil {
				var h Hour
				if h, err = p.unpack(from + int64(i)); err == nil {
					out = append(out, h)
				}
			}
			if err != nil {
				return nil, fmt.Errorf("divergence: read ledger: %s: %w", l.hourKey(id, from+int64(i)), err)
			}
		}
	}
	return out, nil
}

// Ticks implements Ledger in one pipeline.
func (l *RedisLedger) Ticks(ctx context.Context, id ID, from, to int64) ([]Tick, error) {
	pipe := l.rdb.Pipeline()
	for bucket := max(from, to-int64(ticksTTL/time.Second)/BucketSeconds); bucket <= to; bucket++ {
		pipe.HVals(ctx, l.ticksKey(id, bucket))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("divergence: read ticks: %w", err)
	}
	var all []Tick
	for _, cmd := range cmds {
		for _, text := range cmd.(*redis.StringSliceCmd).Val() {
			var ticks []packedTick
			if json.Unmarshal([]byte(text), &ticks) != nil {
				continue // what no instance of ours has written must not hide what others saw
			}
			for i := range ticks {
				all = append(all, ticks[i].unpack())
			}
		}
	}
	return JoinTicks(all), nil
}

// Distinct implements Ledger.
func (l *RedisLedger) Distinct(ctx context.Context, id ID) (n [keyKinds]int64, err error) {
	pipe := l.rdb.Pipeline()
	for kind := range KeyKind(keyKinds) {
		pipe.PFCount(ctx, l.keysKey(id, kind))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return n, fmt.Errorf("divergence: count keys: %w", err)
	}
	for kind, cmd := range cmds {
		n[kind] = cmd.(*redis.IntCmd).Val()
	}
	return n, nil
}

// Top implements Ledger.
func (l *RedisLedger) Top(ctx context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error) {
	from = max(from, to-keptDays)
	pipe := l.rdb.Pipeline()
	for day := from; day <= to; day++ {
		pipe.HVals(ctx, l.topKey(id, kind, day))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("divergence: top keys: %w", err)
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
