package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/lua"
)

// node is one server, and what it reports about itself.
type node struct {
	name    string // "" where there is only one
	cluster bool   // it was given as part of a cluster
	client  redis.UniversalClient
	err     error // of PING

	hello   map[string]string // fields of HELLO
	info    map[string]string // fields of INFO memory
	infoErr error             // why info is not known
}

// nodesOf returns the servers that hold keys, and whether each answers.
func nodesOf(ctx context.Context, client redis.UniversalClient) ([]*node, error) {
	ping := func(ctx context.Context, n *node) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		n.err = n.client.Ping(ctx).Err()
	}
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		n := &node{client: client}
		ping(ctx, n)
		return []*node{n}, nil
	}

	// ForEachMaster calls concurrently; sorting makes two reports comparable.
	var mu sync.Mutex
	var list []*node
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		n := &node{name: c.Options().Addr, cluster: true, client: c}
		ping(ctx, n)
		mu.Lock()
		defer mu.Unlock()
		list = append(list, n)
		return nil
	})

	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return list, err
}

// addressOf returns the address of a cluster's node that has a key; "" where that is not known, and of a single server.
func addressOf(ctx context.Context, client redis.UniversalClient, key string) string {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

func (n *node) examine(ctx context.Context) []Finding {
	n.ask(ctx)

	clock, latency := n.clockAndLatency(ctx)
	list := []Finding{n.version(), n.role(), n.eviction(), n.memory(), clock, latency}
	for i := range list {
		list[i].Node = n.name
	}
	return list
}

// silence says that the node does not answer, and what that means for clients.
func (n *node) silence() string {
	return fmt.Sprintf("no answer: %v; on_store_failure decides for the keys of clients that are there", n.err)
}

// without returns what a service lacks without the node.
func (n *node) without(ctx context.Context, client redis.UniversalClient, service string, policies []string) status.Node {
	away := status.Node{Address: n.name, Policies: []string{}, Message: n.silence()}
	for _, policy := range policies {
		if addressOf(ctx, client, policyKey(service, policy, "ledger")) == n.name {
			away.Policies = append(away.Policies, policy)
		}
	}
	if len(away.Policies) > 0 {
		away.Message += "; it has the evidence of " + humanize.Printable(strings.Join(away.Policies, ", ")) +
			": until it answers, nothing rolls these back by itself, and the command rollback does"
	}
	return away
}

// ask gathers what the server reports about itself. A failure leaves a field unknown, and each
// check says so for itself.
func (n *node) ask(ctx context.Context) {
	n.hello, n.info = map[string]string{}, map[string]string{}

	// HELLO needs no right, so version, role and mode are known for every user.
	if reply, ok := n.client.Do(ctx, "HELLO", 3).Val().(map[any]any); ok {
		for field, value := range reply {
			n.hello[fmt.Sprint(field)] = fmt.Sprint(value)
		}
	}

	text, err := n.client.Info(ctx, "memory").Result()
	n.infoErr = err
	for line := range strings.Lines(text) {
		if field, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			n.info[field] = value
		}
	}
}

// release is the version of a server that decides what it can do.
type release struct{ major, minor int }

func (r release) before(other release) bool {
	return r.major < other.major || r.major == other.major && r.minor < other.minor
}

// Releases from which on a server can do more. A Valkey begins at 7.2.
var (
	leastRelease  = release{6, 0} // is supported: users have rights, and INFO, HELLO and scripts all that is asked of them
	channelRights = release{6, 2} // users can be limited to channels
	keyRights     = release{7, 0} // resetchannels is the default of new users, who can be limited to reading a key
)

// release returns the server's own, if it is known.
func (n *node) release() (r release, known bool) {
	_, err := fmt.Sscanf(n.hello["version"], "%d.%d", &r.major, &r.minor)
	return r, err == nil
}

func (n *node) version() Finding {
	f := Finding{Check: "version", Level: fine, Message: n.hello["server"] + " " + n.hello["version"]}

	r, known := n.release()
	switch {
	case !known:
		return unknown(f.Check, nil)
	case r.before(leastRelease):
		f.Level, f.Fix = problem, "update it"
		f.Message += fmt.Sprintf(" is not supported: %d.%d or later is needed", leastRelease.major, leastRelease.minor)
	case r.before(keyRights):
		f.Level, f.Fix = warning, "update it when you can"
		f.Message += " works; before 7.0 a new user may use every channel, and reads every key that it writes"
	}
	return f
}

// role holds that the server is a primary, and reached as what it is.
func (n *node) role() Finding {
	f := Finding{Check: "role", Level: problem}
	switch role, mode := n.hello["role"], n.hello["mode"]; {
	case mode == "sentinel":
		f.Message, f.Fix = "a sentinel, which keeps no keys", "give redis+sentinel://HOST:PORT?master_name=NAME"
	case role == "":
		return unknown(f.Check, nil)
	case role != "master":
		f.Message = "a " + role + ": it refuses writes or loses them, so no limit is kept"
		f.Fix = "give the address of the primary, or of the sentinels: redis+sentinel://HOST:PORT?master_name=NAME"
	case mode == "cluster" && !n.cluster:
		f.Message = "a node of a cluster, but given as a single server: it refuses the keys of other nodes"
		f.Fix = "use a cluster client; for this command: redis+cluster://HOST:PORT"
	default:
		f.Level, f.Message = fine, "a primary"
	}
	return f
}

// eviction goes by the keys that Redis may drop. Stages, audit trails and announcements have no
// time to live, so volatile-* policies spare them; records of keys and evidence have one.
func (n *node) eviction() Finding {
	const fix = "CONFIG SET maxmemory-policy noeviction, or give the service a Redis of its own"

	f := Finding{Check: "eviction", Level: fine}
	policy, most := n.info["maxmemory_policy"], n.info["maxmemory"]
	switch {
	case policy == "":
		return unknown(f.Check, n.infoErr)
	case policy == "noeviction":
		f.Message = "noeviction is right: nothing is dropped; without free memory Redis refuses writes, " +
			"and each policy's on_store_failure decides"
	case most == "0" && strings.HasPrefix(policy, "volatile-"):
		f.Message = policy + " drops nothing while maxmemory is 0"
	case most == "0":
		f.Level, f.Fix = warning, fix
		f.Message = policy + " drops nothing while maxmemory is 0; once that is set, it drops limits, stages and evidence"
	case strings.HasPrefix(policy, "volatile-"):
		f.Level, f.Fix = warning, fix
		f.Message = policy + " keeps stages, which have no time to live, " +
			"but may drop limits and evidence, which have one: clients then get more than their limit"
	default:
		f.Level, f.Fix = problem, fix
		f.Message = policy + " may drop any key: limits, so that clients get more than theirs, " +
			"and the stages and evidence of a migration"
	}
	return f
}

// nearlyFull is the share of maxmemory from which on memory is about to run out.
const nearlyFull = 0.9

func (n *node) memory() Finding {
	f := Finding{Check: "memory", Level: fine}
	used, err := strconv.ParseFloat(n.info["used_memory"], 64)
	most, err2 := strconv.ParseFloat(n.info["maxmemory"], 64)
	switch {
	case err != nil || err2 != nil:
		return unknown(f.Check, n.infoErr)
	case most == 0:
		f.Message = fmt.Sprintf("%.0f MiB used; maxmemory is not set, so the machine's memory is the bound", used/(1<<20))
		return f
	}

	// A server that evicts any key is always full, and still takes writes.
	f.Message = fmt.Sprintf("%.0f of %.0f MiB used", used/(1<<20), most/(1<<20))
	evicts := strings.HasPrefix(n.info["maxmemory_policy"], "allkeys-")
	switch {
	case used >= most && !evicts:
		f.Level, f.Fix = problem, "raise maxmemory"
		f.Message += ": writes are refused"
	case used >= nearlyFull*most && !evicts:
		f.Level, f.Fix = warning, "raise maxmemory"
		f.Message += ": writes will be refused soon"
	}
	return f
}

const (
	samples  = 20                     // calls that measure latency
	mostSkew = 500 * time.Millisecond // how far apart clocks may be without a warning
)

// clockAndLatency asks the server's clock by scripts, as every request does. The fastest call tells the clocks'
// distance best: its error is at most half of its duration.
func (n *node) clockAndLatency(ctx context.Context) (clock, latency Finding) {
	clock, latency = Finding{Check: "clock", Level: fine}, Finding{Check: "latency", Level: fine}
	var offset time.Duration
	durations := make([]time.Duration, samples)
	for i := range durations {
		start := time.Now()
		now, err := n.client.Eval(ctx, "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", nil).Int64()
		durations[i] = time.Since(start)

		// The access check names every refused command: here that is no second problem.
		if err != nil {
			latency = unknown(latency.Check, err)
			if !redis.IsPermissionError(err) {
				latency.Level, latency.Fix = problem, "find out what Redis is busy with: SLOWLOG GET"
			}
			return unknown(clock.Check, err), latency
		}
		if durations[i] == slices.Min(durations[:i+1]) {
			offset = time.UnixMicro(now).Sub(start.Add(durations[i] / 2))
		}
	}
	slices.Sort(durations)

	clock.Message = fmt.Sprintf("%s from this machine's", offset.Round(time.Millisecond))
	if offset.Abs() > mostSkew+durations[0]/2 {
		clock.Level, clock.Fix = warning, "synchronise both with NTP"
		clock.Message += ": limits go by Redis's clock, but logs, metrics and custom limiters by the clock of each machine"
	}

	median, worst := durations[samples/2], durations[samples-1]
	latency.Message = fmt.Sprintf("%d scripts: median %s, worst %s",
		samples, median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond))
	if worst > lua.DefaultBudget {
		latency.Level, latency.Fix = warning, "bring service and Redis nearer, or find out what Redis is busy with: SLOWLOG GET"
		latency.Message += fmt.Sprintf(": a request that takes over %s, the budget of lua.Tune, is decided by the rule for failures",
			lua.DefaultBudget)
	}
	return clock, latency
}
