package stages

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/redisread"
)

var (
	//go:embed put.lua
	putText string
	//go:embed publish.lua
	publishText string
	//go:embed heartbeat.lua
	heartbeatText   string
	heartbeatScript = redis.NewScript(heartbeatText)
	//go:embed tell.lua
	tellText   string
	tellScript = redis.NewScript(tellText)
)

// RedisStore is the store of a fleet. All keys have one hash tag, so that one script changes what belongs
// together: behind algorithms.KeyPrefix and {name}, :states, :instances, :policies, :assessments and :details are hashes,
// :heard is a sorted set of when instances were, :lease the leader, :changes a number, :levels a text, :audit:POLICY a stream, and
// :teller:RECEIVER a lease of who tells a receiver of moves, as :told:RECEIVER, a hash, has them.
type RedisStore struct {
	rdb  redis.UniversalClient
	name string
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns the store of the services of that name.
func NewRedisStore(rdb redis.UniversalClient, name string) *RedisStore {
	return &RedisStore{rdb: rdb, name: name}
}

func (s *RedisStore) key(what string) string {
	return algorithms.KeyPrefix + "{" + s.name + "}:" + what
}

func (s *RedisStore) channel() string { return s.key("changed") }

// States implements Store by a heartbeat of nobody.
func (s *RedisStore) States(ctx context.Context, policies []string) ([]State, error) {
	if len(policies) == 0 {
		return []State{}, nil
	}

	// A state that cannot be read is garbage. Every error means that all are unknown, and an unknown state must not look rolled
	// back already.
	heard, err := s.Heartbeat(ctx, Heartbeat{Policies: policies})
	if err != nil {
		return nil, fmt.Errorf("stages: read states: %w", err)
	}
	return heard.States, nil
}

var errReply = errors.New("a reply that cannot be read")

// unreadableReason is the reason of the state that stands for an unreadable one.
const unreadableReason = "the stored state cannot be read"

// mostState bounds a stored state in bytes: heartbeat.lua reads no larger one.
const mostState = 1 << 16

// head returns what a stored state begins with, for the script.
func stateHead(s State) []string {
	return []string{s.Version.String(), safetyText(s), sinceText(s), s.Fingerprint}
}

// stateOf reads a stored state: TERM.SEQ, safety, since and fingerprint for the script, then the whole. A state that cannot
// be read counts as rolled back, because it is unknown whether the candidate may be enforced.
func stateOf(text string) (s State) {
	if text == "" {
		return State{}
	}
	parts := strings.SplitN(text, " ", 5)
	if len(parts) == 5 && json.Unmarshal([]byte(parts[4]), &s) == nil && slices.Contains(Stages[:], s.Stage) && s.Version.believed() &&
		slices.Equal(parts[:4], stateHead(s)) {
		return s
	}

	// The version is stored before the state, so that a step can still expect it; it is
	// zero if that cannot be read or believed either, and every other state supersedes it.
	s = State{Stage: RolledBack, Hold: true, Reason: unreadableReason}
	if v, err := ParseVersion(parts[0]); err == nil && v.believed() {
		s.Version = v
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
	if err == nil && len(text) > mostState/2 {
		err = fmt.Errorf("the state has %d bytes, and %d are the most: give a shorter reason", len(text), mostState/2)
	}
	if err != nil {
		return fmt.Errorf("stages: put %s: %w", policy, err)
	}

	// An expected state without a fingerprint could not be read, and is known by its version only.
	var version, safety, since, fingerprint, asOf string
	if only.Expect != nil {
		version, safety = only.Expect.Version.String(), safetyText(*only.Expect)
		since, fingerprint = sinceText(*only.Expect), only.Expect.Fingerprint
	}
	if !only.AsOf.IsZero() {
		asOf = strconv.FormatInt(only.AsOf.Unix(), 10)
	}

	// The number of changes is drawn and not raised: one that a failover takes back and a later change raises again would
	// be one that instances know.
	keys := []string{s.key("states"), s.key("audit:" + policy), s.key("changes")}
	reply, err := s.once(ctx, putText, keys,
		version, next.Term, next.Seq, safetyText(next), sinceText(next), next.Fingerprint, text,
		safety, since, fingerprint, asOf, int(EvidenceWithin.Seconds()), KeptHistory, s.channel(), policy, 1+rand.Int64N(math.MaxInt64)).Slice()
	if err == nil && len(reply) != 2 {
		err = errReply
	}
	if err != nil {
		return fmt.Errorf("stages: put %s: %w", policy, humanize.Discreet(err))
	}
	switch stored, _ := reply[0].(int64); stored {
	case 1:
		return nil
	case -1:
		return errStale(policy, only.AsOf)
	}
	return fmt.Errorf("stages: %s is at %v: %w", policy, reply[1], ErrConflict)
}

// History implements Store. An entry that cannot be read is an error.
func (s *RedisStore) History(ctx context.Context, policy string) ([]State, error) {
	query := redisread.Query{"XREVRANGE", s.key("audit:" + policy), "+", "-", "COUNT", strconv.Itoa(KeptHistory)}
	replies, _, err := redisread.Read(ctx, s.rdb, query)
	if err == nil {
		err = replies[0].Err
	}
	if err != nil {
		return nil, fmt.Errorf("stages: history of %s: %w", policy, humanize.Discreet(err))
	}

	entries := replies[0].List()
	history := make([]State, len(entries))
	for i, entry := range entries {
		e := redisread.Reply{Value: entry}.List()
		id, text := redisread.Reply{Value: at(e, 0)}.Text(), ""
		for field, value := range (redisread.Reply{Value: at(e, 1)}).Pairs {
			if field == "state" {
				text = value
			}
		}
		if err := json.Unmarshal([]byte(text), &history[i]); err != nil {
			return nil, fmt.Errorf("stages: history of %s: entry %s: %w", policy, id, err)
		}
	}
	slices.Reverse(history)
	return history, nil
}

// Heartbeat implements Store in one script, which may run twice.
func (s *RedisStore) Heartbeat(ctx context.Context, h Heartbeat) (Heard, error) {
	what, self := "heartbeat", ""
	switch {
	case h.Leaves:
		what = "leave"
	case h.Leads:
		what = "lead"
	}
	if h.Self != nil {
		text, err := json.Marshal(h.Self)
		if err != nil {
			return Heard{}, fmt.Errorf("stages: heartbeat: %w", err)
		}
		self = string(text)
	}
	args := []any{
		h.ID, what, self, LeaseFor.Milliseconds(), h.Changes, LiveFor.Milliseconds(), SilentFor.Milliseconds(), len(h.Policies),
	}
	for _, policy := range h.Policies {
		args = append(args, policy)
	}
	for _, spec := range h.Specs {
		text, err := json.Marshal(spec)
		if err != nil {
			return Heard{}, fmt.Errorf("stages: announce %s: %w", spec.Policy, err)
		}
		args = append(args, spec.Policy, text)
	}

	keys := []string{s.key("heard"), s.key("instances"), s.key("lease"), s.key("changes"), s.key("states"), s.key("policies"), s.key("levels")}
	reply, err := heartbeatScript.Run(ctx, s.rdb, keys, args...).Slice()
	if err != nil {
		return Heard{}, fmt.Errorf("stages: heartbeat: %w", humanize.Discreet(err))
	}
	heard, err := readHeard(reply, len(h.Policies))
	if err != nil {
		return Heard{}, fmt.Errorf("stages: heartbeat: %w", err)
	}
	return heard, nil
}

// refusal is an error of a command inside of a script.
type refusal string

func (r refusal) Error() string { return string(r) }
func (r refusal) RedisError()   {}

func readHeard(reply []any, policies int) (h Heard, err error) {
	const before = 8 // the states
	if len(reply) != before && len(reply) != before+policies {
		return h, errReply
	}
	text := func(i int) string { s, _ := reply[i].(string); return s }
	number := func(i int) int64 { n, _ := reply[i].(int64); return n }

	us, err := strconv.ParseInt(text(0), 10, 64)
	if err != nil {
		return h, errReply
	}
	h.Now = time.UnixMicro(us).UTC()
	h.Changes, _ = strconv.ParseInt(text(1), 10, 64) // a number that cannot be read is none
	h.Leader, h.Lease = text(2), time.Duration(number(3))*time.Millisecond
	h.Live, h.Known = int(number(4)), number(5) == 1
	if why := text(6); why != "" {
		h.Refused = humanize.Discreet(refusal(why))
	}
	var l levels
	if json.Unmarshal([]byte(text(7)), &l) == nil {
		h.Levels = l.recent(h.Now)
	}
	if len(reply) == before {
		return h, nil
	}
	h.States = make([]State, policies)
	for i := range h.States {
		h.States[i] = stateOf(text(before + i))
	}
	return h, nil
}

// Ping asks the server that has the states. Of a cluster it is one node: whether the others answer decides nothing of the states.
func (s *RedisStore) Ping(ctx context.Context) error {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return humanize.Discreet(s.rdb.Ping(ctx).Err())
	}
	node, err := cluster.MasterForKey(ctx, s.key("states"))
	if err != nil {
		return humanize.Discreet(err)
	}
	if err := node.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("node %s of the cluster, which has the stages: %w", node.Options().Addr, humanize.Discreet(err))
	}
	return nil
}

// TryWrite asks for a write that changes nothing, and returns what Redis answers to it: nil if it takes writes.
func (s *RedisStore) TryWrite(ctx context.Context) error {
	// The key is never there, so XX stores nothing. Redis looks at its memory, its role and the user's rights before that.
	err := s.rdb.SetArgs(ctx, s.key("writable"), "", redis.SetArgs{Mode: "XX", TTL: time.Second}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("stages: try a write: %w", humanize.Discreet(err))
	}
	return nil
}

// Fleet implements Store in one script.
func (s *RedisStore) Fleet(ctx context.Context) (Fleet, error) {
	replies, now, err := redisread.Read(ctx, s.rdb,
		redisread.Query{"GET", s.key("lease")}, redisread.Query{"ZRANGE", s.key("heard"), "0", "-1", "WITHSCORES"},
		redisread.Query{"HGETALL", s.key("instances")}, redisread.Query{"HGETALL", s.key("policies")})
	for _, r := range replies {
		if r.Err != nil && !absent(r.Err) {
			err = cmp.Or(err, r.Err)
		}
	}
	if err != nil {
		return Fleet{}, fmt.Errorf("stages: read the fleet: %w", humanize.Discreet(err))
	}
	lease, heard, instances, specs := replies[0], replies[1], maps.Collect(replies[2].Pairs), replies[3]

	// A field that cannot be read must not hide the others.
	f := Fleet{Now: now, Leader: lease.Text()}
	for _, text := range specs.Pairs {
		var spec Spec
		if json.Unmarshal([]byte(text), &spec) == nil {
			f.Specs = append(f.Specs, spec)
		}
	}
	slices.SortFunc(f.Specs, func(a, b Spec) int { return cmp.Compare(a.Policy, b.Policy) })
	for id, score := range heard.Pairs {
		i := Instance{}
		ms, err := strconv.ParseFloat(score, 64)
		if err == nil && json.Unmarshal([]byte(instances[id]), &i) == nil && i.ID == id {
			i.At = time.UnixMilli(int64(ms)).UTC()
			f.Instances = append(f.Instances, i)
		}
	}
	f.Instances = heardOf(f.Instances, f.Now)
	return f, nil
}

// absent reports whether an error says that there is nothing, or garbage in its place.
func absent(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// Publish implements Store in one script.
func (s *RedisStore) Publish(ctx context.Context, f Findings) error {
	text := ""
	if f.Levels != nil {
		b, err := json.Marshal(levels{f.At, f.Levels})
		if err != nil {
			return fmt.Errorf("stages: publish levels: %w", err)
		}
		text = string(b)
	}
	args := []any{f.At.UnixMicro(), int(EvidenceWithin.Seconds()), f.By, text, SilentFor.Milliseconds()}
	for i := range f.Policies {
		small, large, err := publishedTexts(&f.Policies[i])
		if err != nil {
			return fmt.Errorf("stages: publish what was found of %s: %w", f.Policies[i].Policy, err)
		}
		args = append(args, f.Policies[i].Policy, small, large)
	}

	keys := []string{s.key("assessments"), s.key("details"), s.key("levels"), s.key("lease")}
	stored, err := s.once(ctx, publishText, keys, args...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("stages: publish what was found: %w", humanize.Discreet(err))
	case stored == 0:
		return errStale("what was found", f.At)
	}
	return nil
}

// toldFor is how long marks live that nobody renews.
const toldFor = 40 * 24 * time.Hour

// Tell implements Store in one script. It may run twice: the same marks are stored.
func (s *RedisStore) Tell(ctx context.Context, t Telling) (Told, error) {
	lease := LeaseFor.Milliseconds()
	if t.Leaves {
		lease = 0
	}
	args := []any{t.ID, lease, toldFor.Milliseconds(), len(t.Marks)}
	for name, text := range t.Marks {
		args = append(args, name, text)
	}
	for _, name := range t.Asks {
		args = append(args, name)
	}
	reply, err := tellScript.Run(ctx, s.rdb, []string{s.key("teller:" + t.To), s.key("told:" + t.To)}, args...).Slice()
	if err == nil && len(reply) < 2 {
		err = errReply
	}
	if err != nil {
		return Told{}, fmt.Errorf("stages: tell of moves: %w", humanize.Discreet(err))
	}

	var told Told
	text, _ := reply[0].(string)
	us, err := strconv.ParseInt(text, 10, 64)
	mine, _ := reply[1].(int64)
	if err != nil || mine == 1 && len(reply) != 2+len(t.Asks) {
		return told, fmt.Errorf("stages: tell of moves: %w", errReply)
	}
	told.Now, told.Mine = time.UnixMicro(us).UTC(), mine == 1
	if told.Mine {
		told.Marks = map[string]string{}
		for n, name := range t.Asks {
			told.Marks[name], _ = reply[2+n].(string)
		}
	}
	return told, nil
}

// levels are published for instances with adaptive limits.
type levels struct {
	At     time.Time                 `json:"at"`
	Levels map[string]adaptive.State `json:"levels"`
}

// recent returns the levels, nil if they are old: instances then do not go by them.
func (l *levels) recent(now time.Time) map[string]adaptive.State {
	if !within(now, l.At, LiveFor) {
		return nil
	}
	return l.Levels
}

// texts are the two parts of an assessment, "" for one that is not there.
func publishedTexts(p *Published) (small, large string, err error) {
	text, err := json.Marshal(p)
	if err != nil || p.Details == nil {
		return string(text), "", err
	}
	details, err := json.Marshal(p.Details)
	return string(text), string(details), err
}

// Published implements Store.
func (s *RedisStore) Published(ctx context.Context, policies []string, details bool) ([]Published, error) {
	list := make([]Published, len(policies))
	if len(policies) == 0 {
		return list, nil
	}
	queries := []redisread.Query{append(redisread.Query{"HMGET", s.key("assessments")}, policies...)}
	if details {
		queries = append(queries, append(redisread.Query{"HMGET", s.key("details")}, policies...))
	}
	replies, _, err := redisread.Read(ctx, s.rdb, queries...)
	for _, r := range replies {
		if r.Err != nil && !absent(r.Err) {
			err = cmp.Or(err, r.Err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stages: read what was found: %w", humanize.Discreet(err))
	}
	texts, large := replies[0].List(), []any(nil)
	if details {
		large = replies[1].List()
	}

	for n := range policies {
		var p Published
		if text, _ := at(texts, n).(string); json.Unmarshal([]byte(text), &p) != nil || p.Policy != policies[n] {
			continue
		}
		var d Details
		if text, _ := at(large, n).(string); text != "" && json.Unmarshal([]byte(text), &d) == nil {
			p.Details = &d
		}
		list[n] = p
	}
	return list, nil
}

func at(values []any, n int) any {
	if n < len(values) {
		return values[n]
	}
	return nil
}

// Forget removes all that is kept of a policy: its announcement, its state and its audit
// trail. A policy of which nothing is kept is no error. An instance that still has the
// policy writes it again.
func (s *RedisStore) Forget(ctx context.Context, policy string) error {
	pipe := s.rdb.TxPipeline()
	for _, what := range []string{"policies", "states", "assessments", "details"} {
		pipe.HDel(ctx, s.key(what), policy)
	}
	pipe.Del(ctx, s.key("audit:"+policy))
	pipe.Set(ctx, s.key("changes"), 1+rand.Int64N(math.MaxInt64), 0)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("stages: forget %s: %w", policy, humanize.Discreet(err))
	}
	return nil
}

// Watch implements Store by a subscription, which go-redis restores after a broken
// connection. Its goroutine ends with ctx, and closes the channel as its last act.
func (s *RedisStore) Watch(ctx context.Context) <-chan struct{} {
	w := make(chan struct{}, 1)
	go func() {
		defer close(w)
		subscription := s.rdb.Subscribe(ctx, s.channel())
		defer subscription.Close()
		// Heartbeats find what a broken connection loses, so go-redis need not look after it every 3 s.
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
