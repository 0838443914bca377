package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/importer"
	"github.com/shadowlimit/shadowlimit/policies"
)

// imported is a draft of another limiter's configuration.
type imported struct{ file, text string }

// importedDraft reads the configuration, and says on the standard error what cannot be carried over.
func importedDraft(c *cli.Context, std streams) (*imported, error) {
	for _, flag := range []string{"from", "route", "method", "key"} {
		if c.IsSet(flag) {
			return nil, usagef("change the file that init writes", "--%s has no effect with --import, which finds it in the configuration", flag)
		}
	}
	if c.NArg() < 2 {
		return nil, usagef("such as shadowlimit init policies.yaml --import nginx /etc/nginx/nginx.conf",
			"--import %s needs the files of the configuration behind FILE", c.String("import"))
	}

	o, err := importOptions(c, c.String("import"))
	if err != nil {
		return nil, err
	}
	d := &imported{file: c.Args().First()}
	if o.Name == "" {
		o.Name = nameOf(d.file)
	}
	in, err := readImport(c.String("import"), c.Args().Tail(), o)
	if err != nil {
		return nil, err
	}

	d.text = in.File
	if err := d.addCandidate(c, in); err != nil {
		return nil, err
	}
	return d, writeLeftOut(std.err, in)
}

// addCandidate gives a policy the side that --to has.
func (d *imported) addCandidate(c *cli.Context, in *importer.Import) error {
	name := c.String("policy")
	switch {
	case !c.IsSet("to") && c.IsSet("policy"):
		return usagef("such as --to token_bucket:100/1m:burst=20", "--policy has no effect with --import unless --to gives a candidate")
	case !c.IsSet("to"):
		return nil
	case !c.IsSet("policy") && len(in.Policies) == 1:
		name = in.Policies[0].Name
	}
	side, err := parseSide("to", c.String("to"))
	if err != nil {
		return err
	}

	// The file has the name of a policy, its authoritative side a few lines below, and then the next policy.
	before, policy, found := strings.Cut(d.text, "\n  - name: "+name+"\n")
	if !found {
		return usagef("give its candidate to one of the policies by --policy: "+importedNames(in),
			"--to: the configuration makes no policy %s", name)
	}
	at := strings.Index(policy, "\n    authoritative: ") + 1
	end := at + strings.IndexByte(policy[at:], '\n') + 1
	id := ""
	if strings.Contains(policy[at:end], "algorithm: "+side.Algorithm.Name()+",") {
		id = idOfCandidate
	}
	d.text = before + "\n  - name: " + name + "\n" + policy[:end] +
		fmt.Sprintf("    %s: %s\n", algorithms.Candidate, sideYAML(side, id)) + policy[end:]
	return nil
}

// importedNames lists the policies of an import.
func importedNames(in *importer.Import) string {
	names := make([]string, len(in.Policies))
	for i, p := range in.Policies {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

func (d *imported) policyText() string { return d.text }

// testsText has requests that the policies match, and says of which policies none was found.
func (d *imported) testsText(set *policies.Set) (string, error) {
	list, unmatched, err := samplesOf(set, d.text)
	if err != nil {
		return "", err
	}

	var b strings.Builder
	fmt.Fprintf(&b, "# By shadowlimit init. Run them by: shadowlimit test %s\n", filepath.Base(testsFile(d.file)))
	b.WriteString("# The requests are made of the texts that the policies compare with. Replace them by requests of your service.\n")
	for _, name := range unmatched {
		fmt.Fprintf(&b, "# No request was found that policy %s matches: write one.\n", name)
	}
	fmt.Fprintf(&b, "policies: %s\ntests:\n", quotedYAML(filepath.Base(d.file)))

	for i, one := range list {
		fmt.Fprintf(&b, "  - name: request %d\n    request: %s\n", i+1, one.request)
		if len(one.charges) == 0 {
			b.WriteString("    charges: []\n")
			continue
		}
		b.WriteString("    charges:\n")
		for _, c := range one.charges {
			fmt.Fprintf(&b, "      - { policy: %s, key: %s, cost: %d }\n", quotedYAML(c.Policy), quotedYAML(c.Key), c.Cost)
		}
	}
	return b.String(), nil
}
