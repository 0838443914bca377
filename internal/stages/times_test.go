package stages_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

var update = flag.Bool("update", false, "write the table of times in docs/failures.md")

// The table of times says what the constants say.
func TestTimesDocument(t *testing.T) {
	const file, mark = "../../docs/failures.md", "<!-- times -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no %q", file, mark)
	}
	_, after, _ = strings.Cut(after, "\n\n")

	table := "| time | what takes so long | `internal/stages` |\n|---|---|---|\n"
	for _, row := range []struct {
		of         time.Duration
		what, name string
	}{
		{stages.LeaveCanaryAfter, "an instance that does not hear from the store leaves a canary", "LeaveCanaryAfter"},
		{stages.TakeOverAfter, "another file takes over: so long it was served with a larger `generation`, or the stored one was served nowhere", "TakeOverAfter"},
		{stages.HeartbeatEvery, "from one heartbeat to the next, without news", "HeartbeatEvery"},
		{stages.LiveFor, "an instance is live after its last heartbeat, and counted as a part of the fleet", "LiveFor"},
		{stages.SilentFor, "one that is not live is shown as silent", "SilentFor"},
		{stages.LeaseFor, "the lease of a leader that has died", "LeaseFor"},
		{stages.EvaluateEvery, "from one evaluation of all policies to the next", "EvaluateEvery"},
		{stages.LeadEvery, "from one look at instances and triggers to the next", "LeadEvery"},
		{stages.EvidenceWithin, "the age at which evidence is too old for a move", "EvidenceWithin"},
	} {
		table += fmt.Sprintf("| %s | %s | `%s` |\n", humanize.Span(row.of), row.what, row.name)
	}

	if got := before + mark + table + "\n" + after; *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(text) {
		t.Errorf("the times in %s are not those of the code; run: go test ./internal/stages -run TimesDocument -update", file)
	}
}
