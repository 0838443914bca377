package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// scratchPolicy begins the names of policies that cannot exist: a policy name has no "~".
const scratchPolicy = "~doctor-"

// scratchTTL is how long a scratch key outlives a doctor that was killed.
const scratchTTL = 10 * time.Second

// access tries whether this user may do what the library does. Redis checks rights before
// anything else, so every command is tried on one key, a string with a time to live. A permitted
// command does its work or fails by the key's type, and leaves nothing behind in either case.
func (d *doctor) access(ctx context.Context) []Finding {
	policy := fmt.Sprintf("%s%016x", scratchPolicy, rand.Uint64())
	refused, err := d.refused(ctx, policy)
	if err != nil {
		return []Finding{{
			Check: "access", Level: problem, Message: fmt.Sprintf("the rights of this user could not be tried: %v", err),
			Fix: "see what Redis answers to this command",
		}}
	}

	// A script would fail by the same missing right: one finding is enough.
	list := []Finding{d.rights(ctx, refused)}
	if len(refused) == 0 {
		list = append(list, d.scripts(ctx, policy))
	}
	return list
}

// refusals are the commands that Redis refuses this user, by the reason of the refusal.
type refusals map[string][]string

// Reasons of a refusal, as they read after "may not".
const (
	toRun        = "run"
	onTheKeys    = "use the service's keys with"
	onTheChannel = "use the service's channel with"
)

func (r refusals) note(command string, err error) {
	reason := toRun
	switch {
	case !redis.IsPermissionError(err):
		return
	case strings.Contains(err.Error(), "channel"):
		reason = onTheChannel
	case strings.Contains(err.Error(), "keys"):
		reason = onTheKeys
	}

	if !slices.Contains(r[reason], command) {
		r[reason] = append(r[reason], command)
	}
}

func (r refusals) String() string {
	var clauses []string
	for _, reason := range []string{toRun, onTheKeys, onTheChannel} {
		if commands := r[reason]; len(commands) > 0 {
			clauses = append(clauses, reason+" "+strings.Join(commands, ", "))
		}
	}
	return strings.Join(clauses, "; nor ")
}

// rights says which commands are refused, and how to permit them.
func (d *doctor) rights(ctx context.Context, refused refusals) Finding {
	f := Finding{Check: "access", Level: fine, Message: "this user may do what the library does"}
	user := d.user(ctx)

	switch {
	case len(refused) > 0:
		f.Level, f.Fix = problem, "in redis-cli, as an administrator: "+d.acl(user)
		f.Message = "this user, " + user + ", may not " + refused.String()
		if slices.Contains(append(refused[toRun], refused[onTheKeys]...), "set") {
			f.Message += untriedCommands
		}
	case user == defaultUser:
		f.Level, f.Fix = warning, "in redis-cli, as an administrator: "+d.acl(user)
		f.Message += "; it is the default user, which usually may also do everything else, such as FLUSHALL"
	}
	return f
}

// untriedCommands says that the list of refused commands may be longer.
const untriedCommands = "; commands that would make a key were not tried"

const defaultUser = "default"

// user returns the name under which Redis knows this client.
func (d *doctor) user(ctx context.Context) string {
	if name, err := d.client.Do(ctx, "ACL", "WHOAMI").Text(); err == nil {
		return name
	}
	if name := d.options().Username; name != "" {
		return name
	}
	return "of unknown name"
}

// options returns the client options that the minimal rights depend on.
func (d *doctor) options() (o struct {
	Username string
	DB       int
	Cluster  bool
}) {
	switch c := d.client.(type) {
	case *redis.Client:
		o.Username, o.DB = c.Options().Username, c.Options().DB
	case *redis.ClusterClient:
		o.Username, o.Cluster = c.Options().Username, true
	}
	return o
}

// acl is the command that gives a user exactly what the library needs. It proposes a new user
// in place of the default user, which other services may depend on.
func (d *doctor) acl(user string) string {
	account := user + " "
	if user == defaultUser || strings.Contains(user, " ") {
		account = "shadowlimit on >PASSWORD "
	}

	commands := make([]string, 0, len(rights)+2)
	for _, r := range rights {
		if !slices.Contains(commands, "+"+r.command) {
			commands = append(commands, "+"+r.command)
		}
	}
	// go-redis itself sends these, to find the nodes and to choose the database.
	if o := d.options(); o.Cluster {
		commands = append(commands, "+cluster|slots", "+command")
	} else if o.DB != 0 {
		commands = append(commands, "+select")
	}

	reset, patterns := "resetkeys", fmt.Sprintf("~shadowlimit1:{%s}:* ~shadowlimit1:{%s:*", d.name, d.name)
	if !d.channelsAreFree {
		reset += " resetchannels"
		patterns += fmt.Sprintf(" &shadowlimit1:{%s}:changed", d.name)
	}
	return "ACL SETUSER " + account + reset + " -@all " + patterns + " " + strings.Join(commands, " ")
}

// right is a command that the library sends, by itself or in a script: both need the same right.
type right struct {
	command string
	args    []any // after the key
	keyless bool
	creates bool // makes a key where there is none
}

// rights are all commands of the library. The first makes the scratch key, the last removes it.
var rights = []right{
	{command: "set", args: []any{"scratch", "PX", scratchTTL.Milliseconds()}},
	{command: "get"},
	{command: "pttl"},
	{command: "type"},
	{command: "pexpire", args: []any{scratchTTL.Milliseconds()}},
	{command: "expire", args: []any{int64(scratchTTL / time.Second)}},
	{command: "hset", args: []any{"field", "value"}, creates: true},
	{command: "hmget", args: []any{"field"}},
	{command: "hgetall"},
	{command: "hvals"},
	{command: "hdel", args: []any{"field"}},
	{command: "zadd", args: []any{"1", "member"}, creates: true},
	{command: "zcard"},
	{command: "zrange", args: []any{"0", "1"}},
	{command: "zrangebyscore", args: []any{"0", "1"}},
	{command: "zrem", args: []any{"member"}},
	{command: "zremrangebyscore", args: []any{"0", "1"}}, // of the release before this one, which runs during a deployment
	{command: "xadd", args: []any{"*", "field", "value"}, creates: true},
	{command: "xrevrange", args: []any{"+", "-", "COUNT", "1"}},
	{command: "pfadd", args: []any{"element"}, creates: true},
	{command: "pfcount"},
	{command: "eval", keyless: true, args: []any{"return 1", "0"}},
	{command: "evalsha", keyless: true, args: []any{strings.Repeat("0", 40), "0"}},
	{command: "time", keyless: true},
	{command: "ping", keyless: true},
	{command: "publish"},
	{command: "subscribe"},
	{command: "unlink"},
	{command: "del"},
}

// refused returns the commands that Redis refuses this user.
func (d *doctor) refused(ctx context.Context, policy string) (refusals, error) {
	key := algorithms.KeyPrefix + "{" + d.name + ":" + policy + "}:state"
	refused, made := refusals{}, false
	for _, r := range rights {
		err := d.try(ctx, r, key, made)

		// Most commands fail by the key's type, which is expected. A set that fails, or a call
		// that has run out of time, says nothing about rights.
		if err != nil && !redis.IsPermissionError(err) && (r.command == "set" || ctx.Err() != nil) {
			return nil, fmt.Errorf("%s: %w", r.command, err)
		}

		made = made || r.command == "set" && err == nil
		refused.note(r.command, err)
	}

	// The keys of the fleet go by another pattern. No instance has the name of this field.
	fleet := algorithms.KeyPrefix + "{" + d.name + "}:instances"
	refused.note("hdel", d.client.Do(ctx, "hdel", fleet, policy).Err())
	return refused, nil
}

// try sends one command. A command that would make a key is sent only if the scratch key is in its
// way: a hash or a stream without a time to live would stay for good.
func (d *doctor) try(ctx context.Context, r right, key string, made bool) error {
	channel := algorithms.KeyPrefix + "{" + d.name + "}:changed"
	switch {
	case r.creates && !made:
		return nil
	case r.command == "publish": // harmless: instances read their states once more
		return d.client.Publish(ctx, channel, "doctor").Err()
	case r.command == "subscribe":
		return d.subscribe(ctx, channel)
	case r.keyless:
		return d.client.Do(ctx, append([]any{r.command}, r.args...)...).Err()
	}
	return d.client.Do(ctx, append([]any{r.command, key}, r.args...)...).Err()
}

func (d *doctor) subscribe(ctx context.Context, channel string) error {
	subscription := d.client.Subscribe(ctx, channel)
	defer subscription.Close()

	_, err := subscription.ReceiveTimeout(ctx, replyTimeout)
	return err
}

// scripts lets the limiters' scripts judge a key of a policy that cannot exist, and exchange one.
func (d *doctor) scripts(ctx context.Context, policy string) Finding {
	pair, err := lua.New(d.client, lua.Config{Name: d.name})
	if err == nil {
		err = judge(ctx, pair, policy)
		for _, key := range []string{pair.RecordKey(policy, ""), pair.LogKey(policy, "", scratchSide.Name())} {
			_ = d.client.Del(ctx, key).Err() // it expires within two seconds anyway
		}
	}

	// In a cluster no side is synchronized: a service with one does not start.
	run := "the limiters' scripts run"
	if err == nil && !d.options().Cluster {
		err = d.exchange(ctx, pair, policy)
		run += ", also the one of synchronized sides"
	}
	if err != nil {
		return Finding{
			Check: "scripts", Level: problem, Message: fmt.Sprintf("the limiters' scripts do not run: %v", err),
			Fix: "see what Redis answers to this script",
		}
	}
	return Finding{Check: "scripts", Level: fine, Message: run}
}

// exchange lets the script of synchronized sides exchange a key, and repeat that: it must know the number again. The process's
// name is that of the policy, so no process has it.
func (d *doctor) exchange(ctx context.Context, pair *lua.Pair, policy string) error {
	at := time.Now().UnixMicro()
	x := &lua.Exchange{Process: policy, Number: 1, Changes: []algorithms.Change{{
		Policy: policy, Side: algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: scratchSide.Limit},
		State: algorithms.State{Last: at, Used: 1}, Spent: algorithms.Spending{Units: 1, First: at, Last: at},
	}}}

	defer func() {
		_ = d.client.Del(ctx, pair.NoteKey(policy)).Err()
		_ = d.client.Del(ctx, pair.ExchangeKey(&x.Changes[0])).Err()
	}()
	for range 2 {
		joint, err := pair.Exchange(ctx, x)
		if err != nil {
			return err
		}
		if !joint[0].Ours {
			return errors.New("an exchange that is sent again is not known")
		}
	}
	return nil
}

// scratchSide has the algorithm that uses the most commands of Redis.
var scratchSide = algorithms.Side{
	Algorithm: algorithms.SlidingWindowLog{},
	Limit:     algorithms.Limit{Requests: 1, Window: time.Second},
}

func judge(ctx context.Context, pair *lua.Pair, policy string) error {
	other := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: scratchSide.Limit}
	charges := []algorithms.Charge{{Policy: policy, Cost: 1, Sides: [2]algorithms.Side{scratchSide, other}}}
	into := make([][2]algorithms.Observation, 1)
	if err := pair.Evaluate(ctx, charges, into); err != nil {
		return err
	}
	return errors.Join(into[0][0].Err, into[0][1].Err)
}
