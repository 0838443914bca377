package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Levels of a finding.
const (
	fine    = "ok"
	warning = "warning"
	problem = "problem"
)

// Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`
	Node    string `json:"node,omitempty"` // of a cluster
	Level   string `json:"level"`          // ok, warning or problem
	Message string `json:"message"`        // the fact, and why it matters
	Fix     string `json:"fix,omitempty"`  // what to do
}

// Report is the contract of doctor -o json.
type Report struct {
	Name     string    `json:"name,omitempty"`
	Problems int       `json:"problems"`
	Warnings int       `json:"warnings"`
	Checks   []Finding `json:"checks"`
}

// doctor examines one Redis.
type doctor struct {
	client   redis.UniversalClient
	name     string // "" if no service is named
	findings []Finding

	channelsAreFree bool // a server knows no rights to channels, and no words for them
}

// Bounds of an examination, so that a server that stalls ends in a finding.
const (
	examinationTimeout = 20 * time.Second
	connectTimeout     = 4 * time.Second // twice the read timeout: a dial, then a reply
	replyTimeout       = 2 * time.Second
)

// Examine checks the Redis of a client. Rights and instances belong to a service, so they are
// checked only if its name is not "".
func Examine(ctx context.Context, client redis.UniversalClient, name string) *Report {
	ctx, cancel := context.WithTimeout(ctx, examinationTimeout)
	defer cancel()

	d := &doctor{client: client, name: name}
	d.examine(ctx)
	return d.report()
}

func (d *doctor) examine(ctx context.Context) {
	// Without a connection every further check would only repeat this finding.
	connection := d.connection(ctx)
	d.findings = append(d.findings, connection)
	if connection.Level == problem {
		return
	}

	nodes, err := d.nodes(ctx)
	if err != nil {
		d.findings = append(d.findings, Finding{
			Check: "cluster", Level: problem, Message: fmt.Sprintf("its nodes do not answer: %v", err),
			Fix: "check that every address that the cluster announces can be reached from here",
		})
		return
	}

	for _, n := range nodes {
		d.findings = append(d.findings, n.examine(ctx)...)
		r, known := n.release()
		d.channelsAreFree = d.channelsAreFree || known && r.before(channelRights)
	}
	if d.name != "" {
		d.findings = append(d.findings, d.access(ctx)...)
		d.findings = append(d.findings, d.instances(ctx)...)
		d.findings = append(d.findings, d.levels(ctx)...)
		d.findings = append(d.findings, d.evidence(ctx, nodes)...)
	}
}

// connection checks whether Redis answers and accepts this user.
func (d *doctor) connection(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()

	err := d.client.Ping(ctx).Err()
	what, fix := Diagnose(err)
	if what == "" {
		return Finding{Check: "connection", Level: fine, Message: "Redis answers"}
	}
	return Finding{Check: "connection", Level: problem, Message: fmt.Sprintf("%s: %v", what, err), Fix: fix}
}

// instances reports the warnings that instances announce about their Redis clients.
func (d *doctor) instances(ctx context.Context) []Finding {
	const check = "client options"

	all, err := promotion.NewRedisStore(d.client, d.name).Instances(ctx)
	if err != nil {
		return []Finding{unknown(check, err)}
	}
	if len(all) == 0 {
		return []Finding{{
			Check: check, Level: warning,
			Message: fmt.Sprintf("no instance of %q has reported within %s, so the options of its clients are unknown",
				d.name, promotion.SilentFor),
			Fix: "check that --name is the policy file's name, and that the service uses this Redis",
		}}
	}

	var list []Finding
	for _, i := range all {
		for _, w := range i.Client {
			what, fix, _ := cutLast(humanize.Printable(w), "; ")
			message := humanize.Printable(i.ID) + ": " + what
			list = append(list, Finding{Check: check, Level: warning, Message: message, Fix: fix})
		}
	}
	if len(list) == 0 {
		list = append(list, Finding{
			Check: check, Level: fine,
			Message: humanize.Counted(int64(len(all)), "instance") + " reported no option that does not suit a limiter",
		})
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

func (d *doctor) report() *Report {
	r := &Report{Name: d.name, Checks: d.findings}
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

// Text is the report for people: a line for each finding, and one for its remedy.
func (r *Report) Text() string {
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

	problems, warnings := humanize.Counted(int64(r.Problems), "problem"), humanize.Counted(int64(r.Warnings), "warning")
	fmt.Fprintf(&b, "\n%s, %s\n", problems, warnings)
	return b.String()
}
