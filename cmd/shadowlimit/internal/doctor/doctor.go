// Package doctor checks the Redis that a service uses: its servers, the rights of its user,
// and the options of the instances' clients. Every finding that is not fine says what to change.
//
// It writes to one scratch key of a policy that cannot exist, and removes it.
package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
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
	// Without a connection every further check would only repeat this finding.
	connected := connection(ctx, client)
	r.Checks = append(r.Checks, connected)
	if connected.Level == problem {
		return
	}

	nodes, err := nodesOf(ctx, client)
	if err != nil {
		r.Checks = append(r.Checks, Finding{
			Check: "connection", Level: problem, Message: fmt.Sprintf("the nodes of the cluster do not answer: %v", err),
			Fix: "check that every address that the cluster announces can be reached from here",
		})
		return
	}

	channels := true
	for _, n := range nodes {
		r.Checks = append(r.Checks, n.examine(ctx)...)
		version, known := n.release()
		channels = channels && !(known && version.before(channelRights))
	}
	if r.Name != "" {
		u := user{client: client, service: r.Name, channels: channels}
		r.Checks = append(append(r.Checks, u.access(ctx)), instances(ctx, client, r.Name)...)
	}
}

// connection checks whether Redis answers and accepts this user.
func connection(ctx context.Context, client redis.UniversalClient) Finding {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()

	err := client.Ping(ctx).Err()
	what, fix := Diagnose(err)
	if what == "" {
		return Finding{Check: "connection", Level: fine, Message: "Redis answers"}
	}
	return Finding{Check: "connection", Level: problem, Message: fmt.Sprintf("%s: %v", what, err), Fix: fix}
}

// instances reports the warnings that instances announce about their Redis clients.
func instances(ctx context.Context, client redis.UniversalClient, name string) (list []Finding) {
	f := Finding{Check: "client options", Level: warning}
	fleet, err := stages.NewRedisStore(client, name).Fleet(ctx)
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
