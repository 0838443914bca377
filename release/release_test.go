package main

import (
	"archive/zip"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/mod/sumdb/dirhash"
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
	first, second := sum(t, "../a"), sum(t, "../b")
	if first != second {
		t.Errorf("two runs differ: %s, %s", first, second)
	}
	command(t, "../a", nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
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
	folders, err := published(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(source, proxy, "v0.9.0", time.Unix(0, 0), folders); err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		archive, err := zip.OpenReader(filepath.Join(proxy, rootModule, folder, "@v", "v0.9.0.zip"))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		if _, err := archive.Open(path.Join(rootModule, folder) + "@v0.9.0/LICENSE"); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
		mod, err := os.ReadFile(filepath.Join(source, folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(mod); strings.Contains(text, "replace") || folder != "." && !strings.Contains(text, rootModule+" v0.9.0") {
			t.Errorf("%s: %s", folder, text)
		}
	}
}

// TestRefusedBeforeItBuilds holds that what can be known at the beginning is, and leaves nothing.
func TestRefusedBeforeItBuilds(t *testing.T) {
	t.Chdir(checkout(t))
	for _, name := range tags(t, "v0.9.0") {
		command(t, ".", nil, "git", "tag", "-d", name)
	}
	for _, refused := range []struct{ version, platform, tag string }{
		{"0.9.0", "linux/amd64", ""},
		{"v0.9", "linux/amd64", ""},
		{"v2.0.0", "linux/amd64", ""},
		{"v0.9.0-rc1", "linux/amd64", ""}, // the changelog has v0.9.0
		{"v0.9.0", "linux", ""},
		{"v0.9.0", "linux/amd65", ""},
		{"v0.9.0", "linux/amd64", "adapters/ginlimit/v0.9.0"},
	} {
		if refused.tag != "" {
			command(t, ".", nil, "git", "tag", refused.tag)
		}
		if err := release(t.Context(), refused.version, "../out", []string{refused.platform}); err == nil {
			t.Errorf("%+v is released", refused)
		}
		if left, _ := filepath.Glob("../out*"); left != nil {
			t.Errorf("%+v leaves %s", refused, left)
		}
	}
}

// TestListedByItsWholeName holds that a section is of the version that it names, and of no other one.
func TestListedByItsWholeName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	write(t, file, "# Changes\n\n## v0.9.0-rc1\n\n## v0.8.0 of May\n")
	for version, want := range map[string]bool{"v0.9.0": false, "v0.9.0-rc1": true, "v0.8.0": true} {
		if err := listed(file, version); (err == nil) != want {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestTagsAllOrNone holds that a tag that cannot be made leaves no other one.
func TestTagsAllOrNone(t *testing.T) {
	t.Chdir(checkout(t))
	command(t, ".", nil, "git", "config", "user.name", "release")
	command(t, ".", nil, "git", "config", "user.email", "release@example.com")
	command(t, ".", nil, "git", "tag", "envoy/v0.0.1")
	if _, err := tag(t.Context(), ".", ".", "v0.0.1", []string{".", "envoy"}); err == nil {
		t.Error("a tag was overwritten")
	}
	if got := tags(t, "v0.0.1"); len(got) != 1 {
		t.Errorf("the tags are %s", got)
	}
	if _, err := tag(t.Context(), ".", ".", "v0.0.2", []string{".", "envoy"}); err != nil || len(tags(t, "v0.0.2")) != 2 {
		t.Errorf("%v, the tags are %s", err, tags(t, "v0.0.2"))
	}
}

// TestImagesAndLists holds what an image and a list of contents say, by this test's own binary.
func TestImagesAndLists(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var built []binary
	for _, arch := range []string{"amd64", "arm64"} {
		b := binary{"shadowlimit", "linux", arch, filepath.Join(dir, arch)}
		if err := os.Symlink(self, b.file); err != nil {
			t.Fatal(err)
		}
		built = append(built, b)
	}
	at := time.Unix(0, 0).UTC()
	if err := image(dir, "v0.9.0", at, built); err != nil {
		t.Fatal(err)
	}
	if err := describe("v0.9.0", at, built); err != nil {
		t.Fatal(err)
	}

	for _, b := range built {
		tag, err := name.NewTag("shadowlimit/shadowlimit:v0.9.0-" + b.arch)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(filepath.Join(dir, "image_shadowlimit_linux_"+b.arch+".tar"), &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != nobody || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/shadowlimit" || config.Architecture != b.arch {
			t.Errorf("%s: %+v", b.arch, config)
		}

		text, err := os.ReadFile(b.file + ".spdx.json")
		if err != nil {
			t.Fatal(err)
		}
		var d spdxDocument
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{d.Version, d.License, d.ID, d.Name, d.Namespace, d.Creation.Created}, "") ||
			len(d.Creation.Creators) == 0 || len(d.Packages) < 2 || len(d.Relationships) != len(d.Packages) {
			t.Errorf("%s", text)
		}
		for _, p := range d.Packages {
			if slices.Contains([]string{p.ID, p.Name, p.Location}, "") {
				t.Errorf("%+v", p)
			}
		}
	}
}

func tags(t *testing.T, version string) []string {
	t.Helper()
	return strings.Fields(command(t, ".", nil, "git", "tag", "--list", "*"+version))
}

// sum is of all files of a release.
func sum(t *testing.T, dir string) string {
	t.Helper()
	sum, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	return sum
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
