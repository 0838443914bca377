package shadow_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func TestDecisionLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		observe := shadow.NewDecisionLog(shadow.DecisionLogConfig{
			Logger: slog.New(slog.NewTextHandler(&out, nil)), Differences: 3, Others: 2, Secret: []byte("secret"),
		})

		count := func() (differences, others int) {
			n := strings.Count(out.String(), "outcome=newly_denied")
			return n, strings.Count(out.String(), "\n") - n
		}

		flood := func() {
			for n := range 100 {
				c := shadow.Comparison{Policy: "p", Key: fmt.Sprint("alice-", n), Cost: 2, Outcome: shadow.AgreeAllow}
				c.Observed[algorithms.Authoritative].Status = algorithms.Judged
				c.Observed[algorithms.Candidate] = algorithms.Skip(algorithms.QueueFull)
				observe(c)
				c.Outcome = shadow.NewlyDenied
				observe(c)
			}
		}

		flood()
		if d, o := count(); d != 3 || o != 2 {
			t.Errorf("%d differences and %d others of 100 each are logged, want 3 and 2", d, o)
		}

		time.Sleep(time.Second)
		flood()
		if d, o := count(); d != 6 || o != 4 {
			t.Errorf("a second later %d and %d, want 6 and 4", d, o)
		}

		for _, part := range []string{
			"policy=p", "cost=2", "authoritative.allowed=false",
			`candidate.error="algorithms: the side was skipped: queue_full"`,
		} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("no %s in %s", part, strings.SplitN(out.String(), "\n", 2)[0])
			}
		}

		if strings.Contains(out.String(), "alice") {
			t.Error("keys are logged")
		}
	})
}
