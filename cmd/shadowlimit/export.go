package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/alerts"
)

const alertsDescription = `Writes the recording rules and alerts for Prometheus into a folder. Each alert has a
page in docs/runbooks that says what to do. Check them, and name them in
Prometheus's configuration under rule_files.

Examples:
  shadowlimit alerts export prometheus/rules
  promtool check rules prometheus/rules/shadowlimit.rules.yaml`

func alertsCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "alerts", Usage: "write rules and alerts for Prometheus", ArgsUsage: "export DIR", Description: alertsDescription,
		Subcommands: []*cli.Command{exportCommand("alerts", alerts.Rules, alertsDescription, io)},
		Action:      needsSubcommand,
	}
}

// exportCommand is the command that writes what the program carries of a kind.
func exportCommand(kind string, files fs.FS, description string, io streams) *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write them into a folder, which is made if need be", ArgsUsage: "DIR", Description: description,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "write over files that have been changed"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("see: shadowlimit "+kind+" export --help", "%s export needs one folder, got %d", kind, c.NArg())
			}
			if c.Args().First() == "" {
				return usagef("the folder in use is .", "%s export needs one folder, got \"\"", kind)
			}
			return exportFiles(files, c.Args().First(), c.Bool("force"), io)
		},
	}
}

// needsSubcommand is the action of a command that does nothing by itself.
func needsSubcommand(c *cli.Context) error {
	names := commandNames(c.Command.Subcommands)
	if c.Args().Present() {
		return usagef("there are: "+names, "%s has no command %q", c.Command.Name, c.Args().First())
	}
	return usagef("see: "+c.Command.HelpName+" --help", "%s needs a command: %s", c.Command.Name, names)
}

// exportFiles writes files into a folder and prints the names of those it has
// written. Without force it refuses to write over a file that differs, and then
// writes none.
func exportFiles(files fs.FS, dir string, force bool, io streams) error {
	stale, differ, err := compareFiles(files, dir)
	if err != nil {
		return err
	}
	if len(differ) > 0 && !force {
		return statusError{exitNotMet, fmt.Errorf("not written: it would overwrite %s (--force overrules this)", strings.Join(differ, ", "))}
	}
	for _, name := range stale {
		path := filepath.Join(dir, filepath.FromSlash(name))
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writeWhole(path, content); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(io.out, path); err != nil {
			return err
		}
	}
	if len(stale) == 0 {
		fmt.Fprintf(io.err, "everything in %s is as it would be written\n", dir)
	}
	return nil
}

// compareFiles returns the files that are to be written into a folder, and the paths
// of those there that differ.
func compareFiles(files fs.FS, dir string) (stale, differ []string, err error) {
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		there, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale = append(stale, name)
		case err != nil:
			return err
		case !bytes.Equal(there, content):
			stale, differ = append(stale, name), append(differ, path)
		}
		return nil
	})
	return stale, differ, err
}

// writeWhole writes a file that others may read meanwhile: they see the old one or
// the new one, and never half of it.
func writeWhole(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
