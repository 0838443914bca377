package main

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
	"algorithms":                   {},
	"algorithms/limitertest":       {"algorithms"},
	"lua":                          {"algorithms"},
	"policies":                     {"algorithms"},
	"shadow/divergence":            {"algorithms"},
	"shadow/divergence/ledgertest": {"algorithms", "shadow/divergence"},
	"shadow/promotion":             {"algorithms", "shadow/divergence"},
	"shadow/promotion/storetest":   {"shadow/promotion"},
	"shadow/status":                {"shadow/divergence", "shadow/promotion"},
	"shadow":                       {"algorithms", "lua", "policies", "shadow/divergence", "shadow/promotion", "shadow/status"},
	"shadow/httplimit":             {"algorithms", "policies", "shadow"},
	"shadow/httplimit/chiroute":    {},
	"accesslog":                    {},
	"sample":                       {},
	"dashboards":                   {},
	"dashboards/generate":          {},
	"replay":                       {"algorithms", "shadow/divergence", "shadow/promotion"},
	"alerts":                       {},
	"cmd/shadowlimit":              {"accesslog", "alerts", "algorithms", "dashboards", "lua", "policies", "replay", "sample", "shadow", "shadow/divergence", "shadow/httplimit", "shadow/promotion", "shadow/status"},
}

// others are modules that only some packages may import.
var others = map[string][]string{
	"github.com/redis/go-redis/":    {"lua", "shadow/divergence", "shadow/promotion", "shadow", "cmd/shadowlimit"},
	"github.com/prometheus/":        {"shadow", "cmd/shadowlimit"},
	"github.com/google/cel-go/":     {"policies"},
	"github.com/sony/gobreaker/":    {"shadow"},
	"github.com/go-chi/":            {"shadow/httplimit/chiroute"},
	"github.com/urfave/cli/":        {"cmd/shadowlimit"},
	"github.com/alicebob/miniredis": {"cmd/shadowlimit"},
}

func TestPackageArrows(t *testing.T) {
	list, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		allowed, known := arrows[pkg]
		if !known {
			t.Errorf("%s is in no arrow", pkg)
		}
		seen++
		for _, path := range fields[1:] {
			if own, ours := strings.CutPrefix(path, module); ours && !slices.Contains(allowed, own) {
				t.Errorf("%s must not import %s", pkg, own)
			}
			for prefix, users := range others {
				if strings.HasPrefix(path, prefix) && !slices.Contains(users, pkg) {
					t.Errorf("%s must not import %s", pkg, path)
				}
			}
			if (pkg == "algorithms" || pkg == "accesslog" || strings.HasPrefix(pkg, "dashboards")) && strings.Contains(path, ".") && !strings.HasPrefix(path, module) {
				t.Errorf("%s must import nothing but the standard library, not %s", pkg, path)
			}
		}
	}
	if seen != len(arrows) {
		t.Errorf("%d packages, %d in the table", seen, len(arrows))
	}
}
