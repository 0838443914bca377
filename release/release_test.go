package main

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// checkout is a clone of this repository's last commit, with a tag of its own kind.
func checkout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	if text, err := exec.Command("git", "clone", "--quiet", "--no-hardlinks", "..", dir).CombinedOutput(); err != nil {
		t.Fatalf("these tests need a checkout of git: %s", text)
	}
	return dir
}

// TestModulesAsPublished holds that a program builds against the released modules alone, by `go get` and `go install`.
func TestModulesAsPublished(t *testing.T) {
	if testing.Short() {
		t.Skip("builds all programs anew")
	}
	const version = "v0.9.0"
	dir := checkout(t)
	t.Chdir(dir)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for _, out := range []string{"../a", "../b"} {
		for _, name := range tags(t, version) {
			command(t, ".", nil, "git", "tag", "-d", name)
		}
		if err := release(t.Context(), version, out, []string{platform}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := sums(t, "../a"), sums(t, "../b")
	if first != second {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
	if got := len(tags(t, version)); got < 7 {
		t.Errorf("%d tags, want one a module", got)
	}

	// A user's program, in a folder that knows nothing of this checkout.
	user := t.TempDir()
	write(t, filepath.Join(user, "go.mod"), "module user\n\ngo 1.26.0\n")
	write(t, filepath.Join(user, "main.go"), `package main

import (
	"fmt"

	"github.com/gin-gonic/gin"
	"github.com/shadowlimit/shadowlimit/adapters/ginlimit"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	_ = ginlimit.New
	fmt.Println(shadow.New != nil)
}
`)
	proxy, _ := filepath.Abs("../a/proxy")
	cache := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOMODCACHE"))
	upstream := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOPROXY"))
	env := []string{
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw", "GOWORK=off", "GONOSUMDB=" + rootModule + "*",
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," + upstream,
	}
	command(t, user, env, "go", "get", rootModule+"/adapters/ginlimit@"+version)
	command(t, user, env, "go", "mod", "tidy")
	if got := command(t, user, env, "go", "run", "."); got != "true\n" {
		t.Errorf("the program printed %q", got)
	}

	name := filepath.Join("../a", "shadowlimit_"+version+"_"+runtime.GOOS+"_"+runtime.GOARCH)
	if got := command(t, ".", nil, name, "version"); !strings.Contains(got, version) {
		t.Errorf("version says %q, want %s", got, version)
	}
}

// TestModulesNeedEachOther is the quick part: every module is packed, and needs the others in the released version.
func TestModulesNeedEachOther(t *testing.T) {
	source, proxy := t.TempDir(), t.TempDir()
	t.Chdir(checkout(t))
	if err := export(t.Context(), ".", source); err != nil {
		t.Fatal(err)
	}
	folders, err := publish(source, proxy, "v0.9.0", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		mod, err := os.ReadFile(filepath.Join(source, folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(mod); strings.Contains(text, "replace") || folder != "." && !strings.Contains(text, rootModule+" v0.9.0") {
			t.Errorf("%s: %s", folder, text)
		}
	}
}

func tags(t *testing.T, version string) []string {
	t.Helper()
	return strings.Fields(command(t, ".", nil, "git", "tag", "--list", "*"+version))
}

func sums(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 4*sha256.Size {
		t.Fatalf("SHA256SUMS: %s", text)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var failed strings.Builder
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, failed.String())
	}
	return string(out)
}
