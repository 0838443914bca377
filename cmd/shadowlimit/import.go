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

const importDescription = `Reads the configuration of another rate limiter and writes a draft of a
policy file: a policy for each limit, with its algorithm, numbers and key,
and the file and the line that it comes from. Each policy is switched off by
"when: false", and the condition of the configuration stands beside it: write
its when. For envoy, whose descriptors are data, the conditions are written.
A limit with a key that is not plain is left out and named, on the standard
error and at the top of the file. Exit status 1 if a file cannot be read, or
if no limit becomes a policy.

PEER is one of: %s.
Several files of one peer are read as one configuration.
docs/import.md says what is read of each peer.

Examples, from the folder of the repository:
  shadowlimit import nginx internal/importer/testdata/nginx/limit_req.conf
  shadowlimit import nginx internal/importer/testdata/nginx/limit_req.conf \
      --name shop > /tmp/shop.yaml
  shadowlimit import nginx -o json \
      internal/importer/testdata/nginx/limit_req.conf`

func importCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "import",
		Usage:       "draft a policy file of another limiter's configuration",
		ArgsUsage:   "PEER FILE...",
		Description: fmt.Sprintf(importDescription, strings.Join(importer.Peers(), ", ")),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the policy file, its namespace in Redis (default: the peer's)"},
			outputFlag(),
		},
		Action: func(c *cli.Context) error { return importAction(c, std) },
	}
}

func importAction(c *cli.Context, std streams) error {
	// Whoever asks for a peer that has no importer may have no file of it.
	peer, name := c.Args().First(), c.String("name")
	if c.NArg() > 0 && !slices.Contains(importer.Peers(), peer) {
		why, remedy := importer.NoImporter(peer)
		return usagef(seeHelp(c), "%s: %s", why, remedy)
	}
	if c.NArg() < 2 {
		return usagef("shadowlimit import nginx /etc/nginx/nginx.conf", "import needs a peer and its files; the peers are: %s",
			strings.Join(importer.Peers(), ", "))
	}
	format, err := formatOf(c)
	if err != nil {
		return err
	}
	if name != "" && !policies.ValidName(name) {
		return usagef("such as --name shop", "--name %s: want 1 to 100 letters, digits, '.', '_' or '-'", name)
	}

	in, err := importer.Read(peer, c.Args().Tail(), name)
	if err != nil && !errors.Is(err, importer.ErrNothing) {
		return err
	}
	if printed := format.printFile(std.out, in, func(out io.Writer) error { return writeImport(out, std.err, in) }); printed != nil {
		return printed
	}
	return err
}

// writeImport writes the policy file to the output, and what it lacks beside it.
func writeImport(out, talk io.Writer, in *importer.Import) error {
	_, err := io.WriteString(out, in.File)
	for _, l := range in.LeftOut {
		fmt.Fprintln(talk, l)
	}
	if in.File == "" {
		return err
	}

	off := ""
	if in.Off() > 0 {
		off = ", switched off until you write when"
	}
	if n := int64(len(in.LeftOut)); n > 0 {
		off += "; left out, or to be known: " + humanize.Counted(n, "part")
	}
	say(talk, "%s imported%s: docs/import.md says more\n", countedPolicies(len(in.Policies)), off)
	return err
}
