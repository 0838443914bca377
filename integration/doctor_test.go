package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// finding is the result of one check in the output of doctor -o json.
type finding struct{ Check, Node, Level, Message, Fix string }

// examined is the result of doctor.
type examined struct {
	status   int // of the process
	findings []finding
	talk     string // standard error
}

// doctor runs the command on the Redis of a URL.
func doctor(t *testing.T, url, name string) examined {
	t.Helper()

	path, err := command()
	if err != nil {
		t.Fatal(err)
	}

	var talk strings.Builder
	cmd := exec.Command(path, "doctor", "-o", "json", "--redis", url, "--name", name)
	cmd.Stderr = &talk
	out, err := cmd.Output()

	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}

	var report struct{ Checks []finding }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%s%s: %v", out, talk.String(), err)
	}

	return examined{cmd.ProcessState.ExitCode(), report.Checks, talk.String()}
}

func (e *examined) find(t *testing.T, check string) finding {
	t.Helper()
	i := slices.IndexFunc(e.findings, func(f finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no check %q in %+v", check, e.findings)
	}
	return e.findings[i]
}

// rights returns the words of the ACL command that doctor recommends.
func (e *examined) rights(t *testing.T) []any {
	t.Helper()

	_, line, found := strings.Cut(e.find(t, "access").Fix, ": ACL ")
	if !found {
		t.Fatalf("no ACL line in %+v", e.findings)
	}

	words := []any{"ACL"}
	for _, word := range strings.Fields(line) {
		words = append(words, word)
	}

	return words
}

// everyAlgorithm is a file whose policies use all scripts.
func everyAlgorithm(t *testing.T, name string) *policies.Set {
	t.Helper()

	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nname: %s\npolicies:\n", name)
	for _, a := range algorithms.All {
		fmt.Fprintf(&b, "  - name: %s\n    key: request.user\n    cost: request.size\n", strings.ReplaceAll(a.Name(), "_", "-"))
		fmt.Fprintf(&b, "    authoritative: { algorithm: %s, limit: 5, window: 10ms", a.Name())
		if algorithms.TraitsOf(a).Burst == algorithms.BurstRequired {
			b.WriteString(", burst: 5")
		}
		b.WriteString(" }\n    candidate: { algorithm: sliding_window_log, id: other, limit: 3, window: 10ms }\n")
	}

	set, err := policies.Load("every.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}

	return set
}

// use runs a service that decides and writes, and the commands that move it.
func use(t *testing.T, client redis.UniversalClient, url, name string) {
	t.Helper()

	h := harnessOf(t, shadow.Config{Policies: everyAlgorithm(t, name), Redis: client})
	for n := range 200 {
		if d := h.Decide(t.Context(), &policies.Request{User: "alice", Size: int64(n % 4)}); d.Fallback {
			t.Fatalf("%+v", d)
		}
	}

	if err := h.Sync(t.Context()); err != nil {
		t.Error(err)
	}

	path, err := command()
	if err != nil {
		t.Fatal(err)
	}

	for _, line := range []string{
		"status", "top gcra", "history gcra", "promote gcra --full --force --reason x", "pause gcra", "resume gcra",
		"rollback gcra --reason x", "resume gcra --reason x",
	} {
		out, err := exec.Command(path, append(strings.Fields(line), "--redis", url, "--name", name)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// denied returns the commands that the server has refused since the last call. CLIENT is
// left out: go-redis does without it.
func denied(t *testing.T, admin *redis.Client) (list []string) {
	t.Helper()

	log, err := admin.ACLLog(t.Context(), 128).Result()
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range log {
		if !strings.HasPrefix(entry.Object, "client") {
			list = append(list, entry.Reason+" "+entry.Object)
		}
	}

	if err := admin.ACLLogReset(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	return list
}

// The rights that doctor recommends are enough for the library and the commands, and
// allow nothing else.
func TestMinimalRights(t *testing.T) {
	t.Parallel()
	addr, name := privateServer(t), namespace()
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()

	before := doctor(t, "redis://"+addr, name)
	if f := before.find(t, "access"); before.status != 0 || f.Level != "warning" {
		t.Errorf("the default user: status %d, %+v", before.status, f)
	}

	line := before.rights(t)
	if err := admin.Do(t.Context(), line...).Err(); err != nil {
		t.Fatalf("%v: %v", line, err)
	}

	url := "redis://shadowlimit:PASSWORD@" + addr
	options := lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}, Username: "shadowlimit", Password: "PASSWORD"}, time.Second)
	client := redis.NewUniversalClient(options)
	defer client.Close()

	use(t, client, url, name)
	if list := denied(t, admin); len(list) > 0 {
		t.Errorf("refused: %v", list)
	}

	after := doctor(t, url, name)
	if after.status != 0 || after.find(t, "access").Level != "ok" {
		t.Errorf("%+v", after)
	}

	others := [][]any{
		{"get", "other"}, {"set", "other", "x"},
		{"hgetall", "shadowlimit1:{" + name + "-too}:policies"}, {"get", "shadowlimit1:{another:p:k}"},
		{"flushall"}, {"config", "get", "save"}, {"keys", "*"}, {"script", "flush"},
		{"eval", "return redis.call('GET', KEYS[1])", 1, "other"}, {"eval", "return redis.call('FLUSHALL')", 0},
	}
	if hasChannelRights(t, admin) {
		others = append(others, []any{"publish", "other", "x"})
	}

	for _, other := range others {
		if err := client.Do(t.Context(), other...).Err(); !isRefusal(err) {
			t.Errorf("%v: %v, want a refusal", other, err)
		}
	}
}

// hasChannelRights reports whether the server can limit users to channels, as it can from 6.2 on.
func hasChannelRights(t *testing.T, admin *redis.Client) bool {
	t.Helper()
	err := admin.Do(t.Context(), "ACL", "SETUSER", "nobody", "resetchannels").Err()
	if err != nil && !strings.Contains(err.Error(), "Syntax error") {
		t.Fatal(err)
	}
	return err == nil
}

// isRefusal reports whether Redis refused a command for missing rights. Versions of
// Redis word the refusal of a script's command differently.
func isRefusal(err error) bool {
	if err == nil {
		return false
	}

	texts := []string{"NOPERM", "ACL failure", "The user executing the script"}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// If a single right is missing, doctor names it.
func TestDoctorNamesWhatIsRefused(t *testing.T) {
	t.Parallel()
	addr, name := privateServer(t), namespace()
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()

	before := doctor(t, "redis://"+addr, name)
	line := before.rights(t)
	for _, word := range line {
		right, found := strings.CutPrefix(word.(string), "+")
		if !found {
			continue
		}

		err := errors.Join(
			admin.Do(t.Context(), line...).Err(),
			admin.Do(t.Context(), "ACL", "SETUSER", "shadowlimit", "-"+right).Err(),
		)
		if err != nil {
			t.Fatal(err)
		}

		after := doctor(t, "redis://shadowlimit:PASSWORD@"+addr, name)
		f := after.find(t, "access")
		_, what, _ := strings.Cut(f.Message, " may not run ")
		what = strings.TrimSuffix(what, "; commands that would make a key were not tried")
		if after.status != 1 || what != right {
			t.Errorf("without %s: status %d, %+v", right, after.status, f)
		}
	}

	if left := admin.Keys(t.Context(), "*").Val(); len(left) > 0 && !onlyExpiring(t, admin, left) {
		t.Errorf("left behind: %v", left)
	}
}

// onlyExpiring reports whether all keys have a time to live: a user without the right to
// delete leaves a key for some seconds.
func onlyExpiring(t *testing.T, admin *redis.Client, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return admin.PTTL(t.Context(), key).Val() < 0 })
}

func TestDoctorLeavesNothingBehind(t *testing.T) {
	addr := privateServer(t)
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()

	if found := doctor(t, "redis://"+addr, namespace()); found.status != 0 {
		t.Errorf("%+v", found)
	}
	if left := admin.Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDoctorOnABadRedis(t *testing.T) {
	t.Parallel()
	addr := privateServer(t)
	host, port, _ := strings.Cut(addr, ":")
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()

	set := func(args ...any) {
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	set("ACL", "SETUSER", "reader", "on", ">pw", "~*", "-@all", "+@read", "+@connection")
	if hasChannelRights(t, admin) {
		set("ACL", "SETUSER", "reader", "&*")
	}
	evicting := privateServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	full := privateServer(t, "--maxmemory", "1")
	replica := privateServer(t, "--replicaof", host, port)

	tests := []struct{ why, url, check, want string }{
		{"a user with the right to read only", "redis://reader:pw@" + addr, "access", "this user, reader, may not run set, "},
		{"a wrong password", "redis://reader:no@" + addr, "connection", "does not let this user in"},
		{"evicts everything", "redis://" + evicting, "eviction", "may drop any key"},
		{"no memory left", "redis://" + full, "memory", "writes are refused"},
		{"a replica", "redis://" + replica, "role", "a replica"},
		{"no server", "redis://127.0.0.1:1", "connection", "connection refused"},
		{"no answer", "redis://" + deafServer(t), "connection", "no answer from Redis"},
	}

	for _, tt := range tests {
		found := doctor(t, tt.url, namespace())
		f := found.find(t, tt.check)
		if f.Level != "problem" || !strings.Contains(f.Message, tt.want) || f.Fix == "" {
			t.Errorf("%s: %+v, want a problem with %q and a fix", tt.why, f, tt.want)
		}
		if found.status != 1 || !strings.Contains(found.talk, "problem") {
			t.Errorf("%s: status %d with %q, want 1 and the problem", tt.why, found.status, found.talk)
		}
	}
}

func TestDoctorOnACluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	addr, name := cluster.Options().Addrs[0], namespace()

	alone := doctor(t, "redis://"+addr, name)
	if f := alone.find(t, "role"); f.Level != "problem" || !strings.Contains(f.Fix, "redis+cluster://") {
		t.Errorf("%+v", f)
	}

	found := doctor(t, "redis+cluster://"+addr, name)
	nodes := 0
	for _, f := range found.findings {
		if f.Check == "role" && f.Level == "ok" && f.Node != "" {
			nodes++
		}
	}

	if found.status != 0 || nodes != 3 {
		t.Errorf("%+v", found)
	}

	// Each node has its own users.
	line := found.rights(t)
	err := cluster.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		return c.Do(ctx, line...).Err()
	})
	if err != nil {
		t.Fatal(err)
	}

	options := &redis.UniversalOptions{
		Addrs: cluster.Options().Addrs, IsClusterMode: true, Username: "shadowlimit", Password: "PASSWORD",
	}
	client := redis.NewUniversalClient(lua.Tune(options, time.Second))
	defer client.Close()

	use(t, client, "redis+cluster://shadowlimit:PASSWORD@"+addr, name)
	err = cluster.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		if list := denied(t, c); len(list) > 0 {
			t.Errorf("%s refused: %v", c.Options().Addr, list)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := doctor(t, "redis+cluster://shadowlimit:PASSWORD@"+addr, name); after.status != 0 {
		t.Errorf("%+v", after)
	}
}
