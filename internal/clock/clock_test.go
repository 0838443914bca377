package clock

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A span is measured by the monotonic clock.
func TestMomentsDoNotFollowTheWallClock(t *testing.T) {
	var m Moment
	m.Note()
	if !strings.Contains(m.At().String(), " m=") {
		t.Errorf("%v has no reading of the monotonic clock", m.At())
	}
}

// A moment lasts for its span, one of many callers renews it, and what has not happened is over.
func TestMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Moment
		if m.Within(time.Hour) {
			t.Error("it has not happened")
		}
		if !m.Renew(time.Minute) || m.Renew(time.Minute) || !m.Within(0) {
			t.Error("the first call renews, and not the second")
		}

		time.Sleep(time.Minute)
		if !m.Within(time.Minute) || m.Within(time.Minute-1) {
			t.Error("a minute after it happened")
		}
		var renewed atomic.Int64
		var done sync.WaitGroup
		for range 10 {
			done.Go(func() {
				if m.Renew(time.Minute) {
					renewed.Add(1)
				}
			})
		}
		if done.Wait(); renewed.Load() != 1 {
			t.Errorf("%d of 10 callers renew", renewed.Load())
		}
	})
}

// The goroutine of an answer that comes too late ends, and its answer goes nowhere.
func TestLateAnswersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, answered := Ask(t.Context(), time.Second, func() string {
			time.Sleep(time.Minute)
			return "late"
		})
		if answered || answer != "" {
			t.Errorf("%q, %t", answer, answered)
		}
		time.Sleep(time.Minute) // until the late answer; the test fails if its goroutine is left then
	})
}
