// Release makes what a version is published as: archives of all modules as a GOPROXY has them, binaries built from
// those, checksums, lists of what is in each binary, an image, and a commit with the tags. It publishes nothing.
//
// Two runs of one commit and version write the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	version := flag.String("version", "", "the `VERSION`, such as v0.9.0")
	out := flag.String("out", "dist", "the `FOLDER` to write to; it must not exist")
	platforms := flag.String("platforms", strings.Join(allPlatforms, ","), "the platforms of the binaries")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := release(ctx, *version, *out, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is the whole way, from the commit that is checked out to the folder out and the tags. All that it refuses, it
// refuses before it builds, and a failure leaves neither the folder nor a tag.
func release(ctx context.Context, version, out string, platforms []string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("the version %q is none: write it as v0.9.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("go finds no %s of a module whose path does not end in /%s: release v0 or v1, or change the paths first", version, major)
	}
	for _, platform := range platforms {
		if !slices.Contains(allPlatforms, platform) {
			return fmt.Errorf("the platform %q is none that is released: choose of %s", platform, strings.Join(allPlatforms, ","))
		}
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another one with -out", out)
	}

	root, err := git(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	changed, err := git(ctx, nil, "-C", root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the checkout has changes, which no tag would name: commit them first\n%s", changed)
	}
	if err := listed(filepath.Join(root, "CHANGELOG.md"), version); err != nil {
		return err
	}
	folders, err := published(root)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		name := path.Join(folder, version)
		there, err := git(ctx, nil, "-C", root, "tag", "--list", name)
		if err != nil {
			return err
		}
		if there != "" {
			return fmt.Errorf("the tag %s is there already: release another version, or delete it by: git tag -d %s", name, name)
		}
	}
	seconds, err := git(ctx, nil, "-C", root, "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, seconds)
	if err != nil {
		return err
	}

	source, err := os.MkdirTemp("", "shadowlimit-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := export(ctx, root, source); err != nil {
		return err
	}

	// Beside out, so that it can be renamed.
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished)
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return err
	}
	if err := publish(source, filepath.Join(unfinished, "proxy"), version, at.UTC(), folders); err != nil {
		return err
	}
	say("%d modules of %s are packed", len(folders), version)

	built, err := build(ctx, unfinished, version, platforms)
	if err != nil {
		return err
	}
	if err := describe(version, at.UTC(), built); err != nil {
		return err
	}
	if err := image(unfinished, version, at.UTC(), built); err != nil {
		return err
	}
	if err := checksums(unfinished); err != nil {
		return err
	}

	commit, err := tag(ctx, root, source, version, folders)
	if err != nil {
		return err
	}
	if err := os.Rename(unfinished, out); err != nil {
		return err
	}
	say("tagged %s, which no branch has, for %d modules; publish it by: git push --atomic origin --tags", commit[:12], len(folders))
	return nil
}

// listed returns an error unless the changelog has a section of the version.
func listed(changelog, version string) error {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "##" && words[1] == version {
			return nil
		}
	}
	return fmt.Errorf("CHANGELOG.md has no section of this version: write \"## %s\" and what is new in it", version)
}

// export copies the files of the commit, and nothing that only this machine has.
func export(ctx context.Context, root, to string) error {
	archive := filepath.Join(to, "..", filepath.Base(to)+".tar")
	defer os.Remove(archive)
	if _, err := git(ctx, nil, "-C", root, "archive", "--format=tar", "-o", archive, "HEAD"); err != nil {
		return err
	}
	return run(ctx, to, nil, "tar", "-xf", archive)
}

// git returns what a command of git prints, without the last newline.
func git(ctx context.Context, env []string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Env = append(os.Environ(), env...)
	command.Stderr = os.Stderr
	printed, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(string(printed), "\n"), nil
}

func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...) }
