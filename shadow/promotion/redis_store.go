package promotion

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

var (
	//go:embed put.lua
	putText string
	//go:embed lease.lua
	leaseText string
)

// RedisStore is the store of a fleet. Behind algorithms.KeyPrefix, {name:policy}:state is a hash
// and :audit a stream; {name}:policies, :instances and :plans are hashes, :changes is a
// number, :teller the holder of the lease, and :counted a hash of what it has counted.
type RedisStore struct {
	rdb   redis.UniversalClient
	name  string
	beats beats
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns the store of the services of that name.
func NewRedisStore(rdb redis.UniversalClient, name string) *RedisStore {
	return &RedisStore{rdb: rdb, name: name}
}

func (s *RedisStore) policyKey(policy, what string) string {
	return algorithms.KeyPrefix + "{" + s.name + ":" + policy + "}:" + what
}

func (s *RedisStore) key(what string) string {
	return algorithms.KeyPrefix + "{" + s.name + "}:" + what
}

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

// unreadableReason is the reason of the state that stands for an unreadable one.
const unreadableReason = "the stored state cannot be read"

// Unreadable reports whether the state stands for one that Redis has, and which cannot be read.
func (s State) Unreadable() bool { return s.Reason == unreadableReason && s.At.IsZero() }

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
	s = State{Stage: RolledBack, Hold: true, Reason: unreadableReason}
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

	// The state stands, and watchers have the message already. Where the number cannot be changed
	// the teller does it within seconds.
	switch stored, _ := reply[0].(int64); stored {
	case 1:
		_ = s.NoteChange(ctx)
		return nil
	case -1:
		return errStale(policy, only.AsOf)
	}
	return fmt.Errorf("promotion: %s is at %v: %w", policy, reply[1], ErrConflict)
}

// Changes implements Store. A number that cannot be read is none.
func (s *RedisStore) Changes(ctx context.Context) (int64, error) {
	text, err := s.rdb.Get(ctx, s.key("changes")).Result()
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return 0, fmt.Errorf("promotion: read the number of changes: %w", humanize.Discreet(err))
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n, nil
}

// NoteChange implements Store by a command of its own: in a cluster the states lie in other
// slots than the number. It is drawn and not raised: a number that a failover takes back and a
// later change raises again would be one that instances know.
func (s *RedisStore) NoteChange(ctx context.Context) error {
	if err := s.rdb.Set(ctx, s.key("changes"), 1+rand.Int64N(math.MaxInt64), 0).Err(); err != nil {
		return fmt.Errorf("promotion: note a change: %w", humanize.Discreet(err))
	}
	return nil
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
	var err error
	for _, what := range []string{"policies", "judged", "assessments", "details"} {
		if err == nil {
			err = s.rdb.HDel(ctx, s.key(what), policy).Err()
		}
	}
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

// Watch implements Store by a subscription, which go-redis restores after a broken
// connection. Its goroutine ends with ctx, and closes the channel as its last act.
func (s *RedisStore) Watch(ctx context.Context) <-chan struct{} {
	w := make(chan struct{}, 1)
	go func() {
		defer close(w)
		subscription := s.rdb.Subscribe(ctx, s.channel())
		defer subscription.Close()
		// Polls find what a broken connection loses, so go-redis need not look after it every 3 s.
		messages := subscription.Channel(redis.WithChannelHealthCheckInterval(time.Minute))

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
