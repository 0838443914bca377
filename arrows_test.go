// Package shadowlimit_test holds what no single package can: which package may know
// which. The table is the plan of the house in docs/architecture.md.
package shadowlimit_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/shadowlimit/shadowlimit/"

// arrows are all that a package may import of this module. A package that is
// missing here is new: say what it may know.
var arrows = map[string][]string{
	"algorithms":                   {"internal/humanize"},
	"algorithms/limitertest":       {"algorithms"},
	"lua":                          {"algorithms", "internal/humanize"},
	"policies":                     {"algorithms", "internal/adaptive", "internal/humanize"},
	"internal/evidence":            {"algorithms", "internal/humanize", "internal/redisread"},
	"internal/evidence/ledgertest": {"algorithms", "internal/evidence"},
	"internal/inside":              {"internal/fleet", "internal/stages", "policies"},
	"internal/follow":              {"algorithms", "internal/accesslog", "internal/evidence", "internal/fleet", "internal/humanize", "internal/stages", "policies"},
	"internal/stages":              {"algorithms", "internal/adaptive", "internal/clock", "internal/humanize", "internal/redisread", "internal/evidence", "internal/gate", "policies"},
	"internal/gate":                {"internal/humanize", "internal/evidence"},
	"internal/stages/storetest":    {"internal/stages"},
	"internal/clock":               {},
	"internal/redisreply":          {},
	"internal/redisread":           {},
	"internal/engine": {
		"algorithms", "internal/adaptive", "internal/clock", "internal/evidence", "internal/redisreply", "internal/stages", "lua", "policies",
	},
	"internal/fleet": {
		"algorithms", "internal/adaptive", "internal/clock", "internal/evidence", "internal/gate", "internal/redisreply", "internal/stages",
		"internal/notify", "internal/status",
	},
	"internal/notify": {"internal/humanize", "internal/stages"},
	"shadow": {
		"algorithms", "internal/adaptive", "internal/clock", "internal/engine", "internal/fleet", "internal/humanize", "internal/inside",
		"internal/notify", "internal/redisreply", "internal/status", "lua", "policies", "internal/evidence", "internal/stages", "internal/gate",
	},
	"internal/limits":           {"algorithms", "policies", "shadow"},
	"shadow/httplimit":          {"internal/limits", "policies", "shadow"},
	"adapters/echolimit":        {"internal/limits", "policies", "shadow", "shadow/httplimit"},
	"adapters/fiberlimit":       {"internal/limits", "internal/view", "policies", "shadow", "shadow/httplimit"},
	"adapters/ginlimit":         {"internal/limits", "policies", "shadow", "shadow/httplimit"},
	"adapters/grpclimit":        {"algorithms", "internal/limits", "internal/view", "policies", "shadow", "shadow/httplimit"},
	"envoy":                     {"algorithms", "internal/limits", "policies", "shadow", "shadow/httplimit"},
	"shadow/httplimit/chiroute": {}, // a module of its own, as are the adapters
	"internal/accesslog":        {},
	"internal/adaptive":         {},
	"internal/adaptertest":      {"algorithms", "internal/limits", "lua", "policies", "shadow", "shadow/httplimit"},
	"internal/flaghelp":         {"internal/humanize"},
	"internal/humanize":         {},
	"internal/importer":         {"algorithms", "internal/humanize", "policies"},
	"internal/replay": {
		"algorithms", "internal/adaptive", "internal/humanize", "internal/status", "internal/evidence", "internal/gate",
	},
	"internal/suggest":  {"algorithms", "internal/humanize", "internal/status"},
	"internal/redisurl": {},
	"internal/sample":   {},
	"internal/serve":    {"algorithms", "internal/limits", "policies", "shadow", "shadow/httplimit"},
	"internal/testseed": {},
	"internal/view":     {"internal/limits", "policies"},
	"internal/status": {
		"algorithms", "internal/adaptive", "internal/humanize", "internal/evidence", "internal/stages", "internal/gate",
		"internal/redisreply",
	},
	"dashboards": {},
	"alerts":     {},
	"cmd/shadowlimit": {
		"alerts", "algorithms", "cmd/shadowlimit/internal/demo", "cmd/shadowlimit/internal/doctor",
		"dashboards", "internal/accesslog", "internal/adaptive", "internal/flaghelp", "internal/fleet", "internal/follow", "internal/humanize", "internal/importer",
		"internal/inside", "internal/redisurl", "internal/replay",
		"internal/notify", "internal/redisreply", "internal/serve", "internal/status", "internal/suggest", "lua", "policies", "shadow", "shadow/httplimit", "internal/evidence", "internal/stages", "internal/gate",
	},
	"cmd/shadowlimit/internal/demo": {
		"internal/accesslog", "internal/humanize", "internal/sample", "lua", "policies",
		"shadow", "internal/evidence", "shadow/httplimit", "internal/stages",
	},
	"cmd/shadowlimit/internal/doctor": {
		"algorithms", "internal/humanize", "lua", "internal/stages", "internal/status",
	},
}

// others are modules that only some packages may import.
var others = map[string][]string{
	"github.com/redis/go-redis/": {
		"lua", "internal/engine", "internal/evidence", "internal/inside", "internal/redisread", "internal/stages", "shadow",
		"cmd/shadowlimit", "cmd/shadowlimit/internal/demo", "cmd/shadowlimit/internal/doctor", "internal/adaptertest", "internal/redisurl",
	},
	"github.com/prometheus/":        {"internal/engine", "internal/follow", "shadow", "internal/serve", "cmd/shadowlimit/internal/demo"},
	"github.com/google/cel-go/":     {"policies"},
	"github.com/go-chi/":            {"shadow/httplimit/chiroute"},
	"github.com/gofiber/":           {"adapters/fiberlimit"},
	"github.com/valyala/":           {"adapters/fiberlimit"},
	"github.com/gin-gonic/":         {"adapters/ginlimit"},
	"github.com/labstack/":          {"adapters/echolimit"},
	"google.golang.org/grpc":        {"adapters/grpclimit", "envoy"},
	"github.com/envoyproxy/":        {"envoy"},
	"github.com/urfave/cli/":        {"cmd/shadowlimit", "internal/flaghelp"},
	"github.com/alicebob/miniredis": {"cmd/shadowlimit/internal/demo"},
	"github.com/klauspost/":         {"internal/accesslog"},
	"github.com/pelletier/go-toml/": {"internal/importer"},
}

// standardOnly are the packages that import nothing but the standard library and
// packages of this module.
var standardOnly = []string{"algorithms", "dashboards"}

// The house has the plan of docs/architecture.md: no package knows more than its arrows
// say.
func TestPackageArrows(t *testing.T) {
	list, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}

	seen := 0
	for line := range strings.Lines(string(list) + importsOfAdapters(t)) {
		fields := strings.Fields(line)
		if fields[0] == strings.TrimSuffix(module, "/") {
			continue // the root has tests alone
		}

		seen++
		pkg := strings.TrimPrefix(fields[0], module)
		if _, known := arrows[pkg]; !known {
			t.Errorf("%s is in no arrow: add what it may import to arrows", pkg)
		}
		for _, path := range fields[1:] {
			if !mayImport(pkg, path) {
				t.Errorf("%s must not import %s", pkg, path)
			}
		}
	}
	if seen != len(arrows) {
		t.Errorf("%d packages, %d in arrows: remove the packages that are gone", seen, len(arrows))
	}
}

// mayImport reports whether the tables let a package import a path.
func mayImport(pkg, path string) bool {
	if known, ours := strings.CutPrefix(path, module); ours {
		return slices.Contains(arrows[pkg], known)
	}

	for prefix, users := range others {
		if strings.HasPrefix(path, prefix) && !slices.Contains(users, pkg) {
			return false
		}
	}

	// Only paths outside the standard library have a dot in their first element.
	outside := strings.Contains(path, ".")
	return !outside || !slices.Contains(standardOnly, pkg)
}
