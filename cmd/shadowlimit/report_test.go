package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A report is the text of a change request by the live evidence, in each form.
func TestReport(t *testing.T) {
	_, h := service(t)
	for range 3 {
		h.Decide(t.Context(), &policies.Request{User: "<b>alice</b>"})
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _, talk := shell(t, "", "promote", "writes", "--force", "--to", "50%", "--reason", "drill"); status != 0 {
		t.Fatal(talk)
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "change.html")
	status, out, talk := shell(t, "", "report", "writes", "--html", file)
	page, err := os.ReadFile(file)
	if status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, talk)
	}
	for _, want := range []string{"# checkout: writes", "3 requests of 1 key", "newly denied: 1 request of 1 key", "`<b>alice</b>`: 1", "→ canary 50 %, by `", "`drill`"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if text := string(page); !strings.Contains(text, "&lt;b&gt;alice") || strings.Contains(text, "<b>alice") || !strings.Contains(text, "drill") {
		t.Errorf("the page:\n%s", text)
	}

	_, out, _ = shell(t, "", "report", "writes", "-o", "json")
	var report struct {
		Policy  struct{ Name, Stage string }
		History []struct{ Stage string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Policy.Name != "writes" || len(report.History) != 2 {
		t.Errorf("%v: %s", err, out)
	}

	for args, want := range map[string]string{
		"report":                                "needs one policy",
		"report a b":                            "needs one policy",
		"report writes --html=":                 "want a file",
		"report writes --html /nowhere/at.html": "no such file",
		"report nothing":                        `no policy "nothing"`,
	} {
		if status, out, talk := shell(t, "", strings.Fields(args)...); status == 0 || out != "" || !strings.Contains(talk, want) {
			t.Errorf("%s: status %d: %s%s", args, status, out, talk)
		}
	}
}
