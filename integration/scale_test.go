package integration

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// scaleVariable says what TestScale measures: "all", or the names of parts, such as "commands keys".
const scaleVariable = "SHADOWLIMIT_SCALE"

// scaled is a fleet that is measured.
type scaled struct {
	instances, policies int
	nodes               []*redis.Client
	processes           []*crewProcess
	name                string

	before, after spent
	cpu           float64 // of its processes, before the time that is measured, and then during it
}

// A young fleet is left out: its instances start at different times.
const (
	settles  = 75 * time.Second
	measured = time.Minute     // the longest interval of what an instance does, but for keys
	heardFor = 5 * time.Minute // that of keys
)

// perProcess is how many instances share a process.
const perProcess = 250

// startFleet starts instances on a Redis of their own, of one node or of three.
func startFleet(t *testing.T, instances, policies, nodes int) *scaled {
	t.Helper()
	fmt.Printf("scale: %d instances with %d policies start\n", instances, policies)
	f := &scaled{instances: instances, policies: policies, name: namespace()}
	var addrs []string
	if nodes > 1 {
		addrs = startCluster(t).Options().Addrs
	} else {
		addrs = []string{privateServer(t, "--maxclients", "15000")}
	}
	for _, addr := range addrs {
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })
		f.nodes = append(f.nodes, node)
	}

	for first := 0; first < instances; first += perProcess {
		c := crew{
			Fleet: addrs, Name: f.name, First: first, Size: min(perProcess, instances-first), Policies: policies,
			StateDir: t.TempDir(),
		}
		f.processes = append(f.processes, c.launch(t))
	}
	return f
}

// stop ends the processes.
func (f *scaled) stop() {
	for _, p := range f.processes {
		p.stop()
	}
}

func (f *scaled) processTime() (sum float64) {
	for _, p := range f.processes {
		sum += processTime(p.cmd.Process.Pid)
	}
	return sum
}

// measureFleets measures fleets that run at the same time.
func measureFleets(t *testing.T, fleets ...*scaled) {
	t.Helper()
	pause(t.Context(), settles, "the fleets settle")
	for _, f := range fleets {
		f.before, f.cpu = f.spent(t), f.processTime()
	}
	pause(t.Context(), measured, "what they ask is counted")
	for _, f := range fleets {
		f.after, f.cpu = f.spent(t), f.processTime()-f.cpu
		fmt.Printf("scale: %v\n", f.row())

		// An instance polls once a second. Where it does not, the others of its commands are too few, too.
		seconds := f.after.at.Sub(f.before.at).Seconds()
		if polls := (f.after.polls - f.before.polls) / seconds / float64(f.instances); polls < 0.9 {
			t.Errorf("%d instances with %d policies poll %.2f times a second: this machine is too busy for them",
				f.instances, f.policies, polls)
		}
	}
}

// row is a line of the tables, everything in a second.
type row struct {
	Instances, Policies, Nodes int
	Commands, In, Out          float64
	Redis, Processes           float64 // CPU, of a core
}

func (f *scaled) row() row {
	seconds := f.after.at.Sub(f.before.at).Seconds()
	return row{
		Instances: f.instances, Policies: f.policies, Nodes: len(f.nodes),
		Commands: (f.after.commands - f.before.commands) / seconds,
		In:       (f.after.in - f.before.in) / seconds, Out: (f.after.out - f.before.out) / seconds,
		Redis: (f.after.cpu - f.before.cpu) / seconds, Processes: f.cpu / seconds,
	}
}

// exponent returns how a number grows with instances: 1 is linear.
func exponent(from, to row, of func(row) float64) float64 {
	return math.Log(of(to)/of(from)) / math.Log(float64(to.Instances)/float64(from.Instances))
}

// TestScale measures what fleets of 10 to 1,000 instances ask of Redis, and writes the second table of
// docs/performance.md. `make scale` runs it.
func TestScale(t *testing.T) {
	parts := os.Getenv(scaleVariable)
	if parts == "" {
		t.Skip("fleets of a thousand instances take a quarter of an hour: make scale")
	}
	for _, part := range []struct {
		name string
		do   func(*testing.T)
	}{{"fleets", scaleFleets}, {"commands", scaleCommands}, {"ledger", scaleLedger}, {"keys", scaleKeys}} {
		if strings.Contains(parts, part.name) || parts == "all" {
			t.Run(part.name, func(t *testing.T) {
				t.Parallel() // fleets mostly wait
				part.do(t)
			})
		}
	}
}

// mostCommands is what an instance with 20 policies may ask in a second, besides leading.
const mostCommands = 5

// scaleCommands counts what an instance asks, by commands.
func scaleCommands(t *testing.T) {
	f := startFleet(t, 20, 20, 1)
	pause(t.Context(), settles, "the fleet settles")
	fmt.Printf("scale: each command is looked at: %s\n", heardFor)
	each, rest := split(f.listen(t, heardFor), f, heardFor)
	f.stop()

	fmt.Println(commandTable("an instance, besides leading", each, 0.005))
	fmt.Println(commandTable("the leader, for 20 policies", rest, 0.05))
	if n := each.sum().calls; n > mostCommands {
		t.Errorf("an instance sends %.2f commands a second besides leading, want %d at most", n, mostCommands)
	}
}

// commandTable leaves out the rare ones.
func commandTable(title string, r rates, least float64) string {
	line := func(name, mark string, v frequency) []string {
		return []string{name, fmt.Sprintf("%s%.2f%[1]s", mark, v.calls), fmt.Sprintf("%s%.0f%[1]s", mark, v.bytes)}
	}
	lines := [][]string{{title, "commands a second", "bytes a second"}}
	for _, command := range r.sorted() {
		if r[command].calls >= least {
			lines = append(lines, line("`"+command+"`", "", r[command]))
		}
	}
	return table(append(lines, line("**together**", "**", r.sum()))...)
}

// size is that of a fleet.
type size struct{ instances, policies, nodes int }

// sizes are the fleets that are measured, in groups that run at the same time: at most 20,000 policies of instances.
var sizes = [][]size{
	{{10, 20, 1}, {20, 20, 1}, {40, 20, 1}, {80, 20, 1}, {5, 1, 1}, {20, 1, 1}},
	{{160, 20, 1}, {40, 20, 3}},
	{{320, 20, 1}},
	{{5, 100, 1}, {20, 100, 1}, {2, 1000, 1}, {4, 1000, 1}},
}

// scaleFleets measures fleets by the number of instances and of policies.
func scaleFleets(t *testing.T) {
	var rows []row
	for _, group := range sizes {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			var fleets []*scaled
			for _, s := range group {
				fleets = append(fleets, startFleet(t, s.instances, s.policies, s.nodes))
			}
			measureFleets(t, fleets...)
			for _, f := range fleets {
				rows = append(rows, f.row())
				f.stop()
			}
		})
	}
	if !t.Failed() {
		report(t, rows)
	}
}

// What a fleet of 1,000 instances with 20 policies may cost.
const (
	mostBytes    = 10e6 // a second
	mostRedis    = 0.25 // of a core
	mostExponent = 1.1
)

// quantities are what the table shows.
var quantities = []struct {
	name string
	held bool
	of   func(row) float64
}{
	{"commands", true, func(r row) float64 { return r.Commands }},
	{"bytes to Redis", true, func(r row) float64 { return r.In }},
	{"bytes from Redis", true, func(r row) float64 { return r.Out }},
	{"CPU of Redis", false, func(r row) float64 { return r.Redis }},
	{"CPU of the instances", false, func(r row) float64 { return r.Processes }},
}

// report writes the table, and holds the promises.
func report(t *testing.T, rows []row) {
	t.Helper()
	find := func(s size) row {
		i := slices.IndexFunc(rows, func(r row) bool { return (size{r.Instances, r.Policies, r.Nodes}) == s })
		return rows[i]
	}
	var byInstances []row
	for _, n := range []int{10, 20, 40, 80, 160, 320} {
		byInstances = append(byInstances, find(size{n, 20, 1}))
	}
	var thousands []row
	for _, two := range [][2]size{
		{{5, 1, 1}, {20, 1, 1}}, {{20, 20, 1}, {320, 20, 1}}, {{5, 100, 1}, {20, 100, 1}}, {{2, 1000, 1}, {4, 1000, 1}},
	} {
		from, to := find(two[0]), find(two[1])
		thousands = append(thousands, from.line(to, 1000))
	}
	thousand := thousands[1]

	lines := [][]string{{"instances", "policies", "commands/s", "MB/s to Redis", "MB/s from Redis", "CPU of Redis", "CPU of an instance"}}
	for _, r := range append(byInstances, find(size{40, 20, 3})) {
		lines = append(lines, r.cells())
	}
	for _, r := range rows {
		if r.Policies != 20 {
			lines = append(lines, r.cells())
		}
	}
	for _, r := range thousands[1:3] {
		lines = append(lines, r.cells())
	}
	writeFleets(t, table(lines...))
	exponents(t, find(size{20, 20, 1}), find(size{320, 20, 1}))

	if thousand.In+thousand.Out > mostBytes || thousand.Redis > mostRedis {
		t.Errorf("1,000 instances with 20 policies: %.1f MB/s and %.0f %% of a core, want %.0f and %.0f at most",
			(thousand.In+thousand.Out)/1e6, thousand.Redis*100, mostBytes/1e6, mostRedis*100)
	}
}

// exponents says how all quantities grow with instances.
func exponents(t *testing.T, from, to row) {
	t.Helper()
	for _, q := range quantities {
		e := exponent(from, to, q.of)
		fmt.Printf("scale: from %d to %d instances %s grow with the power %.2f of them\n", from.Instances, to.Instances, q.name, e)
		if e > mostExponent && q.held {
			t.Errorf("%s grow with the power %.2f of instances, want %.1f at most", q.name, e, mostExponent)
		}
	}
}

func (r row) cells() []string {
	instances := fmt.Sprint(r.Instances)
	switch {
	case r.Nodes > 1:
		instances += ", on a cluster of three"
	case r.Instances == 1000:
		instances += ", by arithmetic"
	}
	return []string{
		instances, fmt.Sprint(r.Policies), fmt.Sprintf("%.0f", r.Commands), fmt.Sprintf("%.3f", r.In/1e6), fmt.Sprintf("%.3f", r.Out/1e6),
		fmt.Sprintf("%.1f %%", r.Redis*100), fmt.Sprintf("%.2f %%", r.Processes/float64(r.Instances)*100),
	}
}

// line returns the fleet of a size that lies on the line through two others.
func (r row) line(to row, instances int) row {
	at := func(of func(row) float64) float64 {
		return of(r) + (of(to)-of(r))*float64(instances-r.Instances)/float64(to.Instances-r.Instances)
	}
	q := quantities
	return row{instances, r.Policies, r.Nodes, at(q[0].of), at(q[1].of), at(q[2].of), at(q[3].of), at(q[4].of)}
}

const performanceFile = "../docs/performance.md"

// writeFleets replaces the table of fleets in docs/performance.md.
func writeFleets(t *testing.T, text string) {
	t.Helper()
	page := readFile(t, performanceFile)
	before, rest, begins := strings.Cut(page, "\n| instances |")
	_, after, ends := strings.Cut(rest, "|\n\n")
	if !begins || !ends {
		t.Fatalf("%s has no table of instances", performanceFile)
	}
	if err := os.WriteFile(performanceFile, []byte(before+"\n"+text+"\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Print(text)
}

// table is one in Markdown, its first line the header.
func table(lines ...[]string) string {
	var b strings.Builder
	for n, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if n == 0 {
			b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return b.String()
}
