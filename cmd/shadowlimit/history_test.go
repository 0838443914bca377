package main

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// The trail is trimmed. A history without its beginning does not look complete.
func TestHistorySaysWhatIsNotKept(t *testing.T) {
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := stages.Pause(t.Context(), inside.Stages(h), "writes", stages.Order{Actor: "ann", Reason: "wait"}); err != nil {
		t.Fatal(err)
	}

	const note = "Redis has lost the changes before " // a trail is cut at stages.KeptHistory, far above one
	_, text, _ := shell(t, "", "history", "writes")
	_, whole, _ := shell(t, "", "history", "writes", "-o", "json")
	if strings.Contains(text, note) || !strings.Contains(whole, `"truncated": false`) {
		t.Errorf("the whole trail: %s%s", text, whole)
	}

	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	if err := client.XTrimMaxLen(t.Context(), "shadowlimit1:{checkout}:audit:writes", 1).Err(); err != nil {
		t.Fatal(err)
	}
	_, text, _ = shell(t, "", "history", "writes")
	_, trimmed, _ := shell(t, "", "history", "writes", "-o", "json")
	if !strings.HasPrefix(text, note) || !strings.Contains(trimmed, `"truncated": true`) {
		t.Errorf("a trimmed trail: %s%s", text, trimmed)
	}
}
