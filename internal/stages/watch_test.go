package stages

import (
	"testing"
	"time"
)

// A larger generation takes over after heartbeats of half a minute: one that was heard for less has perhaps crashed.
func TestGenerationTakesOverByHeartbeats(t *testing.T) {
	for lasts, want := range map[time.Duration]bool{15 * time.Second: false, 25 * time.Second: false, 30 * time.Second: true} {
		var w watch
		stored, began := &State{Fingerprint: "a", Generation: 1}, time.Unix(1e9, 0)
		for at := time.Duration(0); at <= 35*time.Second; at += 5 * time.Second {
			members := []member{
				{id: "1", fingerprint: "a", generation: 1, at: began.Add(at)},
				{id: "2", fingerprint: "b", generation: 2, at: began.Add(min(at, lasts))},
			}
			to, moves := w.look(began.Add(at), stored, members)
			if took := moves && to.fingerprint == "b"; took && !want || at == 30*time.Second && took != want {
				t.Errorf("heard for %s, at %s: %t", lasts, at, took)
			}
		}
	}
}
