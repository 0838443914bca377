package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/suggest"
	"github.com/shadowlimit/shadowlimit/policies"
)

const suggestDescription = `Proposes a first limit from a log of a service that has none. For windows
from a second to a day it finds the most that clients send, but for at most
--touch of them and of their requests, and the smallest burst for that limit,
and names the clients that it touches. Clients that are far above all others
are set apart before: what may be touched is a share of the others.

Logs, their formats and their flags are those of replay.

--policy writes the proposal that comes first as a policy file with
"authoritative: none", and its tests beside it. In shadow it denies nobody,
and shows whom it would. --html draws how many clients a limit touches, by
limit.

Examples, from the folder of the repository:
  shadowlimit suggest internal/sample/elastic-2015.access.log.gz
  shadowlimit suggest --touch 1% --key 'ipGroup(request.ip)' -o json \
      internal/sample/elastic-2015.access.log.gz
  shadowlimit suggest --policy "$(mktemp -d)/first.yaml" \
      internal/sample/elastic-2015.access.log.gz`

func suggestCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "suggest",
		Usage:       "propose a first limit from an access log",
		ArgsUsage:   "LOG...",
		Description: suggestDescription,
		Flags: slices.Concat(under(aboutLimiters,
			&cli.StringFlag{Name: "key", Usage: "the key as a CEL `EXPRESSION` of the request, as in policies"},
			&cli.StringFlag{Name: "touch", Value: "0.1%", Usage: "`PERCENT` of the clients, and of their requests, that a limit may touch"},
		), logFlags(), under(aboutReport,
			&cli.StringFlag{Name: "policy", Usage: "write the first proposal to `FILE` as a policy file, and its tests beside it"},
			&cli.StringFlag{Name: "html", Usage: "also write the report to `FILE`, as one page for a browser"},
			outputFlag(),
		)),
		Action: func(c *cli.Context) error { return suggestAction(c, std) },
	}
}

// suggestConflicts are those of suggest. The first that applies is reported.
var suggestConflicts = []conflict{
	{
		func(c *cli.Context) bool { return c.IsSet("policy") && c.IsSet("key-field") },
		"--policy writes the key as an expression, and --key-field is none", "give the key by --key",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("policy") && c.IsSet("cost-field") },
		"--policy writes no cost, and the limit would be of the costs of --cost-field", "leave out --policy, and write the file by shadowlimit init",
	},
	{
		func(c *cli.Context) bool { return c.String("html") != "" && c.String("html") == c.String("policy") },
		"--html and --policy: want two files", "",
	},
	{
		writesItsInput,
		"--html is a log that suggest reads, and would be lost", "name another file",
	},
	{
		func(c *cli.Context) bool { return !c.Args().Present() },
		"suggest needs a log", "name log files, or - for standard input",
	},
}

func suggestAction(c *cli.Context, std streams) error {
	err := suggestFrom(c, std)
	if wrong := (usageError{}); errors.As(err, &wrong) && wrong.hint == replayHint {
		return usageError{wrong.message, seeHelp(c)} // what reads logs is written for replay
	}
	return err
}

func suggestFrom(c *cli.Context, std streams) error {
	for _, one := range slices.Concat(logConflicts, suggestConflicts) {
		if one.applies(c) {
			return usageError{one.message, cmp.Or(one.hint, seeHelp(c))}
		}
	}
	touch, err := parsePercent(c.String("touch"))
	if err != nil {
		return usagef("such as --touch 0.1%", "--touch: %v", err)
	}
	o := &replayOptions{logs: c.Args().Slice(), htmlFile: c.String("html")}
	for _, parse := range []func(*cli.Context) error{o.parseForms, o.parseKey} {
		if err := parse(c); err != nil {
			return err
		}
	}
	var file *suggestedFile
	if c.IsSet("policy") {
		if file, err = suggestedFileOf(c.String("policy"), c.String("key"), o.key); err != nil {
			return err
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))

	r := &replayer{replayOptions: o, std: std, bar: newProgress(std.err)}
	defer r.bar.clear()
	report, err := r.suggest(c.Context, touch/100)
	if err != nil {
		return err
	}
	return errors.Join(r.print(report, report.WriteText), writeReport(o.htmlFile, report.WriteHTML), file.write(report, std.err))
}

// suggestSubject keeps the requests of a log for proposals. It compares nothing.
type suggestSubject struct {
	sideSubject
	kept *suggest.Requests
}

func newSuggestSubject(key *policies.KeyExpression, from *requests) *suggestSubject {
	return &suggestSubject{*newSideSubject([2]algorithms.Side{}, key, from, nil), &suggest.Requests{}}
}

func (s *suggestSubject) add(_ context.Context, e accesslog.Event) {
	key := e.Key
	if s.key != nil {
		text, err := s.key.Of(s.requests.of(e))
		if err != nil {
			s.in.fail(err)
			return
		}
		key = []byte(text)
	}
	s.in.count(e.At)
	s.kept.Add(e.At, key, e.Cost)
}

func (s *suggestSubject) comparisons() []comparison { return nil }

func (s *suggestSubject) charged() []charged {
	return []charged{{"suggest", s.kept, s.key == nil || len(s.key.Inputs()) > 0}}
}

// suggestedFile is the policy file to write, with its tests.
type suggestedFile struct {
	starter
	tests   string // name of the file
	request string // of the tests
}

func suggestedFileOf(file, key string, read *policies.KeyExpression) (*suggestedFile, error) {
	f := &suggestedFile{starter: starter{
		by: "suggest", file: file, name: nameOf(file), policy: "per-client", key: cmp.Or(key, "request.ip"),
		roles: []algorithms.Role{algorithms.Authoritative, algorithms.Candidate},
	}}
	if file == "" || !policies.ValidName(f.name) {
		return nil, usagef("a name has letters, digits, '.', '_' and '-'", "--policy %q: its name is that of the policies, and %q is no name", file, f.name)
	}
	if err := checkPlace("--policy", file); err != nil {
		return nil, err
	}

	f.tests = strings.TrimSuffix(file, filepath.Ext(file)) + ".tests.yaml"
	for _, name := range []string{file, f.tests} {
		// Said before the log is read; createNew is what keeps the file.
		if _, err := os.Lstat(name); err == nil {
			return nil, statusf(exitNotMet, "not written: %s exists: name another file, or remove it", name)
		}
	}

	f.request = "ip: 192.0.2.1"
	if read != nil {
		f.request = requestYAML(read.Inputs())
	}
	return f, nil
}

// requestYAML writes a request that has what a key reads.
func requestYAML(inputs []string) string {
	fields := []string{"ip: 192.0.2.1"}
	under := map[string][]string{}
	for _, input := range inputs {
		name := entry.Replace(input)
		outer, inner, nested := strings.Cut(name, ".")
		switch {
		case nested && (outer == "headers" || outer == "claims" || outer == "query"):
			under[outer] = append(under[outer], quotedYAML(inner)+": example")
		case name == "path" || name == "route":
			fields = append(fields, name+": /example")
		case name == "user" || name == "host" || name == "method":
			fields = append(fields, name+": example")
		}
	}
	for _, outer := range []string{"headers", "claims", "query"} {
		if len(under[outer]) > 0 {
			fields = append(fields, outer+": { "+strings.Join(under[outer], ", ")+" }")
		}
	}
	return strings.Join(fields, ", ")
}

// write writes both files; nil writes none.
func (f *suggestedFile) write(report *suggest.Report, talk io.Writer) error {
	if f == nil {
		return nil
	}
	if len(report.Proposals) == 0 {
		return statusf(exitNotMet, "not written: %s: the log is too short for a proposal", f.file)
	}
	p := report.Proposals[0]
	f.sides = []algorithms.Side{{}, p.Side()}

	text := f.policyText()
	if _, err := policies.Load(filepath.Base(f.file), []byte(text), stages.Check); err != nil {
		return fmt.Errorf("the proposal makes no policy file: %w", err)
	}
	if err := createNew(f.file, text); err != nil {
		return err
	}
	if err := f.writeTests(p.Burst); err != nil {
		return err
	}
	return say(talk, "next: shadowlimit validate %s, and replay it: shadowlimit replay --config %s LOG\n", f.file, f.file)
}

// writeTests writes the tests. Where the key reads what no such request has, there are none rather than ones that fail.
func (f *suggestedFile) writeTests(burst int64) error {
	const mostRepeats = 100_000 // of one step of a test
	if burst > mostRepeats {
		return nil
	}
	text := fmt.Sprintf("# By shadowlimit suggest: shadowlimit test %s\npolicies: %s\ntests:\n  - name: the burst passes, and no more at once\n    sequence:\n"+
		"      - { at: 0s, repeat: %d, request: { %s }, authoritative: allow, candidate: allow }\n"+
		"      - { at: 0s, request: { %s }, authoritative: allow, candidate: deny }\n",
		filepath.Base(f.tests), quotedYAML(filepath.Base(f.file)), burst, f.request, f.request)
	if err := createNew(f.tests, text); err != nil {
		return err
	}
	if ran, err := policies.TestFile(f.tests); err != nil || ran.Failed > 0 {
		return os.Remove(f.tests)
	}
	return nil
}

// writeReport writes a page to the file of that name; "" is none. The page is complete before the file is touched: an earlier one is not
// lost to a failure.
func writeReport(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return err
	}
	out, closeFile, err := createFile(name)
	if err != nil {
		return err
	}
	_, err = out.Write(page.Bytes())
	return errors.Join(err, closeFile())
}
