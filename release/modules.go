package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"
)

const rootModule = "github.com/shadowlimit/shadowlimit"

// published are the folders of the modules that are released, each after those that it needs. Tests, examples and this
// program are not.
func published(source string) (folders []string, err error) {
	for _, pattern := range []string{"go.mod", "shadow/httplimit/*/go.mod", "adapters/*/go.mod", "envoy/go.mod"} {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			folder, err := filepath.Rel(source, filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			folders = append(folders, filepath.ToSlash(folder))
		}
	}
	return folders, nil
}

// publish makes the modules in source what the version has: they need each other in that version, without a replace. It
// writes them to proxy as a GOPROXY serves them.
func publish(source, proxy, version string, at time.Time, folders []string) error {
	license, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return err
	}

	var sums []string // lines of go.sum of the modules so far
	for _, folder := range folders {
		dir := filepath.Join(source, folder)
		of, err := pin(dir, version, sums)
		if err != nil {
			return err
		}
		// As go does with a module of a tag, so that the sums are those of any other proxy. None has a licence of its own.
		if err := os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644); err != nil {
			return err
		}
		lines, err := serve(dir, proxy, module.Version{Path: of, Version: version}, at)
		if err != nil {
			return err
		}
		sums = append(sums, lines...)
	}
	return nil
}

// pin rewrites the go.mod and go.sum of a module, and returns its path.
func pin(dir, version string, sums []string) (string, error) {
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	mod, err := modfile.Parse(file, text, nil)
	if err != nil {
		return "", err
	}

	needs := false
	for _, r := range slices.Clone(mod.Replace) {
		if !ours(r.Old.Path) {
			return "", fmt.Errorf("%s replaces %s: a released module can't, so require a version that was published", file, r.Old.Path)
		}
		if err := mod.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return "", err
		}
	}
	for _, r := range mod.Require {
		if ours(r.Mod.Path) {
			needs = true
			if err := mod.AddRequire(r.Mod.Path, version); err != nil {
				return "", err
			}
		}
	}

	mod.Cleanup()
	if text, err = mod.Format(); err != nil {
		return "", err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return "", err
	}
	if !needs {
		return mod.Module.Mod.Path, nil
	}

	file = filepath.Join(dir, "go.sum")
	known, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	lines := append(strings.Split(strings.TrimSpace(string(known)), "\n"), sums...)
	slices.Sort(lines)
	return mod.Module.Mod.Path, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func ours(of string) bool { return of == rootModule || strings.HasPrefix(of, rootModule+"/") }

// serve writes a module to the files that a GOPROXY has of it, and returns its lines of go.sum.
func serve(dir, proxy string, m module.Version, at time.Time) ([]string, error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return nil, err
	}
	base := filepath.Join(proxy, escaped, "@v", m.Version)
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return nil, err
	}

	file, err := os.Create(base + ".zip")
	if err != nil {
		return nil, err
	}
	if err := modzip.CreateFromDir(file, m, dir); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}

	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": at})
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{base + ".mod": mod, base + ".info": info, path.Join(filepath.Dir(base), "list"): []byte(m.Version + "\n")} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return nil, err
		}
	}

	all, err := dirhash.HashZip(base+".zip", dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	alone, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(base + ".mod") })
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%s %s %s", m.Path, m.Version, all),
		fmt.Sprintf("%s %s/go.mod %s", m.Path, m.Version, alone),
	}, nil
}

// tag commits the modules as they are released on top of the commit that is checked out, on no branch, and tags that
// commit for each module. It returns the commit.
func tag(ctx context.Context, root, source, version string, folders []string) (string, error) {
	index, err := os.MkdirTemp("", "shadowlimit-index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(index)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(index, "index")}

	if _, err := git(ctx, env, "-C", root, "read-tree", "HEAD"); err != nil {
		return "", err
	}
	for _, folder := range folders {
		for _, name := range []string{"go.mod", "go.sum"} {
			object, err := git(ctx, nil, "-C", root, "hash-object", "-w", filepath.Join(source, folder, name))
			if err != nil {
				return "", err
			}
			if _, err := git(ctx, env, "-C", root, "update-index", "--cacheinfo", "100644,"+object+","+path.Join(folder, name)); err != nil {
				return "", err
			}
		}
	}

	tree, err := git(ctx, env, "-C", root, "write-tree")
	if err != nil {
		return "", err
	}
	commit, err := git(ctx, env, "-C", root, "commit-tree", "-p", "HEAD", "-m", "Release "+version, tree)
	if err != nil {
		return "", err
	}

	// In one transaction: all tags or none.
	var creations strings.Builder
	for _, folder := range folders {
		fmt.Fprintf(&creations, "create refs/tags/%s %s\n", path.Join(folder, version), commit)
	}
	command := exec.CommandContext(ctx, "git", "-C", root, "update-ref", "--stdin")
	command.Stdin, command.Stderr = strings.NewReader(creations.String()), os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("git update-ref, which makes the tags: %w", err)
	}
	return commit, nil
}
