package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// rehearse plays the migration of a policy of the user's on the user's log.
func rehearse(c *cli.Context, std streams, cfg demo.Config) error {
	o := &replayOptions{logs: c.Args().Slice(), config: c.String("config"), policy: c.String("policy"), store: "memory"}
	for _, parse := range []func(*cli.Context) error{o.parseLogs, o.parseGate} {
		if err := parse(c); err != nil {
			return err
		}
	}

	r := &replayer{replayOptions: o, std: std, bar: newProgress(std.err)}
	defer r.bar.clear()
	kept, err := r.collect(c.Context)
	if err != nil {
		return err
	}
	if err := r.refuseToRehearse(c.Context, kept); err != nil {
		return err
	}
	text, err := policies.ReadFile(o.config)
	if err != nil {
		return fmt.Errorf("%s: %w", o.config, reason(err))
	}

	r.bar.clear()
	rehearsal := demo.Rehearsal{
		File: o.config, Text: text, Policy: kept.policy, Promotion: map[string]string{}, Requests: kept.requests(), Note: kept.String(),
	}
	for _, flag := range gateFlagNames {
		if c.IsSet(flag) {
			rehearsal.Promotion[strings.ReplaceAll(flag, "-", "_")] = c.String(flag)
		}
	}
	if err := demo.Rehearse(c.Context, cfg, rehearsal); err != nil {
		return err
	}
	return o.unread()
}

// mostRehearsed bounds the requests of a rehearsal, which sends about a thousand a second.
const mostRehearsed = 30_000

// keptRequests are the requests that a policy charges. Of a log with more than most they are those of a half of its keys, a quarter
// or less: each key has all of its requests, so both sides decide about it as ever.
type keptRequests struct {
	policy   string
	most     int
	list     []keptRequest
	charged  int64
	halvings int
}

type keptRequest struct {
	hash    uint64
	request *policies.Request
}

func (k *keptRequests) add(policy string, request *policies.Request, key string) {
	if policy != k.policy {
		return
	}
	k.charged++

	// The hash has nothing in common with the hash of the canary, so the canary has its share of the keys.
	hash := fnv.New64a()
	hash.Write([]byte(key))
	one := keptRequest{hash.Sum64(), request}
	if k.leftOut(one) {
		return
	}
	k.list = append(k.list, one)
	for len(k.list) > k.most {
		k.halvings++
		k.list = slices.DeleteFunc(k.list, k.leftOut)
	}
}

func (k *keptRequests) leftOut(r keptRequest) bool { return r.hash&(1<<k.halvings-1) != 0 }

func (k *keptRequests) requests() (list []*policies.Request) {
	for _, one := range k.list {
		list = append(list, one.request)
	}
	return list
}

// String says which requests are kept.
func (k *keptRequests) String() string {
	text := humanize.Counted(int64(len(k.list)), "request")
	if k.halvings > 0 {
		text += fmt.Sprintf(" of 1 in %s keys, from %s", humanize.Grouped(1<<k.halvings), humanize.Counted(k.charged, "request"))
	}
	return text
}

// collect reads the logs, and keeps the requests that the policy charges.
func (r *replayer) collect(ctx context.Context) (*keptRequests, error) {
	s, err := openPolicySubject(r.config, r.requests(), nil)
	if err != nil {
		return nil, err
	}
	list, err := named(s.comparisons(), r.policy)
	if err != nil {
		return nil, err
	}
	if len(list) > 1 {
		var names []string
		for i := range list {
			names = append(names, list[i].name)
		}
		return nil, usagef("name it by --policy: "+strings.Join(names, ", "),
			"a rehearsal is of one policy, and the file has %d with a candidate", len(list))
	}

	r.policy = list[0].name
	kept := &keptRequests{policy: r.policy, most: mostRehearsed}
	s.keep = kept.add
	if _, err := r.take(ctx, s); err != nil {
		return nil, err
	}

	if kept.charged == 0 {
		list, _ := named(s.comparisons(), r.policy) // the name is known by now
		r.noteUncharged(&list[0], s.intake().requests)
		return nil, fmt.Errorf("nothing to rehearse: policy %s charges no request of the log", r.policy)
	}
	if len(kept.list) == 0 {
		return nil, fmt.Errorf("nothing to rehearse: a key of policy %s has more than %s requests alone: cut the log",
			r.policy, humanize.Grouped(mostRehearsed))
	}
	return kept, nil
}

// shorterSoaks are what a refusal may name.
var shorterSoaks = []time.Duration{72 * time.Hour, 48 * time.Hour, 24 * time.Hour, 12 * time.Hour, 6 * time.Hour, time.Hour}

// refuseToRehearse is an error if the gate would not pass early enough in the log, with the soak that would do.
func (r *replayer) refuseToRehearse(ctx context.Context, kept *keptRequests) error {
	s, err := openPolicySubject(r.config, r.requests(), nil)
	if err != nil {
		return err
	}
	list := kept.requests()
	for _, request := range list {
		s.addRequest(ctx, request.Time.UnixMicro(), request, replay.Unobserved)
	}
	all, _ := named(s.comparisons(), r.policy) // the name is known by now

	fits, reason, err := r.fits(ctx, &all[0], 0)
	if err != nil || fits {
		return err
	}

	// The longest soak that would do is the nearest to what the file asks for.
	asked := r.configOf(&all[0]).Gate.WithDefaults().SoakFor(100)
	for _, soak := range shorterSoaks {
		if soak >= asked {
			continue
		}
		switch fits, _, err := r.fits(ctx, &all[0], soak); {
		case err != nil:
			return err
		case fits:
			return statusf(exitNotMet, "the log is too short for a soak of %s: --soak %s would do",
				humanize.Span(asked), algorithms.FormatWindow(soak))
		}
	}
	return statusf(exitNotMet, "the gate does not pass on this log early enough to rehearse what follows; at its end it says %s; "+
		"shadowlimit replay says more", reason)
}

// fits reports whether a candidate may be promoted, go wrong and be rolled back before its log ends, by what replay says. Soak 0 is
// the policy's.
func (r *replayer) fits(ctx context.Context, c *comparison, soak time.Duration) (fits bool, reason string, err error) {
	// A declared soak holds for every step.
	asked := r.gate
	asked.Soak = cmp.Or(soak, asked.Soak)
	cfg := r.configOf(c)
	cfg.Gate = asked.Or(c.rules.Config)

	steps := promotion.Steps(c.rules.Canary)
	cfg.Step, cfg.Pair = steps[len(steps)-1], algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	report, err := replay.Run(ctx, c.events, cfg)
	if err != nil {
		return false, "", err
	}

	p := &report.Policies[0]
	reason = p.Gate.Verdict + ": " + p.Gate.Reason
	if p.PassedAt == nil {
		return false, reason, nil
	}
	done := p.PassedAt.Add(time.Duration(len(steps))*c.rules.Dwell + demo.Calm + time.Hour)
	return !done.After(*report.Last), reason, nil
}
