//go:build unix

package shadow_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// always allows every charge, never allows none.
var (
	always = shadow.AllowFunc(func(string) bool { return true })
	never  = shadow.AllowFunc(func(string) bool { return false })
)

// promoted returns a pair whose candidate, which denies all, is enforced.
func promoted(t testing.TB, button shadow.RedButton) *shadow.Pair {
	t.Helper()
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.Side{Limiter: always}, Candidate: shadow.Side{Limiter: never},
		RedButton: button, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}

	syncNow(t, pair)
	advance(t, pair.Stages(), "default", promotion.Step{Stage: promotion.Promoted})
	syncNow(t, pair)
	return pair
}

func TestRedButton(t *testing.T) {
	pair := promoted(t, shadow.RedButton{})
	defer pair.Close(t.Context())
	for _, pressed := range []bool{false, true, true, false} {
		pair.EnforceAuthoritative(pressed)
		if d := pair.Allow(t.Context(), "alice", 1); d.Allowed != pressed || (d.Enforced == algorithms.Authoritative) != pressed {
			t.Errorf("pressed %t: %+v", pressed, d)
		}
	}
}

func TestRedButtonFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authoritative")
	synctest.Test(t, func(t *testing.T) {
		pair := promoted(t, shadow.RedButton{File: path})
		defer pair.Close(t.Context())
		for _, there := range []bool{false, true, false} {
			if there {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				os.Remove(path)
			}

			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if d := pair.Allow(t.Context(), "alice", 1); d.Allowed != there {
				t.Errorf("file there %t: %+v", there, d)
			}
		}
	})
}

func TestRedButtonSignal(t *testing.T) {
	pair := promoted(t, shadow.RedButton{Signal: syscall.SIGUSR1})
	defer pair.Close(t.Context())
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}

	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if pair.Allow(t.Context(), "alice", 1).Allowed {
			return
		}
	}
	t.Error("the signal has not pressed the button within 10 s")
}
