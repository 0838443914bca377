package shadow

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A span is measured by the monotonic clock: times keep its reading, which numbers of
// nanoseconds do not have. No code of this package makes such a number to subtract it later.
func TestSpansDoNotFollowTheWallClock(t *testing.T) {
	var m moment
	m.note()
	if !strings.Contains(m.at.Load().String(), " m=") {
		t.Errorf("%v has no reading of the monotonic clock", m.at.Load())
	}

	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if call := "time.Now()." + "UnixNano"; strings.Contains(string(text), call) {
			t.Errorf("%s: %s: keep the time, or use a moment", file, call)
		}
	}
}

// A moment lasts for its span, one of many callers renews it, and what has not happened is over.
func TestMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m moment
		if m.within(time.Hour) {
			t.Error("it has not happened")
		}
		if !m.renew(time.Minute) || m.renew(time.Minute) || !m.within(0) {
			t.Error("the first call renews, and not the second")
		}

		time.Sleep(time.Minute)
		if !m.within(time.Minute) || m.within(time.Minute-1) {
			t.Error("a minute after it happened")
		}
		var renewed atomic.Int64
		var done sync.WaitGroup
		for range 10 {
			done.Go(func() {
				if m.renew(time.Minute) {
					renewed.Add(1)
				}
			})
		}
		if done.Wait(); renewed.Load() != 1 {
			t.Errorf("%d of 10 callers renew", renewed.Load())
		}
	})
}

// A canary goes on for 15 s after the store was last heard of, and is cut off then; one that
// has not heard of it yet is cut off, too.
func TestCanaryIsCutOffAfterItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := idleOn(stages.NewMemoryStore(), "a")
		if !m.cutOff() {
			t.Error("never heard")
		}
		m.progress.stage.heard.note()
		time.Sleep(stages.LeaveCanaryAfter)
		if m.cutOff() {
			t.Error("before its time is over")
		}
		if time.Sleep(time.Nanosecond); !m.cutOff() {
			t.Error("after it")
		}
	})
}
