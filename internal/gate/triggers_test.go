package gate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

const tickNow = 100_000 // the tick in progress in these tests; minute 16666

// quietTicks are n ticks up to the one in progress, each with a number of allowed requests.
func quietTicks(n int, allows int64) []evidence.Tick {
	ticks := make([]evidence.Tick, n)
	for i := range ticks {
		ticks[i].Unix = int64(tickNow - n + i)
		ticks[i].Tally[evidence.AgreeAllow] = allows
	}
	return ticks
}

// hurt makes each of the last n ticks newly deny a number of the allowed requests, of a
// number of keys, which are other keys in each tick if fresh.
func hurt(ticks []evidence.Tick, n int, denied int64, keys uint32, fresh bool) []evidence.Tick {
	for i := len(ticks) - n; i < len(ticks); i++ {
		t := &ticks[i]
		t.Tally[evidence.AgreeAllow] -= denied
		t.Tally[evidence.NewlyDenied] += denied

		for k := range keys {
			if fresh || i == len(ticks)-n {
				t.Harmed = append(t.Harmed, k+uint32(i)*1000)
			}
		}
	}
	return ticks
}

// with adds outcomes to each of the last n ticks.
func with(ticks []evidence.Tick, n int, o evidence.Outcome, count int64) []evidence.Tick {
	for i := len(ticks) - n; i < len(ticks); i++ {
		ticks[i].Tally[o] += count
	}
	return ticks
}

func failed(ticks []evidence.Tick, n int, failed, slow int64) []evidence.Tick {
	for i := len(ticks) - n; i < len(ticks); i++ {
		ticks[i].Failed, ticks[i].Slow = failed, slow
	}
	return ticks
}

// byOne says of the last n ticks how often one client was newly denied and newly allowed
// in each.
func byOne(ticks []evidence.Tick, n int, denied, allowed int64) []evidence.Tick {
	for i := len(ticks) - n; i < len(ticks); i++ {
		ticks[i].Denied = evidence.Weights{{Key: 1, Count: denied}}
		ticks[i].Allowed = evidence.Weights{{Key: 1, Count: allowed}}
	}
	return ticks
}

// lately are the minutes just passed, in which three keys were newly allowed.
func lately() []evidence.Minute {
	m := evidence.Minute{Unix: tickNow*evidence.TickSeconds/60 - 1}
	for key := range uint64(3) {
		m.Count(evidence.NewlyAllowed, key)
	}
	return []evidence.Minute{m}
}

func TestTriggers(t *testing.T) {
	fine := Config{NewlyDenied: 0.001}.WithDefaults()
	wide := Config{}.WithDefaults() // 2 %
	quiet := func(allows int64) []evidence.Tick { return quietTicks(90, allows) }
	inProgress := hurt([]evidence.Tick{{Unix: tickNow}}, 1, 0, 50, true)

	tests := []struct {
		name  string
		cfg   Config
		ticks []evidence.Tick
		want  string // in the reason; "" for none
	}{
		{"nothing", fine, nil, ""},
		{"all is well", fine, quiet(1000), ""},

		{"eight clients", fine, hurt(quiet(100), 1, 8, 8, true), "harmed clients"},
		{"seven clients", fine, hurt(quiet(100), 1, 7, 7, true), ""},
		{"a storm of three clients", fine, hurt(quiet(1000), 30, 30, 3, false), ""},
		{"in the tick in progress", fine, append(quiet(100), inProgress...), ""},
		{"at the threshold", wide, hurt(quiet(1000), 90, 20, 20, true), ""},

		{
			"few clients with many requests",
			wide, hurt(quiet(1000), 2, 400, 12, false), "a sudden rise: newly denied is 40 %",
		},
		{
			"one client with many requests among others with few denials",
			wide, byOne(hurt(quiet(1000), 2, 400, 12, false), 2, 380, 0), "",
		},
		{
			"more than one client with many requests",
			wide, byOne(hurt(quiet(1000), 2, 400, 12, false), 2, 180, 0), "newly denied is 26.8 % of what the authoritative allows " +
				"over 20 s, even without the 3 most affected clients; threshold 2 %",
		},
		{"fewer clients with many requests", wide, hurt(quiet(1000), 2, 400, 9, false), ""},
		{"nine times the threshold", wide, hurt(quiet(1000), 6, 180, 12, false), ""},
		{"ten times the threshold", wide, hurt(quiet(1000), 6, 200, 12, false), "a sudden rise"},
		{"a sudden rise of little traffic", wide, hurt(quiet(20), 6, 10, 12, false), ""},
		{"a sudden rise over a minute", wide, hurt(quiet(40), 6, 10, 12, false), "over 60 s"},

		{"a tenth more", wide, with(quiet(100), 6, evidence.NewlyAllowed, 10), ""},
		{
			"more than a tenth more", wide, with(quiet(100), 6, evidence.NewlyAllowed, 11),
			"allowed 666 requests where the authoritative would have allowed 600",
		},
		{"more than a tenth more of little", wide, with(quiet(50), 6, evidence.NewlyAllowed, 9), ""},
		{
			"more than a tenth more of one client",
			wide, byOne(with(quiet(100), 6, evidence.NewlyAllowed, 50), 6, 0, 45), "",
		},
		{
			"one client more, as much less of another",
			wide, byOne(hurt(with(quiet(1000), 6, evidence.NewlyAllowed, 20), 6, 20, 3, false), 6, 20, 0), "",
		},
		{
			"where the authoritative allows nothing",
			wide, with(quietTicks(6, 0), 6, evidence.NewlyAllowed, 11), "overload",
		},
	}
	for _, tt := range tests {
		w := window{cfg: tt.cfg, ticks: tt.ticks, now: tickNow, minutes: lately(), usualUntil: 0}
		if got := w.triggers().Reason; (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A client of the canary that storms is newly denied 1 % of its requests, ten times a
// threshold of 0.1 %, while others are now and then.
func TestStormOfOneClientIsNoTrigger(t *testing.T) {
	cfg := Config{NewlyDenied: 0.001}.WithDefaults()
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ticks := quietTicks(120, 990)
		for i := range ticks {
			tick := &ticks[i]

			// 0.2 p0 and more, by new clients all the time.
			for range 2 {
				if key := rng.Uint32(); key%5 > 0 {
					tick.Harmed = append(tick.Harmed, key)
					tick.Denied = append(tick.Denied, evidence.Weight{Key: key, Count: 1})
				}
			}
			if i >= 90 {
				tick.Denied = append(tick.Denied, evidence.Weight{Key: 1, Count: 10})
			}
			tick.Tally[evidence.NewlyDenied] = tick.Denied.Total()

			w := window{cfg: cfg, ticks: ticks[:i+1], now: tick.Unix + 1, minutes: lately()}
			if reason := w.sudden(); reason != "" {
				t.Fatalf("seed %d, tick %d: %s", seed, i, reason)
			}
		}
	}
}

// A burst that came every day in the evidence is no reason to roll back.
func TestUsualBurstsAreNoTrigger(t *testing.T) {
	cfg := Config{}.WithDefaults()
	now := int64(tickNow * evidence.TickSeconds / 60)
	burst := func(denied, allowed int64) evidence.Minute {
		var m evidence.Minute
		m.Tally[evidence.NewlyDenied] = denied
		m.Tally[evidence.NewlyAllowed] = allowed
		m.Tally[evidence.AgreeAllow] = 1000 - denied
		return m
	}
	days := func(n int64, m evidence.Minute) []evidence.Minute {
		var list []evidence.Minute
		for d := n; d > 0; d-- {
			m.Unix = now - d*minutesADay
			list = append(list, m)
		}
		return append(list, lately()...)
	}
	many := func(denied int64) []evidence.Tick { return hurt(quietTicks(90, 1000), 2, denied, 100, true) }
	few := hurt(quietTicks(90, 1000), 2, 450, 12, false)
	load := func(more int64) []evidence.Tick {
		return with(quietTicks(90, 100), 6, evidence.NewlyAllowed, more)
	}

	tests := []struct {
		name    string
		minutes []evidence.Minute
		ticks   []evidence.Tick
		want    string
	}{
		{"not in the evidence", lately(), many(450), "harmed clients"},
		{"once in the evidence", days(1, burst(460, 0)), many(450), "harmed clients"},
		{"on two days", days(2, burst(460, 0)), many(450), ""},
		{"on two days, but a third of it", days(2, burst(101, 0)), many(900), ""},
		{"on two days, but less of it", days(2, burst(99, 0)), many(900), "harmed clients"},
		{"few clients, on two days", days(2, burst(51, 0)), few, ""},
		{"few clients, on two days, but less of it", days(2, burst(49, 0)), few, "a sudden rise"},
		{"load on two days", days(2, burst(0, 200)), load(11), "overload"},
		{"load on two days that the gate lets pass", days(2, burst(0, 200)), load(10), ""},
	}
	for _, tt := range tests {
		w := window{cfg: cfg, ticks: tt.ticks, now: tickNow, minutes: tt.minutes, usualUntil: now - 60}
		if got := w.triggers().Reason; (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Each key counts once in ten minutes, whichever instances list it.
func TestHarmScoreCountsAKeyOnceInTenMinutes(t *testing.T) {
	var ticks []evidence.Tick
	for i := range int64(130) {
		ticks = append(ticks, evidence.Tick{Unix: tickNow - 130 + i, Harmed: []uint32{7, 7}})
	}
	if got, want := harmScore(ticks, 0.001, tickNow), 3*math.Log(5); math.Abs(got-want) > 1e-9 {
		t.Errorf("%g after 130 ticks of one key, want %g for three times ten minutes", got, want)
	}

	ticks[129].Tally[evidence.AgreeAllow] = 500
	if got, want := harmScore(ticks, 0.001, tickNow), 3*math.Log(5)-2; math.Abs(got-want) > 1e-9 {
		t.Errorf("%g, want %g: requests take away 4 p0 each", got, want)
	}
}

// A stage that lasts for longer than the ledger remembers has a usual, too: of itself.
func TestUsualOfALongStage(t *testing.T) {
	now := time.Unix(tickNow*evidence.TickSeconds, 0).Add(100 * 24 * time.Hour)
	var minutes []evidence.Minute
	for day := int64(31); day >= 0; day-- {
		m := evidence.Minute{Unix: now.Unix()/60 - day*minutesADay}
		m.Tally[evidence.AgreeAllow], m.Tally[evidence.NewlyDenied] = 900, 100
		minutes = append(minutes, m)
	}

	for _, tt := range []struct {
		days int // for which the stage has lasted
		want float64
	}{{60, 0.1}, {33, 0.1}, {5, 0.1}, {31, 0.1}} {
		w := windowOf(Config{}.WithDefaults(), Recent{Minutes: minutes, StageAt: now.AddDate(0, 0, -tt.days), Now: now})
		if got := w.usual(newlyDenied, 0.02); got != tt.want {
			t.Errorf("after %d days: %g, want %g", tt.days, got, tt.want)
		}
	}
}

// The extra load that a policy file allows is usual at most: with a third of it on two days, up
// to as much more.
func TestUsualLoadIsAtMostTheAllowed(t *testing.T) {
	cfg := Config{ExtraLoad: 0.5}.WithDefaults()
	now := int64(tickNow * evidence.TickSeconds / 60)
	usual := func(newly int64) (minutes []evidence.Minute) {
		for day := int64(2); day > 0; day-- {
			m := evidence.Minute{Unix: now - day*minutesADay}
			m.Tally[evidence.AgreeAllow], m.Tally[evidence.NewlyAllowed] = 1000, newly
			minutes = append(minutes, m)
		}
		return append(minutes, lately()...)
	}

	for _, tt := range []struct {
		usual, more int64
		want        bool
	}{{100, 40, false}, {100, 41, true}, {200, 50, false}, {200, 51, true}, {900, 51, true}} {
		ticks := with(quietTicks(90, 100), 6, evidence.NewlyAllowed, tt.more)
		w := window{cfg: cfg, ticks: ticks, now: tickNow, minutes: usual(tt.usual), usualUntil: now - 60}
		if got := w.overload(); (got != "") != tt.want {
			t.Errorf("%d of 1000 usual, %d of 100 now: %q", tt.usual, tt.more, got)
		}
	}
}
