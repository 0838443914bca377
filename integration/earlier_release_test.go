package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// earlierCommit is the release that runs beside this one in the soak: the last one in which an epoch belonged to the
// instance that started last, without votes, without a directory for the last stages.
const earlierCommit = "d0106321647bd6b1d757ca69d866278f0d419dd9"

// buildEarlier builds the service of the earlier release from the history of this repository, and returns its path.
func buildEarlier(t *testing.T) string {
	t.Helper()
	requireProgram(t, "git", "the soak builds an earlier release from the history")
	source := filepath.Join(t.TempDir(), "source")
	if out, err := inFolder("..", "git", "rev-parse", "--quiet", "--verify", earlierCommit+"^{commit}"); err != nil {
		t.Fatalf("the soak runs a service of commit %s beside today's, and this folder has no such commit: "+
			"clone the whole repository, or run git fetch --unshallow (%v %s)", earlierCommit, err, out)
	}

	if out, err := inFolder("..", "git", "worktree", "add", "--detach", source, earlierCommit); err != nil {
		t.Fatalf("git worktree: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := inFolder("..", "git", "worktree", "remove", "--force", source); err != nil {
			t.Errorf("git worktree remove: %v: %s; remove it by git worktree prune", err, out)
		}
	})

	binary := filepath.Join(t.TempDir(), "earlier.test")
	if out, err := inFolder(filepath.Join(source, "integration"), "go", "test", "-c", "-o", binary, "."); err != nil {
		t.Fatalf("the earlier release does not build: %v: %s", err, out)
	}
	return binary
}

// inFolder runs a program in a folder, and returns its output.
func inFolder(folder, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", program, err)
	}
	return strings.TrimSpace(string(out)), err
}
