package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// promotedFor returns evidence of a candidate that was promoted some hours ago, and the hour of the promotion.
func promotedFor(hours int) (e gate.Evidence, promoted int64) {
	e = evidence{hours: 100}.build()
	e.Exposure = gate.Exposure{Since: e.Now.Add(-time.Duration(hours) * time.Hour), AllKeys: true}
	return e, e.Exposure.Since.Unix() / divergence.SecondsPerHour
}

// come notes that a client made a request in an hour, and denied that it was denied n times in one minute, and silent that
// nothing followed.
func come(h *divergence.Hour, g divergence.Cohort, hash uint64, denials int64, silent bool) {
	r := divergence.Reaction{Hash: hash, Denials: denials, Last: 100}
	if denials > 0 {
		r.Minutes, r.LastDenied = 1, 50
	}
	if silent {
		r.LastDenied = r.Last
	}
	list := divergence.Reactions{List: []divergence.Reaction{r}}
	h.Of(g).Join(&list)
}

// The counts are what the words say of each client, whatever hours it comes in: drawn programs against the definition.
func TestReactionsAreWhatTheWordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, promoted := promotedFor(rapid.IntRange(0, 30).Draw(t, "hours ago"))
		now := e.Now.Unix() / divergence.SecondsPerHour
		first := max(promoted, now-25)
		hours := map[int64]*divergence.Hour{}
		for unix := promoted - 1; unix <= now; unix++ {
			hours[unix] = &divergence.Hour{Unix: unix}
		}

		var want [2]gate.GroupReactions
		for hash := uint64(1); hash <= 12; hash++ {
			g := divergence.Cohorts[hash%2]
			var seen, denied, gaveUp bool
			silent := false // after the client's last denial, if the hour before ended so
			for unix := promoted - 1; unix <= now; unix++ {
				if !rapid.Bool().Draw(t, "comes") {
					gaveUp = gaveUp || silent && unix < now
					silent = false
					continue
				}
				n := rapid.Int64Range(0, 3).Draw(t, "denials")
				quiet := n > 0 && rapid.Bool().Draw(t, "silent")
				come(hours[unix], g, hash, n, quiet)

				counts := unix >= first && unix <= now-2
				silent = counts && quiet
				if counts {
					seen, denied = true, denied || n > 0
					want[hash%2].Denials += n
					want[hash%2].Retries += max(0, n-1)
				}
			}
			w := &want[hash%2]
			w.Clients, w.Denied, w.GaveUp = w.Clients+one(seen), w.Denied+one(denied), w.GaveUp+one(gaveUp)
		}

		e.History.Hours = nil
		for unix := promoted - 1; unix <= now; unix++ {
			e.History.Hours = append(e.History.Hours, *hours[unix])
		}
		got := gate.Assess(gate.Config{}.WithDefaults(), e).Reactions
		if want[0].Clients+want[1].Clients == 0 {
			if got != nil {
				t.Fatalf("%+v, want none", got)
			}
			return
		}
		if got == nil || got.HeldBack != want[0] || got.Others != want[1] || got.Hours != now-1-first {
			t.Fatalf("%+v, want %+v of %d hours", got, want, now-1-first)
		}
	})
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// An hour in which no instance was there shows no client that gave up, and a client that changed its group did not give up.
func TestWhatIsNoGivingUp(t *testing.T) {
	for name, test := range map[string]struct {
		hours func(promoted int64) []divergence.Hour
		want  string
	}{
		"gave up": {func(p int64) []divergence.Hour {
			list := []divergence.Hour{{Unix: p}, {Unix: p + 1}}
			come(&list[0], divergence.CohortOthers, 1, 2, true)
			return list
		}, "{1 false 1 1 2 1}"},
		"no instance": {func(p int64) []divergence.Hour {
			list := []divergence.Hour{{Unix: p}, {Unix: p + 2}, {Unix: p + 3}}
			come(&list[0], divergence.CohortOthers, 1, 2, true)
			come(&list[1], divergence.CohortOthers, 2, 0, false)
			return list
		}, "{1 false 0 0 0 0}"},
		"moved": {func(p int64) []divergence.Hour {
			list := []divergence.Hour{{Unix: p}, {Unix: p + 1}, {Unix: p + 2}}
			come(&list[0], divergence.CohortOthers, 1, 2, true)
			come(&list[0], divergence.CohortOthers, 2, 0, false)
			come(&list[1], divergence.CohortHeldBack, 1, 0, false)
			return list
		}, "{1 false 0 0 0 0}"},
		"beyond the bound": {func(p int64) []divergence.Hour {
			list := []divergence.Hour{{Unix: p}, {Unix: p + 1}}
			come(&list[0], divergence.CohortOthers, 1, 1, false)
			come(&list[0], divergence.CohortOthers, 7, 1, true)
			list[1].Of(divergence.CohortOthers).Below = 7
			return list
		}, "{1 true 1 0 1 0}"},
	} {
		e, promoted := promotedFor(5)
		e.History.Hours = test.hours(promoted)
		got := gate.Assess(gate.Config{}.WithDefaults(), e).Reactions
		if got == nil || fmt.Sprint(got.Others) != test.want {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}

		// In a canary, and without exposure, nothing is compared.
		e.Exposure.AllKeys = false
		if got := gate.Assess(gate.Config{}.WithDefaults(), e).Reactions; got != nil {
			t.Errorf("%s: in a canary %+v", name, got)
		}
	}
}

func TestReactionsText(t *testing.T) {
	r := &gate.ReactionsResult{
		Hours:    5,
		HeldBack: gate.GroupReactions{Clients: 205, Denied: 25, GaveUp: 2, Denials: 60, Retries: 35},
		Others:   gate.GroupReactions{Clients: 2048, Sampled: true},
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `  what clients do under each side, by 5 hours since the promotion
                      enforced           clients         denied  retries per denied client  gave up, of the denied
      authoritative, held back               205  12.2 % +- 4.5                        1.4               8 % +- 12
                     candidate  2,048 (a sample)    0 % +- 0.15                          -                       -
`
	if b.String() != want {
		t.Errorf("text:\n%s\nwant\n%s", b.String(), want)
	}
}
