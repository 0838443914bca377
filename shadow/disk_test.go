//go:build unix

package shadow_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// full and half are steps of a drill.
var (
	full = stages.Step{Stage: stages.Promoted}
	half = stages.Step{Stage: stages.Canary, Percent: 100}
)

// reopened is the side that is enforced by an instance that starts without Redis, after one
// that had moved there. Spoil may change its directory in between.
func reopened(t *testing.T, move func(stages.Store) error, text string, spoil func(dir string)) (enforced, log string) {
	t.Helper()
	dir, server := t.TempDir(), miniredis.RunT(t)
	cfg := shadow.Config{Redis: redisAt(t, server.Addr()), StateDir: dir}
	h := open(t, file, cfg)
	syncNow(t, h)
	if err := move(inside.Stages(h)); err != nil {
		t.Fatal(err)
	}
	syncNow(t, h)
	h.Close(t.Context())
	server.Close()
	if spoil != nil {
		spoil(dir)
	}

	var lines bytes.Buffer
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policies, cfg.Logger = set, slog.New(slog.NewTextHandler(&lines, nil))
	again, err := shadow.New(cfg)
	if err == nil {
		err = again.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d := again.Decide(t.Context(), &policies.Request{User: "acme"})
	again.Close(ctx(t))
	return d.Enforced.String(), lines.String()
}

// A start without Redis goes on in a stage that no rollback could have changed unseen, of the
// fingerprint that the instance compares.
func TestStartWithoutRedisObeysTheDisk(t *testing.T) {
	to := func(step stages.Step) func(stages.Store) error {
		return func(s stages.Store) error {
			_, err := stages.Advance(t.Context(), s, policy, step, stages.Order{})
			return err
		}
	}
	complete := func(s stages.Store) error {
		if err := to(full)(s); err != nil {
			return err
		}
		_, err := stages.Complete(t.Context(), s, policy, stages.Order{})
		return err
	}
	overtaken := func(as stages.Stage) func(stages.Store) error {
		return func(s stages.Store) error {
			if err := complete(s); err != nil {
				return err
			}
			states, err := s.States(t.Context(), []string{policy})
			if err != nil {
				return err
			}
			next := states[0]
			next.Seq++
			next.Stage, next.Percent = stages.Shadow, 0
			next.Past = []stages.Past{{Fingerprint: next.Fingerprint, Stage: as}}
			next.Fingerprint = "next"
			return s.Put(t.Context(), policy, next, stages.Condition{})
		}
	}
	back := func(s stages.Store) error {
		_, err := stages.Rollback(t.Context(), s, policy, stages.Order{Reason: "429s"})
		return err
	}
	another := strings.Replace(file, "limit: 1", "limit: 3", 1)

	for _, tt := range []struct {
		name string
		move func(stages.Store) error
		file string
		want string
	}{
		{"promoted", to(full), file, "candidate"},
		{"promoted of another fingerprint", to(full), another, "authoritative"},
		{"canary", to(half), file, "authoritative"},
		{"completed", complete, file, "candidate"},
		{"completed before the next fingerprint", overtaken(stages.Completed), file, "candidate"},
		{"rolled back before the next fingerprint", overtaken(stages.RolledBack), file, "authoritative"},
		{"rolled back", back, file, "authoritative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, log := reopened(t, tt.move, tt.file, nil); got != tt.want {
				t.Errorf("the %s is enforced, want the %s:\n%s", got, tt.want, log)
			}
		})
	}
}

// What another user may have written, and what cannot be read, is named and not obeyed.
func TestUntrustedFileIsNotObeyed(t *testing.T) {
	move := func(s stages.Store) error {
		_, err := stages.Advance(t.Context(), s, policy, full, stages.Order{})
		return err
	}
	stageFile := func(dir string) string { return filepath.Join(dir, name+".stages1.json") }
	must := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	type spoiled struct {
		name  string
		spoil func(dir string)
		warns string
	}
	table := []spoiled{
		{"world-writable", func(dir string) { must(os.Chmod(stageFile(dir), 0o606)) }, "other users may write it"},
		{"half", func(dir string) { must(os.Truncate(stageFile(dir), 20)) }, "unexpected end of JSON"},
		{"a link", func(dir string) {
			must(os.Rename(stageFile(dir), stageFile(dir)+"x"), os.Symlink(stageFile(dir)+"x", stageFile(dir)))
		}, "symbolic links"},
		{"a directory", func(dir string) { must(os.Remove(stageFile(dir)), os.Mkdir(stageFile(dir), 0o700)) }, "not a regular file"},
	}
	if os.Geteuid() == 0 { // only root can give a file away
		foreign := func(dir string) { must(os.Chown(stageFile(dir), 12345, 12345)) }
		table = append(table, spoiled{"foreign", foreign, "belongs to another user"})
	}

	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			got, log := reopened(t, move, file, tt.spoil)
			if got != "authoritative" || !strings.Contains(log, tt.warns) {
				t.Errorf("the %s is enforced, want a warning of %q:\n%s", got, tt.warns, log)
			}
		})
	}
}

// Stages of a service in another Redis are not obeyed, nor stored as newer ones.
func TestStagesOfAnotherRedisAreNotObeyed(t *testing.T) {
	cfg := shadow.Config{StateDir: t.TempDir(), Redis: redisAt(t, miniredis.RunT(t).Addr())}
	h := open(t, file, cfg)
	syncNow(t, h)
	advance(t, inside.Stages(h), policy, full)
	syncNow(t, h)
	h.Close(t.Context())

	cfg.Redis = redisAt(t, miniredis.RunT(t).Addr())
	other := open(t, file, cfg)
	syncNow(t, other)
	states, err := inside.Stages(other).States(t.Context(), []string{policy})
	if err != nil || states[0].Stage != stages.Shadow || states[0].Seq != 1 {
		t.Errorf("the other Redis has %s, %v", states[0], err)
	}
}
