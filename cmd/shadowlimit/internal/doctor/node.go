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

	"github.com/shadowlimit/shadowlimit/lua"
)

// node is one server, and what it reports about itself.
type node struct {
	name    string // "" where there is only one
	cluster bool   // it was given as part of a cluster
	client  redis.Cmdable
	do      func(ctx context.Context, args ...any) *redis.Cmd

	hello   map[string]string // fields of HELLO
	info    map[string]string // fields of INFO
	infoErr error             // why info is not known
	save    string            // when snapshots are written
	saveErr error             // why save is not known
}

// nodes returns the servers that hold keys.
func (d *doctor) nodes(ctx context.Context) ([]*node, error) {
	cluster, ok := d.client.(*redis.ClusterClient)
	if !ok {
		return []*node{{client: d.client, do: d.client.Do}}, nil
	}

	// ForEachMaster calls concurrently; sorting makes two reports comparable.
	var mu sync.Mutex
	var list []*node
	err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()

		list = append(list, &node{name: c.Options().Addr, cluster: true, client: c, do: c.Do})
		return nil
	})

	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return list, err
}

func (n *node) examine(ctx context.Context) []Finding {
	n.ask(ctx)

	list := []Finding{
		n.version(), n.role(), n.mode(), n.eviction(), n.memory(), n.persistence(), n.clock(ctx), n.latency(ctx),
	}
	for i := range list {
		list[i].Node = n.name
	}
	return list
}

// ask gathers what the server reports about itself. A failure leaves a field unknown, and each
// check says so for itself.
func (n *node) ask(ctx context.Context) {
	n.hello, n.info = map[string]string{}, map[string]string{}

	// HELLO needs no right, so version, role and mode are known for every user.
	if reply, ok := n.do(ctx, "HELLO", 3).Val().(map[any]any); ok {
		for field, value := range reply {
			n.hello[fmt.Sprint(field)] = fmt.Sprint(value)
		}
	}

	for _, section := range []string{"memory", "persistence"} {
		text, err := n.client.Info(ctx, section).Result()
		if err != nil {
			n.infoErr = err
		}
		for line := range strings.Lines(text) {
			if field, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				n.info[field] = value
			}
		}
	}

	config, err := n.client.ConfigGet(ctx, "save").Result()
	n.save, n.saveErr = config["save"], err
}

// unknown is the finding of a check that could not be made: a warning, for nothing is known to
// be wrong.
func unknown(check string, err error) Finding {
	f := Finding{Check: check, Level: warning, Message: "could not be checked"}
	if err != nil {
		f.Message += ": " + err.Error()
	}
	return f
}

// unpermitted is the finding of a check for which this user may lack a right.
func unpermitted(check string, err error) Finding {
	f := unknown(check, err)
	if redis.IsPermissionError(err) {
		f.Fix = "run doctor once as a user with the rights to INFO and CONFIG GET; the service needs neither"
	}
	return f
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
	case r.before(channelRights):
		f.Level, f.Fix = warning, "update it when you can"
		f.Message += " works; before 6.2 every user may use every channel, " +
			"and no user can be limited to only reading or only writing keys"
	case r.before(keyRights):
		f.Level, f.Fix = warning, "update it when you can; until then create users with resetchannels"
		f.Message += " works; before 7.0 a new user may use every channel, " +
			"and no user can be limited to only reading or only writing keys"
	}
	return f
}

func (n *node) role() Finding {
	switch role := n.hello["role"]; role {
	case "master":
		return Finding{Check: "role", Level: fine, Message: "a primary"}
	case "":
		return unknown("role", nil)
	default:
		return Finding{
			Check: "role", Level: problem, Message: "a " + role + ": it refuses writes or loses them, so no limit is kept",
			Fix: "give the address of the primary, or of the sentinels: redis+sentinel://HOST:PORT?master_name=NAME",
		}
	}
}

func (n *node) mode() Finding {
	f := Finding{Check: "cluster", Level: fine, Message: "no"}
	switch mode := n.hello["mode"]; {
	case mode == "":
		return unknown(f.Check, nil)
	case mode == "cluster" && !n.cluster:
		f.Level, f.Message = problem, "a node of a cluster, but given as a single server: it refuses the keys of other nodes"
		f.Fix = "use a cluster client; for this command: redis+cluster://HOST:PORT"
	case mode == "cluster":
		f.Message = "a node of one, so no side can be synchronized (sync in the policy file)"
	case mode == "sentinel":
		f.Level, f.Message = problem, "a sentinel, which keeps no keys"
		f.Fix = "give redis+sentinel://HOST:PORT?master_name=NAME"
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
		return unpermitted(f.Check, n.infoErr)
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
		return unpermitted(f.Check, n.infoErr)
	case most == 0:
		f.Message = fmt.Sprintf("%.0f MiB used; maxmemory is not set, so the machine's memory is the bound", used/mib)
		return f
	}

	// A server that evicts any key is always full, and still takes writes.
	f.Message = fmt.Sprintf("%.0f of %.0f MiB used", used/mib, most/mib)
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

func (n *node) persistence() Finding {
	f := Finding{Check: "persistence", Level: fine}

	switch {
	case n.info["aof_enabled"] == "":
		return unpermitted(f.Check, n.infoErr)
	case n.info["rdb_last_bgsave_status"] == "err" || n.info["aof_last_write_status"] == "err":
		f.Level, f.Fix = problem, "read its log; make room on its disk"
		f.Message = "the last write to disk failed: Redis may refuse writes until one succeeds"
	case n.info["aof_enabled"] == "1":
		f.Message = "an append-only file keeps stages and evidence over a restart"
	case n.saveErr != nil:
		return unpermitted(f.Check, n.saveErr)
	case n.save == "":
		f.Level, f.Fix = warning, "CONFIG SET appendonly yes"
		f.Message = "neither an append-only file nor snapshots: a restart loses stages and evidence, " +
			"except what live instances publish again"
	default:
		f.Message = "snapshots (" + n.save + "): a restart loses everything after the last one"
	}
	return f
}

// mostSkew is how far apart clocks may be without a warning.
const mostSkew = 500 * time.Millisecond

// clock compares the server's clock with this machine's. The fastest of a few round trips is
// the most exact: its error is at most half of its duration.
func (n *node) clock(ctx context.Context) Finding {
	f := Finding{Check: "clock", Level: fine}
	var offset, fastest time.Duration
	for i := range 5 {
		start := time.Now()
		now, err := n.client.Time(ctx).Result()
		if err != nil {
			return unknown(f.Check, err)
		}
		if trip := time.Since(start); i == 0 || trip < fastest {
			fastest, offset = trip, now.Sub(start.Add(trip/2))
		}
	}

	f.Message = fmt.Sprintf("%s from this machine's", offset.Round(time.Millisecond))
	if offset.Abs() > mostSkew+fastest/2 {
		f.Level, f.Fix = warning, "synchronise both with NTP"
		f.Message += ": limits go by Redis's clock, but logs, metrics and foreign limiters by the clock of each machine"
	}
	return f
}

// samples is how often latency is measured.
const samples = 20

func (n *node) latency(ctx context.Context) Finding {
	const fix = "bring service and Redis nearer, or find out what Redis is busy with: SLOWLOG GET"

	f := Finding{Check: "latency", Level: fine}
	for _, probe := range []struct {
		what string
		do   func() error
	}{
		{"ping", func() error { return n.client.Ping(ctx).Err() }},
		{"script", func() error { return n.client.Eval(ctx, "return redis.call('TIME')", nil).Err() }},
	} {
		durations, err := measure(probe.do)
		// The access check names every refused command: here that is no second problem.
		if redis.IsPermissionError(err) {
			return unknown(f.Check, err)
		}
		if err != nil {
			return Finding{
				Check: f.Check, Level: problem, Message: fmt.Sprintf("%s: %v", probe.what, err),
				Fix: "find out what Redis is busy with: SLOWLOG GET",
			}
		}

		median, worst := durations[len(durations)/2], durations[len(durations)-1]
		f.Message += fmt.Sprintf(", %d %ss: median %s, worst %s", samples, probe.what, rounded(median), rounded(worst))
		if worst > lua.DefaultBudget {
			f.Level, f.Fix = warning, fix
		}
	}

	f.Message = strings.TrimPrefix(f.Message, ", ")
	if f.Level == warning {
		f.Message += fmt.Sprintf(": a request that takes over %s, the budget of lua.Tune, is decided by the rule for failures",
			lua.DefaultBudget)
	}
	return f
}

// measure returns how long something takes, sorted.
func measure(do func() error) ([]time.Duration, error) {
	durations := make([]time.Duration, samples)
	for i := range durations {
		start := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		durations[i] = time.Since(start)
	}

	slices.Sort(durations)
	return durations, nil
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
