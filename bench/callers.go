package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// keys are those of every benchmark: as many as a service has in a minute, and long enough for the caches of a processor to matter.
var keys = func() (list [1000]string) {
	for i := range list {
		list[i] = fmt.Sprintf("client-%010d", i)
	}
	return list
}()

// A call asks a limiter about a key. An answer that is not "allowed" is an error: a denial is cheaper than an admission.
type call func(key string) error

var errDenied = errors.New("denied: the limits of a benchmark must not be exhausted")

// spent is what calls took.
type spent struct {
	wall, cpu time.Duration // cpu is that of this process
	allocs    float64
	calls     int
}

// callers makes calls from several callers at once. Each begins at another key, so that they do not follow each other from lock to lock.
func callers(n, calls int, prepare func() call) (spent, error) {
	each := max(1, calls/n)
	errs := make([]error, n)
	var done sync.WaitGroup
	var before, after runtime.MemStats

	start := make(chan struct{})
	for caller := range n {
		do := prepare()
		done.Go(func() {
			<-start
			for i := range each {
				if err := do(keys[(caller*397+i)%len(keys)]); err != nil {
					errs[caller] = err
					return
				}
			}
		})
	}

	runtime.ReadMemStats(&before)
	begin, began := time.Now(), ownTime()
	close(start)
	done.Wait()
	wall, cpu := time.Since(begin), ownTime()-began
	runtime.ReadMemStats(&after)
	return spent{wall, cpu, float64(after.Mallocs - before.Mallocs), each * n}, errors.Join(errs...)
}

// ownTime returns the CPU time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for another argument only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
