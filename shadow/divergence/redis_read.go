package divergence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Acked implements Ledger.
func (l *RedisLedger) Acked(ctx context.Context, id ID, writer Writer) (Ack, error) {
	values, err := l.rdb.HMGet(ctx, l.key(id, "folded"), writer.String()).Result()
	if err != nil {
		return Ack{}, fmt.Errorf("divergence: read acks: %w", humanize.Discreet(err))
	}

	text, known := values[0].(string)

	// No fold has named the writer yet, which is no error: nothing of it is counted.
	if !known {
		return Ack{}, nil
	}
	ack, err := parseAck(text)
	if err != nil {
		return Ack{}, fmt.Errorf("divergence: read acks: %s: %w", l.key(id, "folded"), err)
	}
	return ack, nil
}

// Hours implements Ledger in one pipeline.
//
// One entry that cannot be read fails the whole read, so that the gate never judges evidence with a hole that it does
// not know of. Until the entry expires or is deleted, the policy has no verdict; the error names the key.
func (l *RedisLedger) Hours(ctx context.Context, id ID, from, to int64) (Page, error) {
	pipe := l.rdb.Pipeline()

	// HGET would answer a missing field with the error redis.Nil, which Exec would return for the whole pipeline.
	mark := pipe.HMGet(ctx, l.key(id, "folded"), markField)
	hours := l.askHours(ctx, pipe, id, from, to)
	if _, err := pipe.Exec(ctx); err != nil {
		return Page{}, fmt.Errorf("divergence: read ledger: %w", humanize.Discreet(err))
	}

	text, _ := mark.Val()[0].(string)
	page, err := l.page(id, text, hours)
	if err != nil {
		return Page{}, fmt.Errorf("divergence: read ledger: %w", err)
	}
	return page, nil
}

// askedHours are the hours that a pipeline asks for.
type askedHours struct {
	from int64
	cmds []*redis.SliceCmd
}

// askHours asks for hours, both included, in one round trip with what the caller asks besides.
func (l *RedisLedger) askHours(ctx context.Context, pipe redis.Pipeliner, id ID, from, to int64) askedHours {
	// A caller may ask for all time, and expired hours are not worth a command each.
	asked := askedHours{from: max(from, to-KeptDays*HoursPerDay)}
	for hour := asked.from; hour <= to; hour++ {
		asked.cmds = append(asked.cmds, pipe.HMGet(ctx, l.hourKey(id, hour), FleetWriter))
	}
	return asked
}

// page reads what a pipeline has answered.
func (l *RedisLedger) page(id ID, mark string, asked askedHours) (page Page, err error) {
	if mark != "" {
		if err := json.Unmarshal([]byte(mark), &page.Mark); err != nil {
			return Page{}, fmt.Errorf("%s: %w", l.key(id, "folded"), err)
		}
	}

	for i, cmd := range asked.cmds {
		text, stored := cmd.Val()[0].(string)
		if !stored {
			continue
		}

		hour := asked.from + int64(i)
		var p packedHour
		var h Hour
		err := json.Unmarshal([]byte(text), &p)
		if err == nil {
			h, err = p.unpack(hour)
		}
		if err != nil {
			return Page{}, fmt.Errorf("%s: %w", l.hourKey(id, hour), err)
		}
		page.Hours = append(page.Hours, h)
	}

	return page, nil
}

// readings bounds how often Evidence reads again. Judges fold once a minute.
const readings = 5

// Evidence implements Ledger. A fold between its commands would count a batch twice or never, so it reads again until the
// last fold is the same at the beginning and the end of the pipeline. A writer seals a batch only after a fold, so that
// what it writes meanwhile does no harm.
func (l *RedisLedger) Evidence(ctx context.Context, id ID, from, to int64) (Evidence, error) {
	for range readings {
		pipe := l.rdb.Pipeline()
		acks := pipe.HGetAll(ctx, l.key(id, "folded"))
		records := pipe.HGetAll(ctx, l.key(id, "open"))
		hours := l.askHours(ctx, pipe, id, from, to)
		after := pipe.HMGet(ctx, l.key(id, "folded"), foldField)
		if _, err := pipe.Exec(ctx); err != nil {
			return Evidence{}, fmt.Errorf("divergence: read ledger: %w", humanize.Discreet(err))
		}

		if fold, _ := after.Val()[0].(string); fold != acks.Val()[foldField] {
			continue
		}
		e, err := l.evidence(id, acks.Val(), records.Val(), hours)
		if err != nil {
			return Evidence{}, fmt.Errorf("divergence: read ledger: %w", err)
		}
		return e, nil
	}

	return Evidence{}, fmt.Errorf("divergence: read ledger: it was folded %d times while it was read", readings)
}

// evidence reads what a pipeline has answered.
func (l *RedisLedger) evidence(id ID, acks, records map[string]string, hours askedHours) (Evidence, error) {
	page, err := l.page(id, acks[markField], hours)
	if err != nil {
		return Evidence{}, err
	}

	// An ack that cannot be read fails the read: without it a folded batch would count once more.
	e := Evidence{Page: page, Acks: map[string]Ack{}, Records: map[string]Record{}}
	for writer, text := range acks {
		if writer == foldField || writer == markField {
			continue
		}
		if e.Acks[writer], err = parseAck(text); err != nil {
			return Evidence{}, fmt.Errorf("%s: %w", l.key(id, "folded"), err)
		}
	}

	// A record that cannot be read fails it, too. Its instance would be missing from the counts without a trace.
	for writer, text := range records {
		var p packedRecord
		err := json.Unmarshal([]byte(text), &p)
		if err == nil {
			e.Records[writer], err = p.unpack()
		}
		if err != nil {
			return Evidence{}, fmt.Errorf("%s: %w", l.key(id, "open"), err)
		}
	}

	return e, nil
}

// Top implements Ledger in one pipeline.
//
// One list that cannot be read fails the whole read: the counts of the others would look complete, and a key could be
// missing without a trace.
func (l *RedisLedger) Top(ctx context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error) {
	// A caller may ask for all time, and each day is a command.
	from = max(from, to-KeptDays)
	pipe := l.rdb.Pipeline()

	// What a fold moves from one list to another is read after what it says of their writers.
	folded := pipe.HGetAll(ctx, l.key(id, "folded"))
	var days []*redis.MapStringStringCmd
	for day := from; day <= to; day++ {
		days = append(days, pipe.HGetAll(ctx, l.topKey(id, kind, day)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("divergence: top keys: %w", humanize.Discreet(err))
	}

	e, err := l.evidence(id, folded.Val(), nil, askedHours{})
	var lists [][]KeyCount
	for i, day := range days {
		all := map[string]Lists{}
		err = errors.Join(err, readLists(all, kind, day.Val()))
		for _, counted := range countedLists(all, from+int64(i), e.Mark, e.Acks) {
			lists = append(lists, counted[kind])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("divergence: top keys: %w", err)
	}

	return MergeTop(topWritten, lists...), nil
}

// Lists implements Ledger in one pipeline.
func (l *RedisLedger) Lists(ctx context.Context, id ID, day int64) (map[string]Lists, error) {
	pipe := l.rdb.Pipeline()
	var cmds [keyKinds]*redis.MapStringStringCmd
	for kind := range cmds {
		cmds[kind] = pipe.HGetAll(ctx, l.topKey(id, KeyKind(kind), day))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("divergence: read lists: %w", humanize.Discreet(err))
	}

	all := map[string]Lists{}
	for kind, cmd := range cmds {
		if err := readLists(all, KeyKind(kind), cmd.Val()); err != nil {
			return nil, fmt.Errorf("divergence: read lists: %w", err)
		}
	}
	return all, nil
}

// readLists adds the lists of one kind to those of their writers.
func readLists(all map[string]Lists, kind KeyKind, texts map[string]string) error {
	for writer, text := range texts {
		var list []KeyCount
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return err
		}
		lists := all[writer]
		lists[kind] = list
		all[writer] = lists
	}
	return nil
}
