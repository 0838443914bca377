package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// typed returns a terminal at which a person has typed a line.
func typed(t *testing.T, line string) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no terminal: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })

	// The kernel locks a new terminal, and numbers it (pty(7)).
	var unlock, number int32
	for request, argument := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(argument))); errno != 0 {
			t.Fatalf("terminal: %v", errno)
		}
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })

	if _, err := keyboard.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
	return screen
}

func TestYesAsksNothing(t *testing.T) {
	pinnedKeys(t)
	var out, talk bytes.Buffer
	std := streams{typed(t, "no"), &out, &talk}

	for _, args := range []string{"promote writes --full --force --yes --reason x", "complete writes --force --yes --reason x"} {
		if status := run(t.Context(), strings.Fields(args), std); status != exitOK || strings.Contains(talk.String(), "Type") {
			t.Errorf("%s: status %d\n%s%s", args, status, out.String(), talk.String())
		}
	}
}

// A rollback says what it would do where the authoritative's store does not answer, and asks where it would be an outage.
func TestRollbackAsksWhereItDenies(t *testing.T) {
	_, h := service(t)
	promoteAll(t, h)
	store := inside.Stages(h)
	specs := announcedBy(t, store)

	spec := &specs[0]
	tell(t, store, stages.Instance{ID: "b", Failing: []string{"east"}, Policies: map[string]stages.Applied{spec.Policy: {}}})

	for _, tt := range []struct {
		rule, flags string
		status      int
		asks        bool
		effect      string
	}{
		{stages.FailDeny, "", exitNotMet, true, "do not roll back"},
		{stages.FailDeny, "--dry-run", exitOK, false, "do not roll back"},
		{stages.FailLocal, "--dry-run", exitOK, false, "its share"},
	} {
		spec.Store, spec.OnStoreFailure = "east", tt.rule
		announce(t, store, specs...)

		var out, talk bytes.Buffer
		args := strings.Fields("rollback writes --reason x " + tt.flags)
		status := run(t.Context(), args, streams{typed(t, "no"), &out, &talk})
		told := firstMissing(talk.String(), []string{"writes: ", "east", "1 of 2 live", tt.effect}) == ""
		if asked := strings.Contains(talk.String(), "Type"); status != tt.status || !told || asked != tt.asks {
			t.Errorf("%s %s: status %d, asked %t\n%s%s", tt.rule, tt.flags, status, asked, out.String(), talk.String())
		}
	}
}

// A script cannot be asked. Without --force it makes no outage of a rollback that its own output warns of, and a harmless
// rollback needs no flag.
func TestRollbackOfAScriptMakesNoOutage(t *testing.T) {
	_, h := service(t)
	promoteAll(t, h)
	store := inside.Stages(h)
	specs := announcedBy(t, store)
	specs[0].Store, specs[0].OnStoreFailure = "east", stages.FailDeny
	announce(t, store, specs...)
	tell(t, store, stages.Instance{ID: "b", Failing: []string{"east"}, Policies: map[string]stages.Applied{"writes": {}}})

	order := strings.Fields("rollback writes --reason x --timeout 300ms") // instance b applies nothing
	for _, flags := range [][]string{nil, {"--yes"}} {
		status, _, talk := shell(t, "", append(order, flags...)...)
		states, err := store.States(t.Context(), []string{"writes"})
		told := strings.Contains(talk, "--force")
		if status != exitNotMet || !told || err != nil || states[0].Stage != stages.Promoted {
			t.Errorf("%v: status %d, %v, %v: %s", flags, status, states, err, talk)
		}
	}

	status, _, talk := shell(t, "", append(order, "--force")...)
	states, err := store.States(t.Context(), []string{"writes"})
	if status != exitTimeout || strings.Contains(talk, "Type") || err != nil || states[0].Stage != stages.RolledBack {
		t.Errorf("--force: status %d, %v, %v: %s", status, states, err, talk)
	}
}

// No instance asks the authoritative's store once the migration is completed: the rollback says so, and asks where that store
// could deny every request.
func TestRollbackOfACompletedPolicyAsksWhereItCouldDeny(t *testing.T) {
	_, h := service(t)
	promoteAll(t, h)
	if status, _, talk := shell(t, "", strings.Fields("complete writes --reason x --force --yes")...); status != exitOK {
		t.Fatal(talk)
	}
	store := inside.Stages(h)
	specs := announcedBy(t, store)

	const unasked = "store east is not asked"
	for _, tt := range []struct {
		rule, candidateStore string
		warns, asks          bool
	}{
		{stages.FailDeny, "", true, true},
		{stages.FailAllow, "", true, false},
		{stages.FailLocal, "", true, false},
		{stages.FailDeny, "east", false, false}, // its instances say whether the store answers
	} {
		specs[0].Store, specs[0].CandidateStore, specs[0].OnStoreFailure = "east", tt.candidateStore, tt.rule
		announce(t, store, specs...)

		var out, talk bytes.Buffer
		flags := "--dry-run"
		if tt.asks {
			flags = ""
		}
		run(t.Context(), strings.Fields("rollback writes --reason x "+flags), streams{typed(t, "no"), &out, &talk})
		warned := strings.Contains(talk.String(), unasked)
		if asked := strings.Contains(talk.String(), "Type"); warned != tt.warns || asked != tt.asks {
			t.Errorf("%+v: warned %t, asked %t\n%s%s", tt, warned, asked, out.String(), talk.String())
		}
	}
}
