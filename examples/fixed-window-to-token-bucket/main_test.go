package main

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// The tests run in a synctest bubble. Its clock starts at a full minute and advances
// only in time.Sleep.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const policy = "per-client"

// open returns the service and its policy file.
func open(t *testing.T) (*shadow.Harness, http.Handler, string) {
	t.Helper()

	file, err := writePolicies(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	harness, err := shadow.New(shadow.Config{File: file, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = harness.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	return harness, newHandler(harness), file
}

func order(ip string) func() *http.Request { return exampletest.From(ip, http.MethodPost, "/orders/7") }

func TestTwiceTheLimitAroundTheEndOfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h, _ := open(t)
		defer exampletest.Close(t, harness)

		time.Sleep(59 * time.Second)
		late := exampletest.Allowed(t, h, 6, order("192.0.2.1"))
		time.Sleep(time.Second)
		early := exampletest.Allowed(t, h, 6, order("192.0.2.1"))
		if late != 5 || early != 5 {
			t.Errorf("%d and %d allowed, want the authoritative's 5 in each window", late, early)
		}

		want := map[string]int{"agree_allow": 5, "newly_denied": 5, "agree_deny": 2}
		if got := exampletest.Outcomes(t, harness, policy); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

func TestCandidateDecidesWhilePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h, _ := open(t)
		defer exampletest.Close(t, harness)

		exampletest.Promote(t, harness, policy)
		bob := order("192.0.2.2")
		first := exampletest.Allowed(t, h, 6, bob)

		// A bucket refills all the time: after 59 s it has 4 tokens, where a window would
		// still be used up.
		time.Sleep(time.Minute - time.Second)
		if next := exampletest.Allowed(t, h, 6, bob); first != 5 || next != 4 {
			t.Errorf("promoted: %d and %d allowed, want the candidate's 5 and 4", first, next)
		}

		exampletest.Rollback(t, harness, policy)
		if got := exampletest.Allowed(t, h, 6, bob); got != 0 {
			t.Errorf("rolled back: %d allowed, want none: the authoritative has kept counting, and its window is used up", got)
		}

		time.Sleep(time.Second)
		if got := exampletest.Allowed(t, h, 6, bob); got != 5 {
			t.Errorf("rolled back: %d allowed, want the authoritative's 5 of a new window", got)
		}
	})
}

func TestEditedFileIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h, file := open(t)
		defer exampletest.Close(t, harness)

		edited := bytes.ReplaceAll(embedded, []byte("limit: 5"), []byte("limit: 8"))
		if err := os.WriteFile(file, edited, 0o600); err != nil {
			t.Fatal(err)
		}

		// The file is read every second and used once two readings are alike.
		time.Sleep(3 * time.Second)
		synctest.Wait()

		if got := exampletest.Allowed(t, h, 10, order("192.0.2.3")); got != 8 {
			t.Errorf("%d allowed, want the 8 of the edited file", got)
		}
	})
}

func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := runCopy(ctx, "localhost:0"); err != nil {
		t.Error(err)
	}
}
