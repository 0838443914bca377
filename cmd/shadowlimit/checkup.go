package main

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

// node is one server, and what it says of itself.
type node struct {
	name    string // "" where there is one only
	cluster bool   // it was given as part of a cluster
	client  redis.Cmdable
	do      func(ctx context.Context, args ...any) *redis.Cmd

	hello    map[string]string
	info     map[string]string
	unknown  error  // why info is not known
	save     string // when snapshots are written
	saveless error  // why save is not known
}

// nodes returns the servers that hold keys.
func (d *doctor) nodes(ctx context.Context) ([]*node, error) {
	cluster, ok := d.client.(*redis.ClusterClient)
	if !ok {
		return []*node{{client: d.client, do: d.client.Do}}, nil
	}
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

func (n *node) examine(ctx context.Context) []finding {
	n.ask(ctx)
	list := []finding{n.version(), n.role(), n.mode(), n.eviction(), n.memory(), n.persistence(), n.clock(ctx), n.latency(ctx)}
	for i := range list {
		list[i].Node = n.name
	}
	return list
}

// ask gathers what the server says of itself. HELLO is open to every user.
func (n *node) ask(ctx context.Context) {
	n.hello, n.info = map[string]string{}, map[string]string{}
	if reply, ok := n.do(ctx, "HELLO", 3).Val().(map[any]any); ok {
		for field, value := range reply {
			n.hello[fmt.Sprint(field)] = fmt.Sprint(value)
		}
	}
	for _, section := range []string{"memory", "persistence"} {
		text, err := n.client.Info(ctx, section).Result()
		if err != nil {
			n.unknown = err
		}
		for line := range strings.Lines(text) {
			if field, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				n.info[field] = value
			}
		}
	}
	config, err := n.client.ConfigGet(ctx, "save").Result()
	n.save, n.saveless = config["save"], err
}

// unseen is a check that could not be made: nothing is wrong as far as is known.
func unseen(check string, err error) finding {
	f := finding{Check: check, Level: warning, Message: "could not be looked at"}
	if err != nil {
		f.Message += ": " + err.Error()
	}
	return f
}

// untold is a check of what the server does not tell this user.
func untold(check string, err error) finding {
	f := unseen(check, err)
	if redis.IsPermissionError(err) {
		f.Fix = "run doctor once as a user who may INFO and CONFIG GET; the service needs neither"
	}
	return f
}

// leastVersion is the least that is supported.
var leastVersion = [2]int{6, 2}

func (n *node) version() finding {
	text := n.hello["version"]
	f := finding{Check: "version", Level: fine, Message: n.hello["server"] + " " + text}
	var v [2]int
	if _, err := fmt.Sscanf(text, "%d.%d", &v[0], &v[1]); err != nil {
		return unseen(f.Check, nil)
	}
	switch {
	case slices.Compare(v[:], leastVersion[:]) < 0:
		f.Level, f.Fix = problem, "update it"
		f.Message += fmt.Sprintf(" is not supported: the scripts are made for %d.%d and later", leastVersion[0], leastVersion[1])
	case v[0] < 7:
		f.Level, f.Fix = warning, "update it when you can; until then make users with resetchannels"
		f.Message += " works; before 7.0 new users may use every channel, and none can be given only reading or only writing of keys"
	}
	return f
}

func (n *node) role() finding {
	switch role := n.hello["role"]; role {
	case "master":
		return finding{Check: "role", Level: fine, Message: "a primary"}
	case "":
		return unseen("role", nil)
	default:
		return finding{Check: "role", Level: problem, Message: "a " + role + ": it takes no writes, or loses them, so no limit is kept", Fix: "give the address of the primary, or of the sentinels: redis+sentinel://HOST:PORT?master_name=NAME"}
	}
}

func (n *node) mode() finding {
	f := finding{Check: "cluster", Level: fine, Message: "no"}
	switch mode := n.hello["mode"]; {
	case mode == "":
		return unseen(f.Check, nil)
	case mode == "cluster" && !n.cluster:
		f.Level, f.Message = problem, "a node of a cluster, but given as a single server: keys of other nodes are refused"
		f.Fix = "make a cluster client; here: redis+cluster://HOST:PORT"
	case mode == "cluster":
		f.Message = "a node of it"
	case mode == "sentinel":
		f.Level, f.Message, f.Fix = problem, "a sentinel, which keeps no keys", "give redis+sentinel://HOST:PORT?master_name=NAME"
	}
	return f
}

// eviction goes by what Redis may drop: states, audit trails and announcements have
// no time to live; records of keys, and evidence, have.
func (n *node) eviction() finding {
	f := finding{Check: "eviction", Level: fine}
	policy, most := n.info["maxmemory_policy"], n.info["maxmemory"]
	const own = "CONFIG SET maxmemory-policy noeviction, or give the service a Redis of its own"
	switch {
	case policy == "":
		return untold(f.Check, n.unknown)
	case policy == "noeviction":
		f.Message = "noeviction is right: nothing is dropped; where memory runs out, writes are refused and each policy's on_store_failure decides"
	case most == "0" && strings.HasPrefix(policy, "volatile-"):
		f.Message = policy + " drops nothing while maxmemory is 0"
	case most == "0":
		f.Level, f.Fix = warning, own
		f.Message = policy + " drops nothing while maxmemory is 0; once that is set, it drops limits, stages and evidence"
	case strings.HasPrefix(policy, "volatile-"):
		f.Level, f.Fix = warning, own
		f.Message = policy + " keeps stages, which have no time to live, but may drop limits and evidence, which have: then clients get more than their limit"
	default:
		f.Level, f.Fix = problem, own
		f.Message = policy + " may drop any key: limits, so that clients get more than theirs, and stages and evidence of a migration"
	}
	return f
}

// Shares of maxmemory above which memory is nearly out.
const nearlyFull = 0.9

func (n *node) memory() finding {
	f := finding{Check: "memory", Level: fine}
	used, err := strconv.ParseFloat(n.info["used_memory"], 64)
	most, err2 := strconv.ParseFloat(n.info["maxmemory"], 64)
	const mib = 1 << 20
	switch {
	case err != nil || err2 != nil:
		return untold(f.Check, n.unknown)
	case most == 0:
		f.Message = fmt.Sprintf("%.0f MiB used; maxmemory is not set, so the machine's memory is the bound", used/mib)
		return f
	}
	f.Message = fmt.Sprintf("%.0f of %.0f MiB used", used/mib, most/mib)
	evicts := strings.HasPrefix(n.info["maxmemory_policy"], "allkeys-") // full is what such a one always is
	switch {
	case used >= most && !evicts:
		f.Level, f.Message, f.Fix = problem, f.Message+": writes are refused", "raise maxmemory"
	case used >= nearlyFull*most && !evicts:
		f.Level, f.Message, f.Fix = warning, f.Message+": soon writes are refused", "raise maxmemory"
	}
	return f
}

func (n *node) persistence() finding {
	f := finding{Check: "persistence", Level: fine}
	switch {
	case n.info["aof_enabled"] == "":
		return untold(f.Check, n.unknown)
	case n.info["rdb_last_bgsave_status"] == "err" || n.info["aof_last_write_status"] == "err":
		f.Level, f.Message, f.Fix = problem, "the last attempt to write to disk failed: Redis may refuse writes until one succeeds", "see its log; make room on its disk"
	case n.info["aof_enabled"] == "1":
		f.Message = "an append-only file keeps stages and evidence over a restart"
	case n.saveless != nil:
		return untold(f.Check, n.saveless)
	case n.save == "":
		f.Level, f.Fix = warning, "CONFIG SET appendonly yes"
		f.Message = "neither an append-only file nor snapshots: stages and evidence are lost at a restart, but for what live instances tell again"
	default:
		f.Message = "snapshots (" + n.save + "): a restart loses what came after the last one"
	}
	return f
}

// mostSkew is how far clocks may be apart without a warning.
const mostSkew = 500 * time.Millisecond

// clock compares the server's clock with this machine's, by the quickest of some
// round trips, half of which is how exact it can be.
func (n *node) clock(ctx context.Context) finding {
	f := finding{Check: "clock", Level: fine}
	var offset, quickest time.Duration
	for i := range 5 {
		start := time.Now()
		now, err := n.client.Time(ctx).Result()
		if err != nil {
			return unseen(f.Check, err)
		}
		if took := time.Since(start); i == 0 || took < quickest {
			quickest, offset = took, now.Sub(start.Add(took/2))
		}
	}
	f.Message = fmt.Sprintf("%s from this machine's", offset.Round(time.Millisecond))
	if offset.Abs() > mostSkew+quickest/2 {
		f.Level, f.Fix = warning, "let both follow NTP"
		f.Message += ": limits go by Redis's clock, but logs, metrics and limiters of your own by that of each machine"
	}
	return f
}

// samples is how often latency is measured.
const samples = 20

func (n *node) latency(ctx context.Context) finding {
	f := finding{Check: "latency", Level: fine}
	for _, try := range []struct {
		what string
		do   func() error
	}{
		{"ping", func() error { return n.client.Ping(ctx).Err() }},
		{"script", func() error { return n.client.Eval(ctx, "return redis.call('TIME')", nil).Err() }},
	} {
		took, err := measure(try.do)
		if redis.IsPermissionError(err) {
			return unseen(f.Check, err) // access names what is refused
		}
		if err != nil {
			return finding{Check: f.Check, Level: problem, Message: fmt.Sprintf("%s: %v", try.what, err), Fix: "see what Redis is busy with: SLOWLOG GET"}
		}
		worst := took[len(took)-1]
		f.Message += fmt.Sprintf(", %d %ss: median %s, worst %s", samples, try.what, rounded(took[len(took)/2]), rounded(worst))
		if worst > lua.DefaultBudget {
			f.Level = warning
		}
	}
	f.Message = strings.TrimPrefix(f.Message, ", ")
	if f.Level == warning {
		f.Message += fmt.Sprintf(": over %s, the time that lua.Tune gives a request, the rule for failures decides", lua.DefaultBudget)
		f.Fix = "bring service and Redis nearer, or see what Redis is busy with: SLOWLOG GET"
	}
	return f
}

// measure returns how long something takes, sorted.
func measure(do func() error) ([]time.Duration, error) {
	took := make([]time.Duration, samples)
	for i := range took {
		start := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took, nil
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
