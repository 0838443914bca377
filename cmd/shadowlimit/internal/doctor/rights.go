package doctor

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// right is a command that the library sends, by itself or in a script: both need the same right.
type right struct {
	command string
	args    []any // after the key
	keyless bool
	creates bool // makes a key where there is none
}

// scratchTTL is how long the scratch key outlives a doctor that was killed.
const scratchTTL = 10 * time.Second

// rights are all commands of the library. The first makes the scratch key, the last removes it.
var rights = []right{
	{command: "set", args: []any{"scratch", "PX", scratchTTL.Milliseconds()}},
	{command: "get"},
	{command: "incr", creates: true},
	{command: "exists"},
	{command: "pttl"},
	{command: "type"},
	{command: "pexpire", args: []any{scratchTTL.Milliseconds()}},
	{command: "expire", args: []any{int64(scratchTTL / time.Second)}},
	{command: "expireat", args: []any{"9999999999"}},
	{command: "hset", args: []any{"field", "value"}, creates: true},
	{command: "hincrby", args: []any{"field", "1"}, creates: true},
	{command: "hget", args: []any{"field"}},
	{command: "hexists", args: []any{"field"}},
	{command: "hmget", args: []any{"field"}},
	{command: "hgetall"},
	{command: "hlen"},
	{command: "hkeys"},
	{command: "hdel", args: []any{"field"}},
	{command: "zadd", args: []any{"1", "member"}, creates: true},
	{command: "zcard"},
	{command: "zcount", args: []any{"0", "1"}},
	{command: "zrange", args: []any{"0", "1"}},
	{command: "zrangebyscore", args: []any{"0", "1"}},
	{command: "zrevrange", args: []any{"0", "1"}},
	{command: "zrevrangebyscore", args: []any{"1", "0"}},
	{command: "zincrby", args: []any{"1", "member"}, creates: true},
	{command: "zscore", args: []any{"member"}},
	{command: "zremrangebyrank", args: []any{"0", "0"}},
	{command: "zrem", args: []any{"member"}},
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

// user is the user of a client, who is to serve a service.
type user struct {
	client   redis.UniversalClient
	home     *node // the rights are tried on it; of a cluster one that answers, and the one with the stages if that does
	service  string
	channels bool // the server knows rights to channels
}

func fleetKey(service, what string) string { return algorithms.KeyPrefix + "{" + service + "}:" + what }

func policyKey(service, policy, what string) string {
	return algorithms.KeyPrefix + "{" + service + ":" + policy + "}:" + what
}

// scratch draws the key that rights are tried on, which is on that server, and the policy that it is of. No policy's name has a "~".
func (u *user) scratch(ctx context.Context) (policy, key string) {
	for range 10_000 {
		policy = fmt.Sprintf("~doctor-%016x", rand.Uint64())
		key = policyKey(u.service, policy, "state")
		if addressOf(ctx, u.client, key) == u.home.name {
			break
		}
	}
	return policy, key
}

// access tries whether this user may do what the library does, and says how to permit it. Redis checks
// rights before anything else, so every command is tried on one key, a string with a time to live. A
// permitted command does its work or fails by the key's type, and leaves nothing behind in either case.
func (u *user) access(ctx context.Context) Finding {
	f := Finding{Check: "access", Level: fine, Message: "this user may do what the library does"}
	refused, err := u.refused(ctx)
	if err != nil {
		f.Level, f.Message = problem, fmt.Sprintf("the rights of this user could not be tried: %v", err)
		f.Fix = "see what Redis answers to this command"
		return f
	}

	name := u.name(ctx)
	switch {
	case len(refused) > 0:
		f.Level, f.Fix = problem, "in redis-cli, as an administrator: "+u.acl(name)
		f.Message = "this user, " + name + ", may not run " + strings.Join(refused, ", ")
		if strings.HasPrefix(refused[0], "set") {
			f.Message += "; commands that would make a key were not tried"
		}
	case name == defaultUser:
		f.Level, f.Fix = warning, "in redis-cli, as an administrator: "+u.acl(name)
		f.Message += "; it is the default user, which usually may also do everything else, such as FLUSHALL"
	}
	return f
}

// refused returns the commands that Redis refuses this user.
func (u *user) refused(ctx context.Context) (list []string, err error) {
	note := func(command string, err error) {
		switch {
		case !redis.IsPermissionError(err):
			return
		case strings.Contains(err.Error(), "channel"):
			command += " on the service's channel"
		case strings.Contains(err.Error(), " key"):
			command += " on the service's keys"
		}
		if !slices.Contains(list, command) {
			list = append(list, command)
		}
	}

	policy, key := u.scratch(ctx)
	made := false
	for _, r := range rights {
		// A hash or a stream without a time to live would stay for good.
		if r.creates && !made {
			continue
		}
		err := u.try(ctx, r, key)

		// Most commands fail by the key's type, which is expected. A set that fails, or a call
		// that has run out of time, says nothing about rights.
		if err != nil && !redis.IsPermissionError(err) && (r.command == "set" || ctx.Err() != nil) {
			return nil, fmt.Errorf("%s: %w", r.command, err)
		}

		made = made || r.command == "set" && err == nil
		note(r.command, err)
	}

	// The keys of the fleet go by another pattern. No instance has the name of this field.
	note("hdel", u.home.client.Do(ctx, "hdel", fleetKey(u.service, "instances"), policy).Err())
	return list, nil
}

// try sends one command.
func (u *user) try(ctx context.Context, r right, key string) error {
	switch {
	case r.command == "publish": // harmless: instances read their states once more
		return u.home.client.Publish(ctx, fleetKey(u.service, "changed"), "doctor").Err()
	case r.command == "subscribe":
		subscription := u.home.client.Subscribe(ctx, fleetKey(u.service, "changed"))
		defer subscription.Close()
		_, err := subscription.ReceiveTimeout(ctx, replyTimeout)
		return err
	case r.keyless:
		return u.home.client.Do(ctx, append([]any{r.command}, r.args...)...).Err()
	}
	return u.home.client.Do(ctx, append([]any{r.command, key}, r.args...)...).Err()
}

const defaultUser = "default"

// name returns the name under which Redis knows this client.
func (u *user) name(ctx context.Context) string {
	name, err := u.home.client.Do(ctx, "ACL", "WHOAMI").Text()
	if err == nil {
		return name
	}
	switch c := u.client.(type) {
	case *redis.Client:
		name = c.Options().Username
	case *redis.ClusterClient:
		name = c.Options().Username
	}
	return cmp.Or(name, "of unknown name")
}

// acl is the command that gives a user exactly what the library needs. It proposes a new user
// in place of the default user, which other services may depend on.
func (u *user) acl(name string) string {
	if name == defaultUser || strings.Contains(name, " ") {
		name = "shadowlimit on >PASSWORD"
	}

	words := []string{"ACL", "SETUSER", name, "resetkeys"}
	if u.channels {
		words = append(words, "resetchannels", "&"+fleetKey(u.service, "changed"))
	}
	words = append(words, "-@all", "~"+fleetKey(u.service, "*"), "~"+algorithms.KeyPrefix+"{"+u.service+":*")
	for _, r := range rights {
		words = append(words, "+"+r.command)
	}

	// go-redis itself sends these, to find the nodes and to choose the database.
	switch c := u.client.(type) {
	case *redis.ClusterClient:
		words = append(words, "+cluster|slots", "+command")
	case *redis.Client:
		if c.Options().DB != 0 {
			words = append(words, "+select")
		}
	}
	return strings.Join(words, " ")
}
