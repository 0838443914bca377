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

	table := "| time | what takes so long |\n|---|---|\n"
	for _, row := range []struct {
		of   time.Duration
		what string
	}{
		{stages.LeaveCanaryAfter, "an instance that does not hear from the store leaves a canary"},
		{stages.TakeOverAfter, "another file takes over: so long it was served with a larger `generation`, or the stored one was served nowhere"},
		{stages.HeartbeatEvery, "from one heartbeat to the next, without news"},
		{stages.LiveFor, "an instance is live after its last heartbeat, and counted as a part of the fleet"},
		{stages.SilentFor, "one that is not live is shown as silent"},
		{stages.LeaseFor, "the lease of a leader that has died"},
		{stages.EvaluateEvery, "from one evaluation of all policies to the next"},
		{stages.LeadEvery, "from one look at instances and triggers to the next"},
		{stages.EvidenceWithin, "the age at which evidence is too old for a move"},
	} {
		table += fmt.Sprintf("| %s | %s |\n", humanize.Span(row.of), row.what)
	}

	if got := before + mark + table + "\n" + after; *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(text) {
		t.Errorf("the times in %s are not those of the code; run: go test ./internal/stages -run TimesDocument -update", file)
	}
}
