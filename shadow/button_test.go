//go:build unix

package shadow_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// always allows every check, never allows none.
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
	if err == nil {
		err = pair.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	syncNow(t, pair)
	advance(t, inside.Stages(pair), "default", stages.Step{Stage: stages.Promoted})
	syncNow(t, pair)
	return pair
}

// stageOf is the stored stage of a pair's policy.
func stageOf(t *testing.T, pair *shadow.Pair) stages.State {
	t.Helper()
	states, err := inside.Stages(pair).States(t.Context(), []string{"default"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// asked sends a request to the handler of a red button.
func asked(t *testing.T, button http.Handler, method string, header ...string) (int, buttonReport) {
	t.Helper()
	r := httptest.NewRequest(method, "/red-button", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	button.ServeHTTP(w, r)

	var report buttonReport
	if w.Code == http.StatusOK && method != http.MethodHead {
		if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
			t.Fatal(err, w.Body)
		}
	}
	return w.Code, report
}

// buttonReport is what the handler answers.
type buttonReport struct {
	Pressed bool     `json:"pressed"`
	By      []string `json:"by"`
	Kept    bool     `json:"kept"`
	Waiting []struct {
		Policy, Fingerprint string
		Term                int64
	} `json:"not_stored"`
	Denies []string `json:"would_deny"`
}

// A press enforces the authoritative from the next request on, and orders a rollback. The
// release of the button does not undo that.
func TestRedButton(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := promoted(t, shadow.RedButton{})
		defer pair.Close(t.Context())
		pair.EnforceAuthoritative(true)
		if d := pair.Allow(t.Context(), "alice", 1); !d.Allowed || d.Enforced != algorithms.Authoritative {
			t.Errorf("pressed: %+v", d)
		}

		synctest.Wait() // for the poll
		s := stageOf(t, pair)
		ours := strings.HasPrefix(s.Actor, "red button of") && strings.Contains(s.Reason, "program")
		if s.Stage != stages.RolledBack || s.Term < 2 || !ours {
			t.Errorf("the order became %+v", s)
		}
		resume := func() error {
			_, err := stages.Resume(t.Context(), inside.Stages(pair), "default", stages.Order{})
			return err
		}
		if err := resume(); !errors.Is(err, stages.ErrPressed) {
			t.Errorf("resumed while the button is pressed: %v", err)
		}

		pair.EnforceAuthoritative(false)
		syncNow(t, pair)
		if d := pair.Allow(t.Context(), "alice", 1); !d.Allowed || stageOf(t, pair).Version != s.Version {
			t.Errorf("released: %+v, %s", d, stageOf(t, pair))
		}
		if err := resume(); err != nil {
			t.Error(err)
		}
	})
}

// In shadow no candidate is enforced: there is nothing to roll back, and the evidence stays.
func TestRedButtonInShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair, err := shadow.NewPair(shadow.PairConfig{
			Authoritative: shadow.Side{Limiter: always}, Candidate: shadow.Side{Limiter: never}, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = pair.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close(t.Context())
		before := stageOf(t, pair)
		pair.EnforceAuthoritative(true)
		synctest.Wait()
		if s := stageOf(t, pair); s.Version != before.Version {
			t.Errorf("%s became %s", before, s)
		}
	})
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
			if _, r := asked(t, pair.RedButtonHandler(), http.MethodGet); r.Pressed != there {
				t.Errorf("file there %t: %+v", there, r)
			}
		}
		if s := stageOf(t, pair); s.Stage != stages.RolledBack {
			t.Errorf("the file has ordered %s", s)
		}
	})
}

// The handler presses by POST, releases by DELETE, and changes nothing otherwise.
func TestRedButtonHandler(t *testing.T) {
	pair := promoted(t, shadow.RedButton{})
	defer pair.Close(t.Context())
	button := pair.RedButtonHandler()

	for _, step := range []struct {
		method  string
		header  []string
		status  int
		pressed bool
	}{
		{http.MethodGet, nil, 200, false},
		{http.MethodHead, nil, 200, false},
		{http.MethodPut, nil, 405, false},
		{http.MethodPost, []string{"Sec-Fetch-Site", "cross-site"}, 403, false},
		{http.MethodPost, []string{"Origin", "https://evil.example"}, 403, false},
		{http.MethodPost, nil, 200, true},
		{http.MethodPost, nil, 200, true},
		{http.MethodGet, nil, 200, true},
		{http.MethodDelete, []string{"Sec-Fetch-Site", "cross-site"}, 403, true},
		{http.MethodDelete, []string{"Sec-Fetch-Site", "same-origin"}, 200, false},
	} {
		code, _ := asked(t, button, step.method, step.header...)
		if _, r := asked(t, button, http.MethodGet); code != step.status || r.Pressed != step.pressed {
			t.Errorf("%s %v: %d, want %d; pressed %t, want %t", step.method, step.header, code, step.status, r.Pressed, step.pressed)
		}
	}
	if s := stageOf(t, pair); s.Stage != stages.RolledBack || s.Term < 2 {
		t.Errorf("two presses and a release have ordered %s", s)
	}
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
