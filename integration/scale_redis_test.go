package integration

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// spent is what the nodes of a Redis have done since they started.
type spent struct {
	at       time.Time
	commands float64 // those inside of scripts, too
	polls    float64
	in, out  float64 // bytes
	cpu      float64 // s
}

func (f *scaled) spent(t *testing.T) (sum spent) {
	t.Helper()
	sum.at = time.Now()
	for _, node := range f.nodes {
		text, err := node.InfoMap(t.Context(), "stats", "cpu", "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		number := func(section, field string) float64 {
			n, err := strconv.ParseFloat(text[section][field], 64)
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			return n
		}

		sum.in += number("Stats", "total_net_input_bytes")
		sum.out += number("Stats", "total_net_output_bytes")
		sum.cpu += number("CPU", "used_cpu_user") + number("CPU", "used_cpu_sys")
		for name, stats := range text["Commandstats"] {
			if name == "cmdstat_info" { // of this program
				continue
			}
			var n float64
			if _, err := fmt.Sscanf(stats, "calls=%f,", &n); err != nil {
				t.Fatalf("%s: %q: %v", name, stats, err)
			}
			sum.commands += n
			if name == "cmdstat_get" {
				sum.polls += n
			}
		}
	}
	return sum
}

// processTime returns the CPU time of a process, 0 where the system has no /proc.
func processTime(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // Linux counts in hundredths
}

// heard is one command that a Redis has carried out.
type heard struct {
	from    string // the instance; "" inside of a script
	command string // with what the key is of, such as HSET open
	bytes   int    // as MONITOR shows it: somewhat more than was sent
}

// listen returns all commands of a time. They cost Redis more than usual meanwhile.
func (f *scaled) listen(t *testing.T, during time.Duration) (list []heard) {
	t.Helper()
	conn, err := net.Dial("tcp", f.nodes[0].Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(during, func() { conn.Close() })
	defer stop.Stop()
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}

	names := instancesOf(t, f.nodes[0])
	for reader := bufio.NewReaderSize(conn, 1<<20); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			return list
		}
		if source, rest, ok := strings.Cut(line, `] "`); ok {
			_, source, _ = strings.Cut(source, " [0 ")
			if _, name, opened := strings.Cut(rest, `"setname" "`); opened { // another connection
				names[source], _, _ = strings.Cut(name, `"`)
			}
			list = append(list, heard{names[source], commandOf(rest), len(rest)})
		}
	}
}

// instancesOf returns the instances by the addresses of their connections.
func instancesOf(t *testing.T, node *redis.Client) map[string]string {
	t.Helper()
	text, err := node.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for line := range strings.Lines(text) {
		fields := map[string]string{}
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		names[fields["addr"]] = fields["name"]
	}
	return names
}

// commandOf returns the command of a line of MONITOR, and of what its key is.
func commandOf(line string) string {
	command, rest, _ := strings.Cut(line, `"`)
	command = strings.ToUpper(command)
	if strings.HasPrefix(command, "EVAL") {
		if strings.Contains(rest, ":ledger:") {
			if strings.Contains(rest, ":changes\"") {
				return "script of slots"
			}
			return "script of hours"
		}
		for _, key := range []string{"assessments", "heard", "states"} {
			if strings.Contains(rest, "}:"+key+`"`) || strings.Contains(rest, ":"+key+`"`) {
				return "script of " + key
			}
		}
		return "script"
	}

	_, key, _ := strings.Cut(rest, `"`)
	key, _, _ = strings.Cut(key, `"`)
	_, what, named := strings.Cut(key, "}:")
	if !named {
		return command
	}
	if _, ledger, ok := strings.Cut(what, "ledger:"); ok {
		_, what, _ = strings.Cut(ledger, ":")
		if kind, _, cut := strings.Cut(what, ":"); cut {
			what = kind
		}
	}
	return command + " " + what
}

// rates are commands a second, by what they are for.
type rates map[string]frequency

type frequency struct{ calls, bytes float64 }

func (r rates) add(h heard, share float64) {
	before := r[h.command]
	r[h.command] = frequency{before.calls + share, before.bytes + share*float64(h.bytes)}
}

// split tells what each instance asks from what the leader asks besides.
func split(list []heard, f *scaled, during time.Duration) (each, rest rates) {
	busy := map[string]bool{}
	for _, h := range list {
		if h.command == "script of assessments" || h.command == "script of hours" {
			busy[h.from] = true
		}
	}
	idle := map[string]bool{}
	each, rest = rates{}, rates{}
	for _, h := range list {
		if h.from != "" && !busy[h.from] {
			idle[h.from] = true
		}
	}

	for _, h := range list {
		if h.from == "" { // a part of a script
			continue
		}
		rest.add(h, 1/during.Seconds())
		if idle[h.from] {
			each.add(h, 1/during.Seconds()/float64(len(idle)))
		}
	}
	for command, one := range each {
		all, n := rest[command], float64(f.instances)
		rest[command] = frequency{max(0, all.calls-n*one.calls), max(0, all.bytes-n*one.bytes)}
	}
	return each, rest
}

func (r rates) sum() (sum frequency) {
	for _, v := range r {
		sum.calls += v.calls
		sum.bytes += v.bytes
	}
	return sum
}

// sorted returns the commands, the most frequent ones first.
func (r rates) sorted() []string {
	return slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		if r[a].calls > r[b].calls {
			return -1
		}
		return 1
	})
}

// pause waits, and says from time to time for what.
func pause(ctx context.Context, d time.Duration, what string) {
	fmt.Printf("scale: %s: %s\n", what, d)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
