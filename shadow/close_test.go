package shadow

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

func TestReloadAfterCloseStartsNothing(t *testing.T) {
	text := "version: 1\nname: test\npolicies:\n  - {name: p, key: request.user, authoritative: {algorithm: gcra, limit: 2, window: 1h}, candidate: {limiter: new}}\n"
	h, err := New(Config{Policies: mustSet(t, text), Logger: slog.New(slog.DiscardHandler), Limiters: map[string]Limiter{"new": AllowFunc(func(string) bool { return true })}})
	if err != nil {
		t.Fatal(err)
	}
	h.Close(context.Background())
	time.Sleep(10 * time.Millisecond)
	before := runtime.NumGoroutine()
	err = h.Reload(mustSet(t, strings.Replace(text, "limit: 2", "limit: 3", 1)))
	if n := runtime.NumGoroutine(); n > before || !errors.Is(err, errClosed) {
		t.Errorf("%v, and %d goroutines more", err, n-before)
	}
}

func mustSet(t *testing.T, text string) *policies.Set {
	set, err := policies.Load("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}
