package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// isPattern reports whether an argument stands for several policies.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

func labelFlag() cli.Flag {
	return &cli.StringFlag{Name: "label", Usage: "all policies with a label `NAME=TEXT` of the policy file, in place of POLICY"}
}

// selects reports whether the arguments stand for several policies by what they are, whose number one need not know.
func selects(c *cli.Context) bool {
	return c.String("label") != "" || slices.ContainsFunc(c.Args().Slice(), isPattern)
}

// several reports whether a command may be about more than one policy.
func several(c *cli.Context) bool { return c.NArg() > 1 || selects(c) }

// labelled refuses a label that cannot be read, or that stands beside names.
func labelled(c *cli.Context) error {
	label := c.String("label")
	switch name, _, found := strings.Cut(label, "="); {
	case !c.IsSet("label"):
		return nil
	case name == "" || !found:
		return usagef("such as team=payments", "--label %s: want NAME=TEXT", label)
	case c.NArg() > 0:
		return usagef("give one of them", "--label beside the name of a policy")
	}
	return nil
}

// namesOfPolicies returns the policies that the arguments name, each once. A pattern such as 'api-*', or a label, stands for all announced
// policies that it matches, in the order of their names.
func namesOfPolicies(c *cli.Context, f *fleet) (names []string, err error) {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}

	var fleet stages.Fleet
	if selects(c) {
		if fleet, err = f.store.Fleet(c.Context); err != nil {
			return nil, err
		}
	}
	matching := func(what string, matches func(stages.Spec) bool) error {
		matched := false
		for _, spec := range fleet.Specs {
			if matches(spec) {
				matched = true
				add(spec.Policy)
			}
		}
		if len(fleet.Specs) == 0 {
			_, err := f.only(what, nil) // says where such a name comes from
			return err
		}
		if !matched {
			return fmt.Errorf("%s has no policy that %s matches: it has %s", f.name, what, strings.Join(fleet.Policies(), ", "))
		}
		return nil
	}

	if label := c.String("label"); label != "" {
		name, text, _ := strings.Cut(label, "=")
		err := matching(fmt.Sprintf("the label %q", label), func(s stages.Spec) bool {
			has, there := s.Labels[name]
			return there && has == text
		})
		return names, err
	}
	for _, arg := range c.Args().Slice() {
		if !isPattern(arg) {
			add(arg)
			continue
		}
		if _, err := path.Match(arg, ""); err != nil {
			return nil, usagef("such as 'api-*'", "the pattern %q cannot be read", arg)
		}
		err := matching(fmt.Sprintf("%q", arg), func(s stages.Spec) bool {
			ok, _ := path.Match(arg, s.Policy)
			return ok
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// needsPolicies refuses an invocation that names no policy. A version is that of one policy.
func needsPolicies(c *cli.Context) error {
	if err := labelled(c); err != nil {
		return err
	}
	if c.NArg() == 0 && !selects(c) {
		return usagef(seeHelp(c), "%s needs a policy, a pattern such as 'api-*', or --label", c.Command.Name)
	}
	if c.IsSet("expect") && several(c) {
		return usagef("a version is that of one policy: name it", "--expect with several policies")
	}
	return nil
}

// mostAtOnce bounds the orders that are carried out at one time.
const mostAtOnce = 16

// eachPolicy carries a command out for policies, at the same time: a rollback must not wait until instances have applied
// another one. What it prints of each policy stands together, in the order of the names.
func eachPolicy(c *cli.Context, f *fleet, names []string, std streams, do func(policy string, std streams) error) error {
	if len(names) == 1 {
		return do(names[0], std)
	}

	type result struct {
		out, err *humanize.Page
		failed   error
		done     chan struct{}
	}
	results := make([]result, len(names))
	places := make(chan struct{}, mostAtOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for i, name := range names {
		r := &results[i]
		r.out, r.err, r.done = humanize.PageFor(std.out), humanize.PageFor(std.err), make(chan struct{})
		all.Go(func() {
			defer close(r.done)
			places <- struct{}{}
			defer func() { <-places }()
			r.failed = do(name, streams{in: std.in, out: r.out, err: r.err})
		})
	}

	var first error
	var failed []string
	for i, name := range names {
		r := &results[i]
		<-r.done
		if _, err := io.WriteString(std.out, r.out.String()); err != nil {
			return err
		}
		if _, err := io.WriteString(std.err, r.err.String()); err != nil {
			return err
		}
		if r.failed != nil {
			shown := humanize.Printable(name) + ": "
			say(std.err, "%s%s\n", shown, strings.TrimPrefix(humanize.WithoutSecrets(withRemedy(r.failed).Error()), shown))
			failed = append(failed, name)
			if first == nil {
				first = r.failed
			}
		}
	}
	if first == nil {
		return nil
	}
	text := fmt.Sprintf("%s: not for %d of %d policies", c.Command.Name, len(failed), len(names))
	if len(failed) <= namedAgain {
		text += ": " + strings.Join(failed, ", ")
	}
	return someError{text, first}
}

// namedAgain is how many policies the last line names once more.
const namedAgain = 5

// someError says for which policies a command was not carried out. Its exit status is that of the first.
type someError struct {
	text  string
	first error
}

func (e someError) Error() string { return e.text }
func (e someError) Unwrap() error { return e.first }
