package shadow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

func TestReloadAfterCloseStartsNothing(t *testing.T) {
	text := "version: 1\nname: test\npolicies:\n  - {name: p, key: request.user, " +
		"authoritative: {algorithm: gcra, limit: 2, window: 1h}, candidate: {limiter: new}}\n"
	h, err := New(Config{
		Policies: mustSet(t, text), Logger: slog.New(slog.DiscardHandler),
		Limiters: map[string]Limiter{"new": AllowFunc(func(string) bool { return true })},
	})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	h.Close(context.Background())

	// TestMain finds the goroutines that this reload starts.
	other := mustSet(t, strings.Replace(text, "limit: 2", "limit: 3", 1))
	if err := h.Reload(other); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

func mustSet(t *testing.T, text string) *policies.Set {
	set, err := policies.Load("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}
