package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/importer"
	"github.com/shadowlimit/shadowlimit/policies"
)

const importDescription = `Reads the configuration of another rate limiter and writes a policy file whose
authoritative sides decide as that configuration does. Beside each policy stands the
file and the line that it comes from. What cannot be carried over is named with its
place and the reason, on the standard error and at the top of the file: read it before
you trust a comparison. Exit status 1 if a file cannot be read, or if no limit can be
carried over.

PEER is one of: %s.
Several files of one peer are read as one configuration. docs/import.md lists the parts
that are carried over for each peer.

Some peers are sent what they limit by, and their files do not say how that is made.
Such a value is a variable of the policy file, and --map gives its expression.

Examples, from the folder of the repository:
  shadowlimit import nginx internal/importer/testdata/nginx/shop.conf
  shadowlimit import nginx internal/importer/testdata/nginx/shop.conf \
      --name shop > /tmp/shop.yaml
  shadowlimit import nginx internal/importer/testdata/nginx/shop.conf -o json`

func importCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "import",
		Usage:       "make a policy file of another limiter's configuration",
		ArgsUsage:   strings.Join(importer.Peers(), "|") + " FILE...",
		Description: fmt.Sprintf(importDescription, strings.Join(importer.Peers(), ", ")),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the policy file, its namespace in Redis (default: the peer's)"},
			&cli.StringSliceFlag{Name: "map", Usage: "`NAME=EXPRESSION`: the CEL expression of what the peer is sent as NAME; repeatable"},
			outputFlag(),
		},
		Action: func(c *cli.Context) error { return importAction(c, std) },
	}
}

func importAction(c *cli.Context, std streams) error {
	if c.NArg() < 2 {
		return usagef("shadowlimit import nginx /etc/nginx/nginx.conf", "import needs a peer and its files; the peers are: %s",
			strings.Join(importer.Peers(), ", "))
	}
	format, err := formatOf(c)
	if err != nil {
		return err
	}
	o, err := importOptions(c, c.Args().First())
	if err != nil {
		return err
	}

	in, err := readImport(c.Args().First(), c.Args().Tail(), o)
	if err != nil && !errors.Is(err, importer.ErrNothing) {
		return err
	}
	if printed := format.print(std.out, in, func(out io.Writer) error { return writeImport(out, std.err, in) }); printed != nil {
		return printed
	}
	return err
}

// readImport reads a configuration. A flag that it has no use for is a wrong invocation.
func readImport(peer string, files []string, o importer.Options) (*importer.Import, error) {
	in, err := importer.Read(peer, files, o)
	var unused *importer.UnusedError
	if errors.As(err, &unused) {
		return nil, usagef("leave it out, or look for the name in the configuration", "--map %s has no effect: %s", unused.Name, unused)
	}
	return in, err
}

// writeImport writes the policy file to the output, and what it lacks beside it.
func writeImport(out, talk io.Writer, in *importer.Import) error {
	_, err := io.WriteString(out, in.File)
	return errors.Join(err, writeLeftOut(talk, in))
}

// writeLeftOut writes what cannot be carried over.
func writeLeftOut(talk io.Writer, in *importer.Import) (err error) {
	for _, l := range in.LeftOut {
		fmt.Fprintln(talk, l)
	}
	if n := int64(len(in.LeftOut)); n > 0 {
		_, err = fmt.Fprintf(talk, "%s imported, and %s not carried over: docs/import.md says more\n",
			countedPolicies(importedPolicies(in)), humanize.Counted(n, "part"))
	}
	return err
}

// importedPolicies counts the policies as validate does: a group is one.
func importedPolicies(in *importer.Import) (n int) {
	groups := map[*importer.Group]bool{}
	for _, p := range in.Policies {
		if p.Group == nil || !groups[p.Group] {
			n++
		}
		groups[p.Group] = true
	}
	return n
}

// importOptions reads the flags that say what a configuration does not.
func importOptions(c *cli.Context, peer string) (importer.Options, error) {
	o := importer.Options{Name: c.String("name"), Map: map[string]string{}}
	switch {
	case !slices.Contains(importer.Peers(), peer):
		return o, usagef(seeHelp(c), "no importer for %q: %s", peer, humanize.Remedy(peer, importer.Peers()))
	case o.Name != "" && !policies.ValidName(o.Name):
		return o, usagef("such as --name shop", "--name %s: want 1 to 100 letters, digits, '.', '_' or '-'", o.Name)
	}

	for _, text := range c.StringSlice("map") {
		name, expression, found := strings.Cut(text, "=")
		if !found || name == "" || expression == "" {
			return o, usagef(`such as --map 'user_id=request.headers[?"x-user"].orValue("")'`, "--map %s: want NAME=EXPRESSION", text)
		}
		o.Map[name] = expression
	}
	return o, nil
}
