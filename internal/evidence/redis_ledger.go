package evidence

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/redisread"
)

var (
	//go:embed add.lua
	addText   string
	addScript = redis.NewScript(addText)

	//go:embed store.lua
	storeText   string
	storeScript = redis.NewScript(storeText)
)

// RedisLedger is the ledger of a fleet. The keys of a policy share a hash tag and begin with
// {name:policy}:ledger:EVIDENCE:, behind algorithms.KeyPrefix:
//
//	slot:N                  a hash, the counts of minute N since 1970; until 3 h after the end of its hour
//	changes                 a sorted set, minutes by the number of their last change; 6 h after the last new one
//	writer:ID               the number of a writer's last batch; 3 h after it
//	hour:N                  a hash, the hour N since 1970 and its last change; 40 days
//	top:KIND, errors:KIND   sorted sets, the 300 keys counted most often, and how much too high a count may be; 40 days
//	keys:KIND               a HyperLogLog of distinct keys; 40 days
//
// A key with more than 100,000 fields, or of more than 64 MiB, is not sent to a reader: no service writes as much. A field that
// cannot be read fails the history of its policy, with the key in the error; triggers go on with the other fields.
type RedisLedger struct {
	rdb  redis.UniversalClient
	name string
}

var _ Ledger = (*RedisLedger)(nil)

// NewRedisLedger returns the ledger of the services with this name. The client stays the caller's: the ledger does not
// close it.
func NewRedisLedger(rdb redis.UniversalClient, name string) *RedisLedger {
	return &RedisLedger{rdb: rdb, name: name}
}

// key returns a key of an ID. The braces are a hash tag: all keys of a policy lie in one slot of a cluster, so that a script may
// have them.
func (l *RedisLedger) key(id ID, what string) string {
	return algorithms.KeyPrefix + "{" + l.name + ":" + id.Policy + "}:ledger:" + id.Evidence + ":" + what
}

func (l *RedisLedger) slotKey(id ID, minute int64) string {
	return l.key(id, "slot:"+strconv.FormatInt(minute, 10))
}

func (l *RedisLedger) hourKey(id ID, hour int64) string {
	return l.key(id, "hour:"+strconv.FormatInt(hour, 10))
}

func (l *RedisLedger) topKey(id ID, kind KeyKind) string { return l.key(id, "top:"+kind.String()) }

func (l *RedisLedger) errorsKey(id ID, kind KeyKind) string {
	return l.key(id, "errors:"+kind.String())
}

func (l *RedisLedger) keysKey(id ID, kind KeyKind) string { return l.key(id, "keys:"+kind.String()) }

// Add implements Ledger in one script. A HyperLogLog counts a hash that is sent twice once, so hashes need no number: they follow
// in a pipeline, which does not make the script longer.
func (l *RedisLedger) Add(ctx context.Context, id ID, b *Batch) (int, error) {
	keys, args := l.addition(id, b)
	dropped, err := addScript.Run(ctx, l.rdb, keys, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("evidence: write ledger: %w", humanize.Discreet(err))
	}

	pipe := l.rdb.Pipeline()
	for kind, hashes := range b.Keys {
		if len(hashes) > 0 {
			key := l.keysKey(id, KeyKind(kind))
			pipe.PFAdd(ctx, key, elements(hashes)...)
			pipe.Expire(ctx, key, hoursLive)
		}
	}
	if pipe.Len() == 0 {
		return dropped, nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("evidence: write ledger: %w", humanize.Discreet(err))
	}
	return dropped, nil
}

// addition returns the keys and arguments of the script.
func (l *RedisLedger) addition(id ID, b *Batch) (keys []string, args []any) {
	keys = []string{l.key(id, "writer:"+b.Writer), l.key(id, "changes")}
	args = []any{
		b.Seq, seconds(writersLive), seconds(takesFor), seconds(aheadFor), seconds(slotsLive), changesKept, topKept,
		seconds(hoursLive), len(b.Slots),
	}
	for i := range b.Slots {
		s := &b.Slots[i]
		keys = append(keys, l.slotKey(id, s.Unix))
		args = append(args, s.Unix)

		counts := s.counters()
		for i := range s.Ticks {
			counts = append(counts, tickCounters(&s.Ticks[i])...)
		}
		counts = slices.DeleteFunc(counts, func(c counter) bool { return *c.n == 0 })
		args = append(args, len(counts))
		for _, c := range counts {
			args = append(args, c.name, *c.n)
		}
		ofKeys := s.keyCounters()
		args = append(args, len(ofKeys))
		for _, c := range ofKeys {
			args = append(args, c.group, c.most, c.key, c.n)
		}
		sets := s.hashes()
		args = append(args, len(sets))
		for _, h := range sets {
			args = append(args, h.name, h.width, h.most, h.text)
		}
	}

	for kind, list := range b.Tops {
		if len(list) == 0 {
			continue
		}
		keys = append(keys, l.topKey(id, KeyKind(kind)), l.errorsKey(id, KeyKind(kind)))
		args = append(args, len(list))
		for _, k := range list {
			args = append(args, k.Key, k.Count, k.Error)
		}
	}
	return keys, args
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// elements writes hashes as texts: another one would count each key again.
func elements(hashes []uint64) []any {
	list := make([]any, len(hashes))
	for i, hash := range hashes {
		list[i] = strconv.FormatUint(hash, 36)
	}
	return list
}

// lastChange bounds the numbers of changes, which are microseconds: one beyond it is another program's, and add.lua takes it away.
const lastChange = 1<<52 - 1

// together is how many slots or hours one script reads: others need the server meanwhile, and the bound is of all of them.
const together = 100

// Slots implements Ledger: first what has changed, and then these slots.
func (l *RedisLedger) Slots(ctx context.Context, id ID, from, since int64) ([]Slot, int64, error) {
	changes, err := l.read(ctx, redisread.Query{
		"ZREVRANGEBYSCORE", l.key(id, "changes"), strconv.FormatInt(lastChange, 10), strconv.FormatInt(since, 10), "WITHSCORES",
		"LIMIT", "0", strconv.Itoa(changesKept),
	})
	if err == nil {
		err = changes[0].Err
	}
	if err != nil {
		return nil, 0, fmt.Errorf("evidence: read ledger: %w", humanize.Discreet(err))
	}

	var slots []Slot
	last := int64(0)
	for member, score := range changes[0].Pairs {
		minute, err := strconv.ParseInt(member, 10, 64)
		number, failed := strconv.ParseFloat(score, 64)
		if err != nil || failed != nil || minute < 0 {
			continue // of another program: no writer has named a slot so
		}
		last = max(last, int64(number))
		if minute >= from {
			slots = append(slots, Slot{Minute: Minute{Unix: minute}, Change: int64(number)})
		}
	}

	for some := range slices.Chunk(slots, together) {
		var queries []redisread.Query
		for i := range some {
			queries = append(queries, redisread.Query{"HGETALL", l.slotKey(id, some[i].Unix)})
		}
		// A key of another kind fails the slot, and a read that fails all of them.
		replies, err := l.read(ctx, queries...)
		if err != nil {
			return nil, 0, fmt.Errorf("evidence: read ledger: %w", humanize.Discreet(err))
		}
		for i, r := range replies {
			minute, change := some[i].Unix, some[i].Change
			some[i] = slotOf(minute, maps.Collect(r.Pairs))
			some[i].Change = change
			if some[i].Err != nil {
				some[i].Err = fmt.Errorf("%s: %w", l.slotKey(id, minute), some[i].Err)
			}
			some[i].Err = cmp.Or(r.Err, some[i].Err)
		}
	}
	slices.SortFunc(slots, func(a, b Slot) int { return cmp.Compare(a.Unix, b.Unix) })
	return slots, last, nil
}

// read reads keys of one policy.
func (l *RedisLedger) read(ctx context.Context, queries ...redisread.Query) ([]redisread.Reply, error) {
	replies, _, err := redisread.Read(ctx, l.rdb, queries...)
	return replies, err
}

// Store implements Ledger.
func (l *RedisLedger) Store(ctx context.Context, id ID, h *Hour, change int64) error {
	text, err := json.Marshal(packed(h))
	if err == nil {
		keys := []string{l.hourKey(id, h.Unix)}
		err = humanize.Discreet(storeScript.Run(ctx, l.rdb, keys, change, text, gone(h.Unix).Unix(), seconds(hoursLive)).Err())
	}
	if err != nil {
		return fmt.Errorf("evidence: store hour: %w", err)
	}
	return nil
}

// Hours implements Ledger.
//
// One entry that cannot be read fails the whole read, so that the gate never judges evidence with a hole that it does
// not know of. Until the entry expires or is deleted, the policy has no verdict; the error names the key.
func (l *RedisLedger) Hours(ctx context.Context, id ID, from, to int64) (hours []Hour, err error) {
	// A caller may ask for all time, and expired hours are not worth a command each.
	from = max(from, to-int64(hoursLive/time.Hour))
	for ; from <= to; from += together {
		var queries []redisread.Query
		for hour := from; hour <= min(to, from+together-1); hour++ {
			queries = append(queries, redisread.Query{"HGET", l.hourKey(id, hour), "hour"})
		}
		replies, err := l.read(ctx, queries...)
		if err != nil {
			return nil, fmt.Errorf("evidence: read ledger: %w", humanize.Discreet(err))
		}
		for i, r := range replies {
			if r.Err != nil {
				return nil, fmt.Errorf("evidence: read ledger: %w", humanize.Discreet(r.Err))
			}
			text, stored := r.Value.(string)
			if !stored {
				continue
			}
			var p packedHour
			h, err := Hour{}, json.Unmarshal([]byte(text), &p)
			if err == nil {
				h, err = p.unpack(from + int64(i))
			}
			if err != nil {
				return nil, fmt.Errorf("evidence: read ledger: %s: %w", l.hourKey(id, from+int64(i)), err)
			}
			hours = append(hours, h)
		}
	}
	return hours, nil
}

// Distinct implements Ledger by HyperLogLogs: bounded memory, and hashes that are sent twice count once.
func (l *RedisLedger) Distinct(ctx context.Context, id ID) (n [keyKinds]int64, err error) {
	pipe := l.rdb.Pipeline()
	for kind := range KeyKind(keyKinds) {
		pipe.PFCount(ctx, l.keysKey(id, kind))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return n, fmt.Errorf("evidence: count keys: %w", humanize.Discreet(err))
	}
	for kind, cmd := range cmds {
		n[kind] = cmd.(*redis.IntCmd).Val()
	}
	return n, nil
}

// Top implements Ledger in one script.
func (l *RedisLedger) Top(ctx context.Context, id ID, kind KeyKind) ([]KeyCount, error) {
	most := strconv.Itoa(topKept - 1)
	replies, err := l.read(ctx, redisread.Query{"ZREVRANGE", l.topKey(id, kind), "0", most, "WITHSCORES"},
		redisread.Query{"ZREVRANGE", l.errorsKey(id, kind), "0", most, "WITHSCORES"})
	if err == nil {
		err = cmp.Or(replies[0].Err, replies[1].Err)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: top keys: %w", humanize.Discreet(err))
	}

	of := map[string]int64{}
	for key, score := range replies[1].Pairs {
		n, _ := strconv.ParseFloat(score, 64)
		of[key] = int64(n)
	}
	var list []KeyCount
	for key, score := range replies[0].Pairs {
		n, err := strconv.ParseFloat(score, 64)
		if err != nil || n != float64(int64(n)) || !believed(int64(n), of[key]) {
			return nil, fmt.Errorf("evidence: top keys: %s: a count of %s cannot be read", l.topKey(id, kind), score)
		}
		list = append(list, KeyCount{Key: key, Count: int64(n), Error: of[key]})
	}
	return MergeTop(topWritten, list), nil
}
