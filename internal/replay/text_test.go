package replay

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestWriteText(t *testing.T) {
	var events Events
	for second := range int64(90) {
		events.Add(1_700_000_000_000_000+second*1e6, []byte("client\x1b[31m"), 1)
	}

	side := func(id string, requests int64) algorithms.Side {
		limit := algorithms.Limit{Requests: requests, Window: 30 * time.Second}
		return algorithms.Side{ID: id, Algorithm: algorithms.FixedWindow{}, Limit: limit}
	}

	report, err := Run(context.Background(), &events, Config{
		Policy: "p", Pair: algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}),
		Sides: [2]algorithms.Side{side("from", 30), side("to", 20)},
	})
	if err != nil {
		t.Fatal(err)
	}

	report.SkippedLines = 1

	var out bytes.Buffer
	if err := report.WriteText(&out); err != nil {
		t.Fatal(err)
	}

	text := out.String()
	for _, want := range []string{
		"90 requests", "2023-11-14 22:13:20", "2023-11-14 22:14:49 UTC (1m29s)", ", 1 line",
		"policy p, 1 key\n", "fixed_window:30/30s",
		"newly denied  20  22.2 % ",
		"newly allowed   0  no ratio",
		`"client\x1b[31m"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	if strings.Contains(text, "\x1b") {
		t.Error("the report contains a control character of a key")
	}
}
