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

// exportCommand is the command that writes the files of a kind, which the program carries: as they are, or as objects of Kubernetes.
func exportCommand(kind string, files fs.FS, object kubernetes, description string, std streams) *cli.Command {
	return &cli.Command{
		Name:        "export",
		Usage:       "write them into a folder",
		ArgsUsage:   "DIR",
		Description: description,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "overwrite files that have been changed"},
			&cli.StringFlag{Name: "as", Usage: "`" + object.kind + "`: write objects of Kubernetes"},
			&cli.StringFlag{
				Name: "runbook-url", Value: alerts.Runbook, Usage: "the `URL` of the runbook that they link to",
				DefaultText: "in the project's repository",
			},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(seeHelp(c), "%s export needs one folder, got %d", kind, c.NArg())
			}

			// An unset variable of a script would otherwise write into the current folder.
			if c.Args().First() == "" {
				return usagef("the current folder is .", "%s export needs one folder, got \"\"", kind)
			}

			convert, err := object.writer(c.String("as"), c.String("runbook-url"))
			if err != nil {
				return err
			}
			e := export{files: files, convert: convert, dir: c.Args().First(), force: c.Bool("force")}
			return e.write(std)
		},
	}
}

// needsSubcommand is the action of a command that does nothing by itself.
func needsSubcommand(c *cli.Context) error {
	names := commandNames(c.Command.Subcommands)
	if c.Args().Present() {
		return usagef("there are: "+names, "%s has no command %q", c.Command.Name, c.Args().First())
	}
	return usagef(seeHelp(c), "%s needs a command: %s", c.Command.Name, names)
}

// export writes files into a folder.
type export struct {
	files   fs.FS
	convert func(file) (file, error) // nil writes them as they are
	dir     string
	force   bool // overwrite files that have been changed
}

// file is one that is written.
type file struct {
	name string
	text []byte
}

// write writes the files that are missing or differ, and prints their names. Without force it
// refuses to overwrite a file that differs, and then writes none: half an update is worse.
func (e export) write(std streams) error {
	stale, changed, err := e.compare()
	if err != nil {
		return err
	}
	if len(changed) > 0 && !e.force {
		return statusf(exitNotMet, "not written: it would overwrite %s (--force overrules this)", strings.Join(changed, ", "))
	}

	for _, f := range stale {
		path, err := e.writeFile(f)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(std.out, path); err != nil {
			return err
		}
	}
	if len(stale) == 0 {
		say(std.err, "nothing to write: every file in %s is up to date\n", e.dir)
	}
	return nil
}

func (e export) writeFile(f file) (path string, err error) {
	path = e.path(f.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, writeWhole(path, f.text)
}

func (e export) path(name string) string { return filepath.Join(e.dir, filepath.FromSlash(name)) }

// compare returns the files that are missing in the folder or differ there, and of the differing ones the paths.
func (e export) compare() (stale []file, changed []string, err error) {
	err = fs.WalkDir(e.files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f := file{name: name}
		if f.text, err = fs.ReadFile(e.files, name); err != nil {
			return err
		}
		if e.convert != nil {
			if f, err = e.convert(f); err != nil {
				return err
			}
		}

		path := e.path(f.name)
		present, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale = append(stale, f)
		case err != nil:
			return err
		case !bytes.Equal(present, f.text):
			stale = append(stale, f)
			changed = append(changed, path)
		}
		return nil
	})
	return stale, changed, err
}

// writeWhole writes a file that others may read meanwhile: they see the old file or the new one,
// and never half of it.
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
