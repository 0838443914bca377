package promotion

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

var (
	//go:embed put.lua
	putText string
	//go:embed lease.lua
	leaseText string
)

// RedisStore is the store of a fleet. shadowlimit:{name:policy}:state is a hash
// and :audit a stream; shadowlimit:{name}:policies and :instances are hashes, :teller is the
// holder of the lease, and :count what it has counted.
type RedisStore struct {
	rdb  redis.UniversalClient
	name string
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns the store of the services of that name.
func NewRedisStore(rdb redis.UniversalClient, name string) *RedisStore {
	return &RedisStore{rdb: rdb, name: name}
}

func (s *RedisStore) policyKey(policy, what string) string {
	return "shadowlimit:{" + s.name + ":" + policy + "}:" + what
}

func (s *RedisStore) key(what string) string { return "shadowlimit:{" + s.name + "}:" + what }

func (s *RedisStore) channel() string { return s.key("changed") }

// Now implements Store by the server's clock.
func (s *RedisStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return now, fmt.Errorf("promotion: read the clock: %w", humanize.Discreet(err))
	}
	return now.UTC(), nil
}

// States implements Store in one pipeline.
func (s *RedisStore) States(ctx context.Context, policies []string) ([]State, error) {
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.SliceCmd, len(policies))
	for i, policy := range policies {
		cmds[i] = pipe.HMGet(ctx, s.policyKey(policy, "state"), "state", "term", "seq")
	}

	// Each command has its own error. A connection that Redis refuses, as after a change of its
	// password, fails the pipeline alone.
	_, refused := pipe.Exec(ctx)

	// A key of another type is garbage like an unreadable state. Every other error means
	// that the state is unknown, and an unknown state must not look rolled back already.
	states := make([]State, len(policies))
	for i, cmd := range cmds {
		err := cmd.Err()
		if err == nil && len(cmd.Val()) == 0 {
			err = cmp.Or(refused, errNoReply)
		}
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, fmt.Errorf("promotion: read states: %w", humanize.Discreet(err))
		}
		states[i] = stateOf(cmd)
	}
	return states, nil
}

var errNoReply = errors.New("no reply")

// stateOf reads a stored state. A state that cannot be read counts as rolled back, because
// it is unknown whether the candidate may be enforced.
func stateOf(cmd *redis.SliceCmd) (s State) {
	values, err := cmd.Result()
	if err == nil && values[0] == nil && values[1] == nil {
		return State{}
	}
	if err == nil {
		text, _ := values[0].(string)
		err = json.Unmarshal([]byte(text), &s)
	}
	if err == nil && slices.Contains(Stages[:], s.Stage) && s.Version.believed() {
		return s
	}

	// The version is stored beside the state, so that a step can still expect it; it is
	// zero if that cannot be read or believed either, and every other state supersedes it.
	s = State{Stage: RolledBack, Hold: true, Reason: "the stored state cannot be read"}
	if len(values) == 3 {
		term, _ := values[1].(string)
		seq, _ := values[2].(string)
		if v, err := ParseVersion(term + "." + seq); err == nil && v.believed() {
			s.Version = v
		}
	}
	return s
}

// onceCmd is never sent twice: after an error the caller reads whether it was executed.
type onceCmd struct{ *redis.Cmd }

// NoRetry keeps go-redis from sending the command again.
func (onceCmd) NoRetry() bool { return true }

// once runs a script once.
func (s *RedisStore) once(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	all := []any{"EVAL", script, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := onceCmd{redis.NewCmd(ctx, append(all, args...)...)}
	_ = s.rdb.Process(ctx, cmd) // the command has its error
	return cmd.Cmd
}

// Put implements Store in one script.
func (s *RedisStore) Put(ctx context.Context, policy string, next State, only Condition) error {
	next = next.inUTC() // the script compares times as texts
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("promotion: put %s: %w", policy, err)
	}

	// An expected state without an epoch could not be read, and is known by its version only.
	var version, safety, since, epoch, asOf string
	if only.Expect != nil {
		version, safety = only.Expect.Version.String(), only.Expect.safetyText()
		since, epoch = only.Expect.sinceText(), only.Expect.Epoch
	}
	if !only.AsOf.IsZero() {
		asOf = strconv.FormatInt(only.AsOf.Unix(), 10)
	}

	keys := []string{s.policyKey(policy, "state"), s.policyKey(policy, "audit")}
	reply, err := s.once(ctx, putText, keys,
		version, next.Term, next.Seq, next.safetyText(), next.sinceText(), next.Epoch, text,
		safety, since, epoch, asOf, int(asOfWithin.Seconds()), keptHistory, s.channel(), policy).Slice()
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("reply %v", reply)
	}
	if err != nil {
		return fmt.Errorf("promotion: put %s: %w", policy, humanize.Discreet(err))
	}

	switch stored, _ := reply[0].(int64); stored {
	case 1:
		return nil
	case -1:
		return errStale(policy, only.AsOf)
	}
	return fmt.Errorf("promotion: %s is at %v: %w", policy, reply[1], ErrConflict)
}

// History implements Store. An entry that cannot be read is an error.
func (s *RedisStore) History(ctx context.Context, policy string) ([]State, error) {
	entries, err := s.rdb.XRevRangeN(ctx, s.policyKey(policy, "audit"), "+", "-", keptHistory).Result()
	if err != nil {
		return nil, fmt.Errorf("promotion: history of %s: %w", policy, humanize.Discreet(err))
	}

	history := make([]State, len(entries))
	for i, e := range entries {
		text, _ := e.Values["state"].(string)
		if err := json.Unmarshal([]byte(text), &history[i]); err != nil {
			return nil, fmt.Errorf("promotion: history of %s: entry %s: %w", policy, e.ID, err)
		}
	}
	slices.Reverse(history)
	return history, nil
}

// Announce implements Store.
func (s *RedisStore) Announce(ctx context.Context, specs []Spec) error {
	pipe := s.rdb.Pipeline()
	for _, spec := range specs {
		text, err := json.Marshal(spec)
		if err != nil {
			return fmt.Errorf("promotion: announce %s: %w", spec.Policy, err)
		}
		pipe.HSet(ctx, s.key("policies"), spec.Policy, text)
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("promotion: announce policies: %w", humanize.Discreet(err))
	}
	return nil
}

// Forget implements Store. The announcement goes first: if the rest fails, no controller judges
// the policy any more, and another call removes the rest.
func (s *RedisStore) Forget(ctx context.Context, policy string) error {
	err := s.rdb.HDel(ctx, s.key("policies"), policy).Err()
	if err == nil {
		err = s.rdb.Del(ctx, s.policyKey(policy, "state"), s.policyKey(policy, "audit")).Err()
	}
	if err != nil {
		return fmt.Errorf("promotion: forget %s: %w", policy, humanize.Discreet(err))
	}
	return nil
}

// Specs implements Store. It leaves out what cannot be read.
func (s *RedisStore) Specs(ctx context.Context) ([]Spec, error) {
	specs, err := all[Spec](ctx, s, "policies")
	slices.SortFunc(specs, func(a, b Spec) int { return cmp.Compare(a.Policy, b.Policy) })
	return specs, err
}

// all reads every field of one of the fleet's hashes. It skips fields that it cannot read:
// one of them must not hide the others.
func all[T any](ctx context.Context, s *RedisStore, what string) ([]T, error) {
	fields, err := s.rdb.HGetAll(ctx, s.key(what)).Result()
	if err != nil {
		return nil, fmt.Errorf("promotion: read %s: %w", what, humanize.Discreet(err))
	}

	list := make([]T, 0, len(fields))
	for _, text := range fields {
		var v T
		if json.Unmarshal([]byte(text), &v) == nil {
			list = append(list, v)
		}
	}
	return list, nil
}

// Beat implements Store.
func (s *RedisStore) Beat(ctx context.Context, i Instance) error {
	text, err := json.Marshal(i)
	if err == nil {
		err = s.rdb.HSet(ctx, s.key("instances"), i.ID, text).Err()
	}
	if err != nil {
		return fmt.Errorf("promotion: beat: %w", humanize.Discreet(err))
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
	return heardOf(known, now), nil
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
	text, err := json.Marshal(c)
	if err == nil {
		err = s.rdb.Set(ctx, s.key("count"), text, SilentFor).Err()
	}
	if err != nil {
		return fmt.Errorf("promotion: publish the count: %w", err)
	}
	return nil
}

// Count implements Store. A count that cannot be read is none: the next one replaces it.
func (s *RedisStore) Count(ctx context.Context) (c Count, err error) {
	text, err := s.rdb.Get(ctx, s.key("count")).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return Count{}, fmt.Errorf("promotion: read the count: %w", err)
	}
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Count{}, nil
	}
	return c, nil
}

// Watch implements Store by a subscription, which go-redis restores after a broken
// connection. Its goroutine ends with ctx, and closes the channel as its last act.
func (s *RedisStore) Watch(ctx context.Context) <-chan struct{} {
	w := make(chan struct{}, 1)
	go func() {
		defer close(w)
		subscription := s.rdb.Subscribe(ctx, s.channel())
		defer subscription.Close()
		messages := subscription.Channel()

		for {
			select {
			case <-ctx.Done():
				return
			case _, open := <-messages:
				// The client was closed before ctx was over. The watcher must not take a
				// closed channel for one change after another.
				if !open {
					<-ctx.Done()
					return
				}
				notify(w)
			}
		}
	}()
	return w
}
