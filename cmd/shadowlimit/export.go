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
)

// exportCommand is the command that writes the files of a kind, which the program carries.
func exportCommand(kind string, files fs.FS, description string, std streams) *cli.Command {
	return &cli.Command{
		Name:        "export",
		Usage:       "write them into a folder, which is created if it is missing",
		ArgsUsage:   "DIR",
		Description: description,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "overwrite files that have been changed"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(seeHelp(c), "%s export needs one folder, got %d", kind, c.NArg())
			}

			// An unset variable of a script would otherwise write into the current folder.
			if c.Args().First() == "" {
				return usagef("the current folder is .", "%s export needs one folder, got \"\"", kind)
			}

			e := export{files: files, dir: c.Args().First(), force: c.Bool("force")}
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
	files fs.FS
	dir   string
	force bool // overwrite files that have been changed
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

	for _, name := range stale {
		path, err := e.writeFile(name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(std.out, path); err != nil {
			return err
		}
	}
	if len(stale) == 0 {
		fmt.Fprintf(std.err, "nothing to write: every file in %s is up to date\n", e.dir)
	}
	return nil
}

func (e export) writeFile(name string) (path string, err error) {
	content, err := fs.ReadFile(e.files, name)
	if err != nil {
		return "", err
	}

	path = e.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, writeWhole(path, content)
}

func (e export) path(name string) string { return filepath.Join(e.dir, filepath.FromSlash(name)) }

// compare returns the names of files that are missing in the folder or differ there, and of the
// differing ones the paths.
func (e export) compare() (stale, changed []string, err error) {
	err = fs.WalkDir(e.files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(e.files, name)
		if err != nil {
			return err
		}

		path := e.path(name)
		present, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale = append(stale, name)
		case err != nil:
			return err
		case !bytes.Equal(present, content):
			stale = append(stale, name)
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
