package shadowlimit_test

import (
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// adapters are the folders of the modules that users of one framework add to the root module.
func adapters(t *testing.T) (folders []string) {
	t.Helper()
	for _, pattern := range []string{"adapters/*/go.mod", "shadow/httplimit/*/go.mod", "envoy/go.mod"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			folders = append(folders, filepath.ToSlash(filepath.Dir(file)))
		}
	}

	if len(folders) == 0 {
		t.Fatal("no adapter found: the patterns of this test do not match any more")
	}
	return folders
}

// importsOfAdapters returns a line for each adapter, in the form of go list: its path and what it imports. It reads the
// files, so that the tests of the root module need no framework.
func importsOfAdapters(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, folder := range adapters(t) {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}

		imports := map[string]bool{}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				imports[path] = true
			}
		}

		text.WriteString(module + folder + " " + strings.Join(slices.Sorted(maps.Keys(imports)), " ") + "\n")
	}
	return text.String()
}

// A user of the root module downloads no framework: go.mod does not ask for one, and go.sum has the sum of none, which
// it has of every module that a build of the root module or of its tests downloads.
func TestRootModuleHasNoFramework(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)
	ours, sums := read(t, "go.mod"), read(t, "go.sum")
	frameworks := 0
	for _, folder := range adapters(t) {
		for _, match := range required.FindAllStringSubmatch(read(t, folder+"/go.mod"), -1) {
			framework := match[1]
			if !slices.ContainsFunc(frameworksKnown, func(prefix string) bool { return strings.HasPrefix(framework, prefix) }) {
				continue
			}

			frameworks++
			if strings.Contains(ours, "\t"+framework+" ") {
				t.Errorf("go.mod asks for %s, which is for %s alone", framework, folder)
			}
			if regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(framework) + ` v\S+ h1:`).MatchString(sums) {
				t.Errorf("a build of the root module downloads %s, which is for %s alone", framework, folder)
			}
		}
	}

	if frameworks < len(adapters(t)) {
		t.Errorf("%d frameworks in %d adapters: name the new one in frameworksKnown", frameworks, len(adapters(t)))
	}
}

// A user of the library downloads no limiter that it is compared with: none is in the graph of its modules, whose go.mod files
// a build reads.
func TestRootModuleHasNoPeer(t *testing.T) {
	graph, err := exec.Command("go", "mod", "graph").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, peer := range peers {
		if !strings.Contains(read(t, "bench/go.mod"), "\t"+peer+" ") {
			t.Errorf("bench does not compare with %s any more: remove it from peers", peer)
		}
		if strings.Contains(string(graph), peer+"@") {
			t.Errorf("go mod graph has %s", peer)
		}
		if strings.Contains(read(t, "go.sum"), peer+" ") {
			t.Errorf("go.sum has %s", peer)
		}
	}
}

// peers are the limiters that make bench compares with.
var peers = []string{
	"github.com/go-redis/redis_rate/v10", "github.com/sethvargo/go-limiter", "github.com/throttled/throttled/v2",
	"github.com/ulule/limiter/v3", "golang.org/x/time",
}

// frameworksKnown begin the paths of the modules that adapters are for.
var frameworksKnown = []string{
	"github.com/gin-gonic/", "github.com/go-chi/", "github.com/gofiber/", "github.com/labstack/", "github.com/valyala/",
	"google.golang.org/grpc", "github.com/envoyproxy/",
}
