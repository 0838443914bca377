package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// nextFile is the policy file of the next release: another candidate.
var nextFile = strings.Replace(serviceFile, "limit: 3", "limit: 4", 1)

// rollout is processes with two policy files on a Redis of their own.
type rollout struct {
	addr, name string
	client     *redis.Client
	store      *stages.RedisStore
	first      stages.State // promoted, of serviceFile
}

// promotedFleet starts processes with serviceFile, which all have decided requests, and
// promotes them.
func promotedFleet(t *testing.T, instances int) (*rollout, []*service) {
	t.Helper()
	t.Parallel() // most of these tests wait
	r := &rollout{addr: privateServer(t), name: namespace()}
	r.client = redis.NewClient(&redis.Options{Addr: r.addr})
	t.Cleanup(func() { r.client.Close() })
	r.store = stages.NewRedisStore(r.client, r.name)

	fleet := r.start(t, instances)
	var err error
	full := stages.Step{Stage: stages.Promoted}
	r.first, err = stages.Advance(t.Context(), r.store, "per-user", full, stages.Order{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r.await(t, 10*time.Second, "all follow", func() bool { return fleet[0].metric(t, "shadowlimit_stage", `stage="promoted"`) == 1 })
	return r, fleet
}

// start starts processes that have decided a request each.
func (r *rollout) start(t *testing.T, instances int, more ...string) (fleet []*service) {
	t.Helper()
	for range instances {
		one := startServiceIn(t, t.TempDir(), r.addr, r.name, more...)
		one.get(t, "/", "alice")
		fleet = append(fleet, one)
	}
	return fleet
}

const withNextFile = fileVariable + "="

func (r *rollout) state(t *testing.T) stages.State {
	t.Helper()
	states, err := r.store.States(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// await waits for a condition.
func (r *rollout) await(t *testing.T, limit time.Duration, what string, met func() bool) {
	t.Helper()
	late := time.After(limit)
	for tick := time.Tick(200 * time.Millisecond); !met(); {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("after %s: not %s; the state is %s %s", limit, what, r.state(t), r.state(t).Fingerprint)
		}
	}
}

// staysFirst holds that the first fingerprint keeps its stage and its evidence for a time.
func (r *rollout) staysFirst(t *testing.T, during time.Duration, meanwhile func()) {
	t.Helper()
	end := time.After(during)
	for tick := time.Tick(time.Second); ; {
		if s := r.state(t); s.Fingerprint != r.first.Fingerprint || s.Stage != stages.Promoted || !s.Since.Equal(r.first.Since) {
			t.Fatalf("the state is %s of %s, want %s of %s", s, s.Fingerprint, r.first, r.first.Fingerprint)
		}
		if meanwhile != nil {
			meanwhile()
		}
		select {
		case <-tick:
		case <-end:
			return
		}
	}
}

func (r *rollout) isFirst(t *testing.T) bool {
	s := r.state(t)
	return s.Fingerprint == r.first.Fingerprint && s.Stage == stages.Promoted && s.Since.Equal(r.first.Since)
}

func (r *rollout) isNext(t *testing.T) bool {
	s := r.state(t)
	return s.Fingerprint != r.first.Fingerprint && s.Stage == stages.Shadow
}

// Processes with an old file beside a promoted fleet: laptops without traffic, an instance
// of an old image with traffic, and a pod that crashes again and again under one name.
func TestOldFilesTakeNothing(t *testing.T) {
	long(t)
	r, fleet := promotedFleet(t, 4)
	for range 5 {
		startServiceIn(t, t.TempDir(), r.addr, r.name, withNextFile+nextFile)
	}
	image := r.start(t, 1, withNextFile+nextFile)[0]

	var pod *service
	crash := func() {
		if pod != nil {
			_ = pod.cmd.Process.Kill()
			_ = pod.cmd.Wait()
		}
		pod = r.start(t, 1, withNextFile+nextFile, instanceVariable+"=pod")[0]
	}
	n := 0
	r.staysFirst(t, 45*time.Second, func() {
		if n++; n%3 == 0 {
			crash()
		}
	})

	if n := image.metric(t, "shadowlimit_other_fingerprint", ""); n != 1 {
		t.Errorf("the old image says other_fingerprint %d, want 1", n)
	}
	if n := fleet[0].metric(t, "shadowlimit_other_fingerprint", ""); n != 0 {
		t.Errorf("the fleet says other_fingerprint %d, want 0", n)
	}
	status, out := shell(t, server{addr: r.addr}, r.name, "status", "per-user")
	if status != 0 || !strings.Contains(out, "another fingerprint, no request yet") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// A rolling deployment takes over once the last instance of the file before is gone for half a minute. Undone, that one is
// where it was, with its evidence.
func TestRollingDeploymentAndItsUndo(t *testing.T) {
	long(t)
	r, before := promotedFleet(t, 2)
	next := r.start(t, 3, withNextFile+nextFile)
	before[1].stop(t)
	before[0].stop(t)
	r.await(t, 60*time.Second, "of the next fingerprint", func() bool { return r.isNext(t) })

	r.start(t, 1)
	for _, one := range next {
		one.stop(t)
	}
	r.await(t, 60*time.Second, "where it was", func() bool { return r.isFirst(t) })
}

// With a larger generation it takes over after half a minute of service, whoever else serves.
func TestLargerGenerationTakesOver(t *testing.T) {
	long(t)
	r, _ := promotedFleet(t, 2)
	r.start(t, 1, withNextFile+strings.Replace(nextFile, "\npolicies:", "\ngeneration: 2\npolicies:", 1))
	r.await(t, 60*time.Second, "of the next fingerprint", func() bool { return r.isNext(t) })
	r.start(t, 1, fileVariable+"="+strings.Replace(serviceFile, "\npolicies:", "\ngeneration: 3\npolicies:", 1))
	r.await(t, 60*time.Second, "where it was", func() bool { return r.isFirst(t) })
}

// Green beside blue changes nothing until the last blue instance has gone. Two services with one name are the same.
func TestBlueAndGreen(t *testing.T) {
	long(t)
	r, blue := promotedFleet(t, 2)
	r.start(t, 2, withNextFile+nextFile)
	r.staysFirst(t, 40*time.Second, nil)

	blue[0].stop(t)
	r.staysFirst(t, 2*time.Second, nil)
	blue[1].stop(t)
	r.await(t, 60*time.Second, "taken over", func() bool { return r.isNext(t) })
}

// Two files that take turns, each time as a new release: each goes on where it left, with its evidence.
func TestTwoFilesAlternate(t *testing.T) {
	long(t)
	r, fleet := promotedFleet(t, 1)
	file := func(text string, generation int) string {
		return fileVariable + "=" + strings.Replace(text, "\npolicies:", fmt.Sprintf("\ngeneration: %d\npolicies:", generation), 1)
	}
	var since time.Time
	for round := range 2 {
		next := r.start(t, 1, file(nextFile, 2*round+1))
		fleet[0].stop(t)
		r.await(t, 60*time.Second, "of the next fingerprint", func() bool { return r.isNext(t) })
		if s := r.state(t); round > 0 && !s.Since.Equal(since) {
			t.Errorf("the other file has evidence since %s, and had it since %s", s.Since, since)
		}
		since = r.state(t).Since
		fleet = r.start(t, 1, file(serviceFile, 2*round+2))
		next[0].stop(t)
		r.await(t, 60*time.Second, "where it was", func() bool { return r.isFirst(t) })
	}
	if history, err := r.store.History(t.Context(), "per-user"); err != nil || len(history) != 2+4 {
		t.Errorf("%v, %v, want the beginning, the promotion, and one move each time", history, err)
	}
}
