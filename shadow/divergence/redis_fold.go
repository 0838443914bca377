package divergence

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

var (
	//go:embed fold.lua
	foldText   string
	foldScript = redis.NewScript(foldText)
)

// Fields of the hash of acks that are no writer's. No instance has such a name.
const (
	foldField = "~fold" // Mark.Fold, which the script compares
	markField = "~mark" // the whole Mark, in JSON
)

// Fold implements Ledger in one script.
func (l *RedisLedger) Fold(ctx context.Context, id ID, f *Fold) error {
	s, err := l.foldOf(id, f)
	if err != nil {
		return fmt.Errorf("divergence: fold: %w", err)
	}

	stored, err := foldScript.Run(ctx, l.rdb, s.keys, s.args...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("divergence: fold: %w", humanize.Discreet(err))
	case stored == 0:
		return ErrFolded
	}
	return nil
}

// folding is what the script is sent.
type folding struct {
	keys  []string
	known map[string]int // numbers of keys
	args  []any
}

func (l *RedisLedger) foldOf(id ID, f *Fold) (*folding, error) {
	acks, records := l.key(id, "folded"), l.key(id, "open")
	s := &folding{keys: []string{acks, records}, known: map[string]int{acks: 1, records: 2}}
	mark, err := json.Marshal(f.Mark)
	if err != nil {
		return nil, err
	}
	s.args = append(s.args, f.Expect, f.Mark.Fold, mark, int64(ledgerTTL/time.Second))

	for i := range f.Hours {
		if err := s.put(l.hourKey(id, f.Hours[i].Unix), FleetWriter, packed(&f.Hours[i])); err != nil {
			return nil, err
		}
	}
	for day, lists := range f.Lists {
		for kind, list := range lists {
			if len(list) == 0 {
				continue
			}
			if err := s.put(l.topKey(id, KeyKind(kind), day), FleetWriter, list); err != nil {
				return nil, err
			}
		}
	}

	for writer, ack := range f.Acks {
		s.set(acks, writer, ack.String())
	}
	l.remove(s, id, f)
	return s, nil
}

func (l *RedisLedger) remove(s *folding, id ID, f *Fold) {
	for _, writer := range f.Forgotten {
		s.set(l.key(id, "folded"), writer, "")
	}
	for _, writer := range f.Removed {
		s.set(l.key(id, "open"), writer, "")
	}

	// Lists of days that are over are part of the fleet's now.
	for day, writers := range f.RemovedLists {
		for _, writer := range writers {
			for kind := range KeyKind(keyKinds) {
				s.set(l.topKey(id, kind, day), writer, "")
			}
		}
	}
}

// put stores a value as JSON.
func (s *folding) put(key, field string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		s.set(key, field, string(text))
	}
	return err
}

// set stores a text, or removes the field where it is empty.
func (s *folding) set(key, field, text string) {
	n := s.known[key]
	if n == 0 {
		s.keys = append(s.keys, key)
		n = len(s.keys)
		s.known[key] = n
	}
	s.args = append(s.args, n, field, text)
}
