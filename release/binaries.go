package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var allPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// commands are the programs that are released: the package below the root module, and the name.
var commands = []struct{ path, name string }{
	{rootModule + "/cmd/shadowlimit", "shadowlimit"},
	{rootModule + "/envoy/cmd/shadowlimit-envoy", "shadowlimit-envoy"},
}

// binary is a program for a platform.
type binary struct {
	command, os, arch string
	file              string
}

// build makes the binaries as `go install PATH@VERSION` does, from the modules that were published. That is what shows
// that they can be built without this checkout.
func build(ctx context.Context, out, version string, platforms []string) (built []binary, err error) {
	temporary, err := os.MkdirTemp("", "shadowlimit-gopath-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	cache, err := goenv(ctx, "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	upstream, err := goenv(ctx, "GOPROXY")
	if err != nil {
		return nil, err
	}

	// The cache of this machine may have another module of this version.
	env := []string{
		"GOPATH=" + temporary, "GOMODCACHE=" + filepath.Join(temporary, "mod"), "GOBIN=", "GOFLAGS=-modcacherw",
		"GOPROXY=file://" + filepath.Join(out, "proxy") + ",file://" + filepath.Join(cache, "cache", "download") + "," + upstream,
		"GONOSUMDB=" + rootModule + "*," + os.Getenv("GONOSUMDB"), "GOWORK=off", "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=",
	}
	own := ""
	if host, err := goenv(ctx, "GOHOSTOS"); err == nil {
		arch, _ := goenv(ctx, "GOHOSTARCH")
		own = host + "/" + arch
	}

	for _, platform := range platforms {
		os_, arch, _ := strings.Cut(platform, "/")
		for _, c := range commands {
			say("building %s for %s", c.name, platform)
			err := run(ctx, temporary, append(env, "GOOS="+os_, "GOARCH="+arch), "go", "install", "-trimpath", "-ldflags=-s -w", c.path+"@"+version)
			if err != nil {
				return nil, err
			}

			from := filepath.Join(temporary, "bin", c.name)
			if platform != own {
				from = filepath.Join(temporary, "bin", os_+"_"+arch, c.name)
			}
			ending := ""
			if os_ == "windows" {
				ending = ".exe"
			}
			b := binary{c.name, os_, arch, filepath.Join(out, fmt.Sprintf("%s_%s_%s_%s%s", c.name, version, os_, arch, ending))}
			if err := copyFile(from+ending, b.file); err != nil {
				return nil, err
			}
			built = append(built, b)
		}
	}
	return built, nil
}

func goenv(ctx context.Context, name string) (string, error) {
	value, err := exec.CommandContext(ctx, "go", "env", name).Output()
	return strings.TrimSpace(string(value)), err
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// checksums writes SHA256SUMS, which `sha256sum -c` reads, of the files to download. The modules in proxy are not: go
// has sums of its own for them.
func checksums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(lines.String()), 0o644)
}
