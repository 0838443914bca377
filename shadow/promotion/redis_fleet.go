package promotion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Beat implements Store; see beats. A plan is written before the beat that names it.
func (s *RedisStore) Beat(ctx context.Context, i Instance) error {
	text, plan, err := s.beats.encode(i)
	if err != nil {
		return fmt.Errorf("promotion: beat: %w", err)
	}
	pipe := s.rdb.Pipeline()
	if plan.text != nil {
		pipe.HSet(ctx, s.key("plans"), plan.digest, plan.text)
	}
	added := pipe.HSet(ctx, s.key("instances"), i.ID, text)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("promotion: beat: %w", humanize.Discreet(err))
	}

	// Where the beat before is gone, so are the plans: the next beat writes this one again.
	s.beats.wrote(plan, added.Val() == 0)
	return nil
}

// TryWrite asks for a write that changes nothing, and returns what Redis answers to it: nil if it takes writes.
func (s *RedisStore) TryWrite(ctx context.Context) error {
	// The key is never there, so XX stores nothing. Redis looks at its memory, its role and the user's rights before that.
	err := s.rdb.SetArgs(ctx, s.key("writable"), "", redis.SetArgs{Mode: "XX", TTL: time.Second}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("promotion: try a write: %w", humanize.Discreet(err))
	}
	return nil
}

// Leave implements Store.
func (s *RedisStore) Leave(ctx context.Context, id string) error {
	if err := s.rdb.HDel(ctx, s.key("instances"), id).Err(); err != nil {
		return fmt.Errorf("promotion: leave: %w", humanize.Discreet(err))
	}
	return nil
}

// Instances implements Store. It leaves out what cannot be read, and removes instances
// without a beat for SilentFor, because a crashed instance does not leave by itself.
func (s *RedisStore) Instances(ctx context.Context) ([]Instance, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	known, err := all[Instance](ctx, s, "instances")
	if err != nil {
		return nil, err
	}

	// An error does not matter here: the next read removes it, or one with write access.
	for _, i := range known {
		if !within(now, i.At, SilentFor) {
			_ = s.Leave(ctx, i.ID)
		}
	}
	list := heardOf(known, now)
	return list, s.resolve(ctx, list)
}

// resolve fills in the policies of the instances whose beats name a plan. A plan that is not known
// is read with all others, and plans that no beat has named for a while are removed.
func (s *RedisStore) resolve(ctx context.Context, list []Instance) error {
	if s.beats.resolve(list) {
		return nil
	}
	plans, err := s.rdb.HGetAll(ctx, s.key("plans")).Result()
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("promotion: read plans: %w", humanize.Discreet(err))
	}

	if unnamed := s.beats.learn(plans, list); len(unnamed) > 0 {
		_ = s.rdb.HDel(ctx, s.key("plans"), unnamed...) // else the next read removes them
	}
	s.beats.resolve(list)
	return nil
}

// Lease implements Store in one script.
func (s *RedisStore) Lease(ctx context.Context, holder string, d time.Duration) (bool, error) {
	held, err := s.once(ctx, leaseText, []string{s.key("teller")}, holder, d.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("promotion: lease: %w", err)
	}
	return held == 1, nil
}

// Publish implements Store. A count expires once no instance would believe it.
func (s *RedisStore) Publish(ctx context.Context, c Count) error {
	head, err := json.Marshal(c.Head)
	if err != nil {
		return fmt.Errorf("promotion: publish the count: %w", err)
	}
	policies, err := json.Marshal(c.Policies)
	if err != nil {
		return fmt.Errorf("promotion: publish the count: %w", err)
	}

	// One command sets both parts: a reader never gets the head of one count and the votes of
	// another.
	pipe := s.rdb.Pipeline()
	pipe.HSet(ctx, s.key("counted"), "head", head, "policies", policies)
	pipe.Expire(ctx, s.key("counted"), SilentFor)
	_, err = pipe.Exec(ctx)
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // garbage took its place: the next count is stored
		err = s.rdb.Del(ctx, s.key("counted")).Err()
	}
	if err != nil {
		return fmt.Errorf("promotion: publish the count: %w", humanize.Discreet(err))
	}
	return nil
}

// Head implements Store. A count that cannot be read is none: the next one replaces it.
func (s *RedisStore) Head(ctx context.Context) (h Head, err error) {
	parts, err := s.rdb.HMGet(ctx, s.key("counted"), "head").Result()
	if err != nil && !absent(err) {
		return Head{}, fmt.Errorf("promotion: read the count: %w", humanize.Discreet(err))
	}
	if text, there := first(parts).(string); !there || json.Unmarshal([]byte(text), &h) != nil {
		return Head{}, nil
	}
	return h, nil
}

func first(parts []any) any {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// absent reports whether an error says that there is nothing, or garbage in its place.
func absent(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// Count implements Store.
func (s *RedisStore) Count(ctx context.Context) (c Count, err error) {
	parts, err := s.rdb.HMGet(ctx, s.key("counted"), "head", "policies").Result()
	if err != nil && !absent(err) {
		return Count{}, fmt.Errorf("promotion: read the count: %w", humanize.Discreet(err))
	}
	if !c.read(parts) {
		return Count{}, nil
	}
	return c, nil
}

func (c *Count) read(parts []any) bool {
	if len(parts) != 2 {
		return false
	}
	head, _ := parts[0].(string)
	policies, _ := parts[1].(string)
	return json.Unmarshal([]byte(head), &c.Head) == nil && json.Unmarshal([]byte(policies), &c.Policies) == nil
}
