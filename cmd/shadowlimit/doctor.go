package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const doctorDescription = `Checks the Redis that a service uses and says what to change: version, role, memory
and eviction, persistence, clock, latency. With --name it also tries whether this
user may do what the library does, on scratch keys that it removes, and lists what
instances say of the options of their Redis clients. Exit status 1 if there is a
problem; warnings are none.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit doctor
  shadowlimit doctor -o json`

func doctorCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check the Redis of a service and say what to change", Description: doctorDescription,
		Flags: fleetFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("see: shadowlimit doctor --help", "doctor takes no arguments")
			}
			return doctorAction(c, io.out)
		},
	}
}

// Levels of a finding.
const (
	fine    = "ok"
	warning = "warning"
	problem = "problem"
)

// finding is what one check has found.
type finding struct {
	Check   string `json:"check"`
	Node    string `json:"node,omitempty"` // of a cluster
	Level   string `json:"level"`          // ok, warning or problem
	Message string `json:"message"`        // what, and why it matters
	Fix     string `json:"fix,omitempty"`  // what to do
}

// doctorReport is the contract of doctor -o json.
type doctorReport struct {
	Name     string    `json:"name,omitempty"`
	Problems int       `json:"problems"`
	Warnings int       `json:"warnings"`
	Checks   []finding `json:"checks"`
}

// doctor examines one Redis.
type doctor struct {
	client   redis.UniversalClient
	name     string // "" if no service is named
	findings []finding
}

// doctorBudget bounds the whole examination.
const doctorBudget = 20 * time.Second

func doctorAction(c *cli.Context, out io.Writer) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	client, err := openRedis(c.String("redis"), commandBudget)
	if err != nil {
		return err
	}
	defer client.Close()
	d := &doctor{client: client, name: c.String("name")}
	if d.name != "" {
		if _, err := lua.New(client, lua.Config{Name: d.name}); err != nil {
			return usagef("give the policy file's \"name\"", "--name: %s", strings.TrimPrefix(err.Error(), "lua: new: "))
		}
	}
	ctx, cancel := context.WithTimeout(c.Context, doctorBudget)
	defer cancel()
	d.examine(ctx)
	if err := c.Context.Err(); err != nil {
		return err
	}
	return d.report().write(out, asJSON)
}

func (d *doctor) examine(ctx context.Context) {
	reached := d.reach(ctx)
	if d.findings = append(d.findings, reached); reached.Level == problem {
		return
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		d.findings = append(d.findings, finding{Check: "cluster", Level: problem, Message: fmt.Sprintf("its nodes do not answer: %v", err), Fix: "see that every address that the cluster announces can be reached from here"})
		return
	}
	for _, n := range nodes {
		d.findings = append(d.findings, n.examine(ctx)...)
	}
	if d.name != "" {
		d.findings = append(d.findings, d.access(ctx)...)
		d.findings = append(d.findings, d.instances(ctx)...)
	}
}

// reach finds out whether Redis answers, and who it is not if it does not let us in.
func (d *doctor) reach(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, 2*commandBudget)
	defer cancel()
	err := d.client.Ping(ctx).Err()
	what, fix := reached(err)
	if what == "" {
		return finding{Check: "connection", Level: fine, Message: "Redis answers"}
	}
	return finding{Check: "connection", Level: problem, Message: fmt.Sprintf("%s: %v", what, err), Fix: fix}
}

// instances reports what the service's instances say of their clients.
func (d *doctor) instances(ctx context.Context) []finding {
	const check = "client options"
	all, err := promotion.NewRedisStore(d.client, d.name).Instances(ctx)
	if err != nil {
		return []finding{unseen(check, err)}
	}
	if len(all) == 0 {
		return []finding{{Check: check, Level: warning, Message: fmt.Sprintf("no instance of %q was heard of within %s, so their options are not known", d.name, promotion.SilentFor), Fix: "see that --name is the policy file's name, and that the service uses this Redis"}}
	}
	var list []finding
	for _, i := range all {
		for _, w := range i.Client {
			what, fix, _ := cutLast(humanize.Printable(w), "; ")
			list = append(list, finding{Check: check, Level: warning, Message: humanize.Printable(i.ID) + ": " + what, Fix: fix})
		}
	}
	if len(list) == 0 {
		list = append(list, finding{Check: check, Level: fine, Message: humanize.Counted(int64(len(all)), "instance") + " told of nothing that does not suit a limiter"})
	}
	return list
}

// cutLast cuts around the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (d *doctor) report() *doctorReport {
	r := &doctorReport{Name: d.name, Checks: d.findings}
	for _, f := range d.findings {
		switch f.Level {
		case problem:
			r.Problems++
		case warning:
			r.Warnings++
		}
	}
	return r
}

// write also returns an error if there is a problem.
func (r *doctorReport) write(out io.Writer, asJSON bool) error {
	var err error
	if asJSON {
		err = writeJSON(out, r)
	} else {
		_, err = io.WriteString(out, r.text())
	}
	if err == nil && r.Problems > 0 {
		err = fmt.Errorf("%s with this Redis", humanize.Counted(int64(r.Problems), "problem"))
	}
	return err
}

func (r *doctorReport) text() string {
	var b strings.Builder
	for _, f := range r.Checks {
		check := f.Check
		if f.Node != "" {
			check += " of " + f.Node
		}
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.Level, check, f.Message)
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-8s to do: %s\n", "", f.Fix)
		}
	}
	fmt.Fprintf(&b, "\n%s, %s\n", humanize.Counted(int64(r.Problems), "problem"), humanize.Counted(int64(r.Warnings), "warning"))
	return b.String()
}
