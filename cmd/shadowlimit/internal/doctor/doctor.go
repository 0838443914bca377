// Package doctor checks the Redis that a service uses: its servers, the rights of its user,
// and the options of the instances' clients. Every finding that is not fine says what to change.
//
// It writes to one scratch key of a policy that cannot exist, and removes it.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
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

	r := &Report{Name: name}
	r.examine(ctx, client)
	for _, f := range r.Checks {
		switch f.Level {
		case problem:
			r.Problems++
		case warning:
			r.Warnings++
		}
	}
	return r
}

func (r *Report) examine(ctx context.Context, client redis.UniversalClient) {
	nodes, err := nodesOf(ctx, client)
	if err != nil {
		what, fix := Diagnose(err)
		if what == "" {
			what, fix = "the nodes of the cluster are not known", "permit CLUSTER SLOTS to this user"
		}
		r.Checks = append(r.Checks, Finding{Check: "connection", Level: problem, Message: fmt.Sprintf("%s: %v", what, err), Fix: fix})
		return
	}

	// Without a connection every further check of a server would only repeat that finding.
	var living []*node
	for _, n := range nodes {
		if what, _ := Diagnose(n.err); what == "" {
			living = append(living, n)
		}
	}
	if len(living) == 0 {
		what, fix := Diagnose(nodes[0].err)
		r.Checks = append(r.Checks, Finding{Check: "connection", Level: problem, Message: fmt.Sprintf("%s: %v", what, nodes[0].err), Fix: fix})
		return
	}
	if len(living) == len(nodes) {
		r.Checks = append(r.Checks, Finding{Check: "connection", Level: fine, Message: "Redis answers"})
	}

	home := living[0] // the node with the stages, where it answers
	stagesAway := false
	var fleet stages.Fleet
	if r.Name != "" {
		if address := addressOf(ctx, client, fleetKey(r.Name, "states")); address != "" {
			at := slices.IndexFunc(living, func(n *node) bool { return n.name == address })
			if stagesAway = at < 0; !stagesAway {
				home = living[at]
			}
		}
		if !stagesAway {
			fleet, err = stages.NewRedisStore(client, r.Name).Fleet(ctx)
		}
	}

	channels := true
	for _, n := range nodes {
		if !slices.Contains(living, n) {
			r.Checks = append(r.Checks, r.silent(ctx, client, n, fleet.Policies()))
			continue
		}
		r.Checks = append(r.Checks, n.examine(ctx)...)
		version, known := n.release()
		channels = channels && !(known && version.before(channelRights))
	}
	if r.Name == "" {
		return
	}
	u := user{client: client, home: home, service: r.Name, channels: channels}
	r.Checks = append(r.Checks, u.access(ctx))
	if !stagesAway {
		r.Checks = append(r.Checks, instances(fleet, err, r.Name)...)
	}
}

// silent is the finding of a node of a cluster that does not answer. What it has of the service says what to do.
func (r *Report) silent(ctx context.Context, client redis.UniversalClient, n *node, policies []string) Finding {
	f := Finding{Check: "connection", Node: n.name, Level: problem, Fix: "start that node, or let a replica take its place"}
	if r.Name == "" {
		f.Message = n.silence()
		return f
	}
	if addressOf(ctx, client, fleetKey(r.Name, "states")) == n.name {
		f.Message = n.silence() + "; it has the stages of " + r.Name + ": until it answers, no command reaches an instance"
		f.Fix += "; where a promoted candidate does harm meanwhile: docs/failures.md#the-red-button"
		return f
	}
	f.Message = n.without(ctx, client, r.Name, policies).Message
	return f
}

// SilentNodes returns the nodes of a cluster that do not answer; none of a single server.
func SilentNodes(ctx context.Context, client redis.UniversalClient, service string, policies []string) (list []status.Node) {
	if _, ok := client.(*redis.ClusterClient); !ok {
		return nil
	}
	nodes, _ := nodesOf(ctx, client)
	for _, n := range nodes {
		if what, _ := Diagnose(n.err); what != "" {
			list = append(list, n.without(ctx, client, service, policies))
		}
	}
	return list
}

// instances reports the warnings that instances announce about their Redis clients.
func instances(fleet stages.Fleet, err error, name string) (list []Finding) {
	f := Finding{Check: "client options", Level: warning}
	all := fleet.Instances
	switch {
	case err != nil:
		return []Finding{unknown(f.Check, err)}
	case len(all) == 0:
		f.Message = fmt.Sprintf("no instance of %q has reported within %s, so the options of its clients are unknown",
			name, stages.SilentFor)
		f.Fix = "check that --name is the policy file's name, and that the service uses this Redis"
		return []Finding{f}
	}

	for _, i := range all {
		for _, w := range i.Client {
			f.Message, f.Fix = humanize.Printable(i.ID+": "+w), ""
			if at := strings.LastIndex(f.Message, "; "); at >= 0 {
				f.Message, f.Fix = f.Message[:at], f.Message[at+2:]
			}
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		f.Level = fine
		f.Message = humanize.Counted(int64(len(all)), "instance") + " reported no option that does not suit a limiter"
		list = append(list, f)
	}
	return list
}

// unknown is the finding of a check that could not be made: a warning, for nothing is known to
// be wrong.
func unknown(check string, err error) Finding {
	f := Finding{Check: check, Level: warning, Message: "could not be checked"}
	if err != nil {
		f.Message += ": " + err.Error()
	}
	if redis.IsPermissionError(err) {
		f.Fix = "run doctor once as a user with the right to it, if the service does not need that"
	}
	return f
}

// Text is the report for people: a line for each finding, and one for its remedy.
func (r *Report) Text(colors humanize.Colors) string {
	var b strings.Builder
	for _, f := range r.Checks {
		check := f.Check
		if f.Node != "" {
			check += " of " + f.Node
		}

		level := f.Level
		switch f.Level {
		case warning:
			level = colors.Unsure(level)
		case problem:
			level = colors.Bad(level)
		}
		fmt.Fprintf(&b, "%s%s  %s: %s\n", level, strings.Repeat(" ", len(problem)-len(f.Level)), humanize.Visible(check), humanize.Visible(f.Message))
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-8s to do: %s\n", "", humanize.Visible(f.Fix))
		}
	}

	problems, warnings := humanize.Counted(int64(r.Problems), "problem"), humanize.Counted(int64(r.Warnings), "warning")
	fmt.Fprintf(&b, "\n%s, %s\n", problems, warnings)
	return b.String()
}
