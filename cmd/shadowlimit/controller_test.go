package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A controller tells its URL of a move although an instance leads, and nothing shows the URL.
func TestControllerNotifies(t *testing.T) {
	_, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		told <- string(text)
	}))
	defer server.Close()

	// The first look says since when it tells, so a move before it may be old.
	var out, talk strings.Builder
	done := make(chan int)
	go func() {
		args := []string{"controller", "--notify", server.URL + "/T0KEN", "--notify-as", "slack"}
		done <- run(ctx, args, streams{strings.NewReader(""), &out, &talk})
	}()
	text := ""
	for hold := true; text == ""; hold = !hold {
		move := stages.Pause
		if !hold {
			move = stages.Resume
		}
		if _, err := move(t.Context(), inside.Stages(h), "writes", stages.Order{Actor: "ann", Reason: "drill"}); err != nil {
			t.Fatal(err)
		}
		select {
		case text = <-told:
		case <-t.Context().Done():
			t.Fatal("nothing was told")
		case <-time.After(time.Second):
		}
	}
	cancel()
	if status := <-done; status != 0 || !strings.Contains(text, "checkout writes: ") || !strings.Contains(text, "by ann: drill") {
		t.Errorf("status %d, told %s", status, text)
	}
	if strings.Contains(out.String()+talk.String(), "T0KEN") {
		t.Errorf("%s%s", &out, &talk)
	}
}
