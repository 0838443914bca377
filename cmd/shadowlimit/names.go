package main

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// isPattern reports whether an argument stands for several policies.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// names returns the policies that arguments name, each once. A pattern such as 'api-*' stands for all announced policies that it
// matches, in the order of their names.
func (f *fleet) names(ctx context.Context, args []string) (names []string, err error) {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}

	var announced []string
	for _, arg := range args {
		if !isPattern(arg) {
			add(arg)
			continue
		}
		if announced == nil {
			fleet, err := f.store.Fleet(ctx)
			if err != nil {
				return nil, err
			}
			announced = fleet.Policies()
		}

		matched := false
		for _, name := range announced {
			ok, err := path.Match(arg, name)
			if err != nil {
				return nil, usagef("such as 'api-*'", "the pattern %q cannot be read", arg)
			}
			if ok {
				matched = true
				add(name)
			}
		}
		if !matched {
			return nil, fmt.Errorf("%s has no policy that %q matches: it has %s", f.name, arg, strings.Join(announced, ", "))
		}
	}
	return names, nil
}

// needsPolicies refuses an invocation that names no policy. A version is that of one policy.
func needsPolicies(c *cli.Context) error {
	if c.NArg() == 0 {
		return usagef(seeHelp(c), "%s needs a policy, or a pattern such as 'api-*'", c.Command.Name)
	}
	if c.IsSet("expect") && (c.NArg() > 1 || isPattern(c.Args().First())) {
		return usagef("a version is that of one policy: name it", "--expect with several policies")
	}
	return nil
}

// mostAtOnce bounds the orders that are carried out at one time.
const mostAtOnce = 16

// each carries a command out for every policy that is named, at the same time: a rollback must not wait until instances have applied
// another one. What it prints of each policy stands together, in the order of the names.
func (f *fleet) each(c *cli.Context, std streams, do func(policy string, std streams) error) error {
	names, err := f.names(c.Context, c.Args().Slice())
	if err != nil {
		return err
	}
	if len(names) == 1 {
		return do(names[0], std)
	}

	type result struct {
		out, err bytes.Buffer
		failed   error
		done     chan struct{}
	}
	results := make([]result, len(names))
	places := make(chan struct{}, mostAtOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for i, name := range names {
		r := &results[i]
		r.done = make(chan struct{})
		all.Go(func() {
			defer close(r.done)
			places <- struct{}{}
			defer func() { <-places }()
			r.failed = do(name, streams{in: std.in, out: &r.out, err: &r.err})
		})
	}

	var first error
	var failed []string
	for i, name := range names {
		r := &results[i]
		<-r.done
		if _, err := std.out.Write(r.out.Bytes()); err != nil {
			return err
		}
		if _, err := std.err.Write(r.err.Bytes()); err != nil {
			return err
		}
		if r.failed != nil {
			shown := humanize.Printable(name) + ": "
			fmt.Fprintln(std.err, shown+strings.TrimPrefix(humanize.WithoutSecrets(withRemedy(r.failed).Error()), shown))
			failed = append(failed, name)
			if first == nil {
				first = r.failed
			}
		}
	}
	if first == nil {
		return nil
	}
	return someError{
		fmt.Sprintf("%s: not for %d of %d policies: %s", c.Command.Name, len(failed), len(names), strings.Join(failed, ", ")), first,
	}
}

// someError says for which policies a command was not carried out. Its exit status is that of the first.
type someError struct {
	text  string
	first error
}

func (e someError) Error() string { return e.text }
func (e someError) Unwrap() error { return e.first }
