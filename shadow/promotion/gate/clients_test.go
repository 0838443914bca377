package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

var harmRule = gate.ClientHarm{Losing: 0.1, OfAtLeast: 50, Within: time.Hour, Clients: 0.005}

// clientsFrom returns clients of n hashes from one on. Each has the same counts, in shadow and enforced.
func clientsFrom(first, n uint64, shadow, enforced divergence.ClientCount) (c divergence.Clients) {
	for hash := first; hash < first+n; hash++ {
		c.List = append(c.List, divergence.Client{Hash: hash, Counts: [2]divergence.ClientCount{shadow, enforced}})
	}
	return c
}

func allowed(n, lost int64) divergence.ClientCount {
	return divergence.ClientCount{Requests: n, Allowed: n, Lost: lost}
}

var none divergence.ClientCount

// joinedClients returns one list of several.
func joinedClients(lists ...divergence.Clients) (sum divergence.Clients) {
	for i := range lists {
		sum.Join(&lists[i], divergence.SampledClients)
	}
	return sum
}

// withClients returns evidence that passes but for its clients, with these in its last hour.
func withClients(clients, protected divergence.Clients) gate.Evidence {
	e := evidence{hours: 60}.build()
	hour := e.Now.Unix() / divergence.SecondsPerHour
	e.History.Hours = []divergence.Hour{{Unix: hour - 1, Clients: clients, Protected: protected}}
	return e
}

// Each row is of the clients of one hour. 1,000 active ones may have 4 harmed, and not 5.
func TestHarmedClientsAreAnObstacle(t *testing.T) {
	tests := map[string]struct {
		clients divergence.Clients
		want    string // a part of the reason; "": pass
	}{
		"none lose": {clientsFrom(1, 1000, allowed(100, 0), none), ""},
		"few lose":  {joinedClients(clientsFrom(1, 996, allowed(100, 0), none), clientsFrom(2000, 4, allowed(100, 100), none)), ""},
		"too many": {joinedClients(clientsFrom(1, 995, allowed(100, 0), none), clientsFrom(2000, 5, allowed(100, 10), none)),
			"0.5 % of the active clients lost at least 10 % of their own requests within 1h, at most 0.5 % may: " +
				"5 of 1,000 with 50 requests or more"},
		"lose less": {joinedClients(clientsFrom(1, 900, allowed(100, 0), none), clientsFrom(2000, 100, allowed(100, 9), none)), ""},
		"inactive":  {joinedClients(clientsFrom(1, 900, allowed(100, 0), none), clientsFrom(2000, 100, allowed(49, 49), none)), ""},

		// A million clients of one request hide no harmed one: they are not active.
		"hidden": {joinedClients(clientsFrom(1, 3000, allowed(1, 0), none), clientsFrom(5000, 1, allowed(60, 60), none)),
			"1 of 1 with 50 requests"},
	}

	for name, test := range tests {
		cfg := gate.Config{Harms: gate.Harms{ClientHarm: harmRule}}.WithDefaults()
		g := gate.Assess(cfg, withClients(test.clients, divergence.Clients{}))
		if pass := g.Verdict == gate.Pass; pass != (test.want == "") || !strings.Contains(g.Reason, test.want) {
			t.Errorf("%s: %s: %s; want %q", name, g.Verdict, g.Reason, test.want)
		}

		// Without the rule the same clients are shown, and decide nothing.
		g = gate.Assess(gate.Config{}.WithDefaults(), withClients(test.clients, divergence.Clients{}))
		if g.Verdict != gate.Pass || g.Clients == nil {
			t.Errorf("%s, without a rule: %s: %s, %+v", name, g.Verdict, g.Reason, g.Clients)
		}
	}
}

// A client that loses in two hours loses within them, and one that has made enough requests in two only is active then.
func TestClientsAreJoinedWithinTheTime(t *testing.T) {
	e := withClients(divergence.Clients{}, divergence.Clients{})
	hour := e.History.Hours[0].Unix
	e.History.Hours = []divergence.Hour{
		{Unix: hour - 1, Clients: clientsFrom(1, 1, allowed(30, 30), none)}, {Unix: hour, Clients: clientsFrom(1, 1, allowed(30, 30), none)},
	}

	for within, want := range map[time.Duration]string{time.Hour: gate.Pass, 2 * time.Hour: gate.Wait} {
		rule := harmRule
		rule.Within = within
		if g := gate.Assess(gate.Config{Harms: gate.Harms{ClientHarm: rule}}.WithDefaults(), e); g.Verdict != want {
			t.Errorf("within %s: %s: %s, want %s", within, g.Verdict, g.Reason, want)
		}
	}
}

// An enforced candidate that harms three clients, and as large a share as may not be, is rolled back.
func TestHarmedClientsRollBack(t *testing.T) {
	tests := map[string]struct {
		clients divergence.Clients
		want    gate.Level
	}{
		"in shadow only": {clientsFrom(1, 100, allowed(100, 100), allowed(100, 0)), gate.Calm},
		"two clients":    {joinedClients(clientsFrom(1, 98, none, allowed(100, 0)), clientsFrom(200, 2, none, allowed(100, 100))), gate.Calm},
		"three clients":  {joinedClients(clientsFrom(1, 97, none, allowed(100, 0)), clientsFrom(200, 3, none, allowed(100, 100))), gate.RollBack},
		"three of many":  {joinedClients(clientsFrom(1, 997, none, allowed(100, 0)), clientsFrom(2000, 3, none, allowed(100, 100))), gate.Calm},
	}

	for name, test := range tests {
		e := withClients(test.clients, divergence.Clients{})
		e.Exposure = gate.Exposure{Since: e.Now.Add(-2 * time.Hour)}
		if got := gate.Assess(gate.Config{Harms: gate.Harms{ClientHarm: harmRule}}.WithDefaults(), e).Harm; got.Level != test.want {
			t.Errorf("%s: %+v, want %d", name, got, test.want)
		}

		// In shadow there is no alarm, and without the rule neither.
		e.Exposure = gate.Exposure{}
		if got := gate.Assess(gate.Config{Harms: gate.Harms{ClientHarm: harmRule}}.WithDefaults(), e).Harm; got.Level != gate.Calm {
			t.Errorf("%s, in shadow: %+v", name, got)
		}
	}
}

// One protected key that loses its share and 20 requests in an hour is a strike, with its name in the sentence. Three fail.
func TestProtectedKeyIsAStrike(t *testing.T) {
	tests := map[string]struct {
		n    divergence.ClientCount
		want int
	}{
		"all":       {allowed(30, 30), 1},
		"the share": {allowed(400, 20), 1},
		"less":      {allowed(401, 20), 0},
		"few":       {allowed(19, 19), 0},
	}

	for name, test := range tests {
		keys := clientsFrom(7, 1, test.n, none)
		keys.List[0].Name = "acme"
		g := gate.Assess(gate.Config{Harms: gate.Harms{Protect: 0.05}}.WithDefaults(), withClients(divergence.Clients{}, keys))
		if g.Strikes != test.want || (test.want == 1) != strings.Contains(g.Reason, "protected key acme lost") {
			t.Errorf("%s: %d strikes: %s", name, g.Strikes, g.Reason)
		}
	}

	e := withClients(divergence.Clients{}, clientsFrom(7, 1, allowed(30, 30), none))
	first := e.History.Hours[0]
	e.History.Hours = nil
	for _, back := range []int64{50, 49, 0} {
		h := first
		h.Unix -= back
		e.History.Hours = append(e.History.Hours, h)
	}
	g := gate.Assess(gate.Config{Harms: gate.Harms{Protect: 0.05}}.WithDefaults(), e)
	if g.Verdict != gate.Fail || !strings.Contains(g.Reason, "protected key of hash 000000000007 lost 30 of its 30 requests (100 %)") {
		t.Errorf("three hours: %s: %s", g.Verdict, g.Reason)
	}
}

// An hour that is not over may still become better: it is no strike yet.
func TestOpenHourIsNoStrike(t *testing.T) {
	e := withClients(divergence.Clients{}, clientsFrom(7, 1, allowed(30, 30), none))
	e.History.Hours[0].Unix++
	if g := gate.Assess(gate.Config{Harms: gate.Harms{Protect: 0.05}}.WithDefaults(), e); g.Strikes != 0 {
		t.Errorf("%d strikes: %s", g.Strikes, g.Reason)
	}
}

// Each row is what a protected key has lost to the enforced candidate in the last minutes, in this hour, and in the one before.
func TestProtectedKeyRollsBack(t *testing.T) {
	good, bad := allowed(1000, 0), allowed(30, 30)
	tests := []struct {
		lately, hour, before divergence.ClientCount
		want                 gate.Level
	}{
		{good, good, good, gate.Calm},
		{bad, good, good, gate.RollBack},
		{none, bad, none, gate.RollBack},
		{none, allowed(15, 15), allowed(15, 15), gate.RollBack}, // over the change of the hour
		{allowed(19, 19), allowed(19, 19), none, gate.Calm},
		{none, none, divergence.ClientCount{}, gate.Calm},
	}

	for i, test := range tests {
		e := withClients(divergence.Clients{}, clientsFrom(7, 1, none, test.before))
		now := divergence.Hour{Unix: e.History.Hours[0].Unix + 1, Protected: clientsFrom(7, 1, none, test.hour)}
		e.History.Hours = append(e.History.Hours, now)
		e.Lately = clientsFrom(7, 1, none, test.lately)
		e.Exposure = gate.Exposure{Since: e.Now.Add(-2 * time.Hour)}
		if got := gate.Assess(gate.Config{Harms: gate.Harms{Protect: 0.05}}.WithDefaults(), e).Harm; got.Level != test.want {
			t.Errorf("row %d: %+v, want %d", i, got, test.want)
		}
	}
}

// Of a sample the numbers are of all clients, with an error.
func TestSampleStandsForAllClients(t *testing.T) {
	clients := joinedClients(clientsFrom(1, 990, allowed(100, 0), none), clientsFrom(2000, 10, allowed(100, 60), none))
	clients.Below = 1 << 45
	r := gate.ClientsOf(&clients, 50)
	if r.Active != 8000 || !r.Sampled {
		t.Errorf("%d active, sampled %t, want 8 times 1,000", r.Active, r.Sampled)
	}

	if half := r.Losing[3]; half.Clients != 80 || half.Share != 0.01 || half.ShareText() != "1 % +- 0.62" {
		t.Errorf("over a half: %+v, %q", half, half.ShareText())
	}
}

func TestClientHarmIsValidated(t *testing.T) {
	for want, change := range map[string]func(*gate.ClientHarm){
		"client_harm: within 90m":    func(h *gate.ClientHarm) { h.Within = 90 * time.Minute },
		"client_harm: within 2d":     func(h *gate.ClientHarm) { h.Within = 48 * time.Hour },
		"client_harm: of_at_least 0": func(h *gate.ClientHarm) { h.OfAtLeast = 0 },
		"client_harm: losing 0":      func(h *gate.ClientHarm) { h.Losing = 0 },
		"":                           func(*gate.ClientHarm) {},
	} {
		rule := harmRule
		change(&rule)
		err := gate.Config{Harms: gate.Harms{ClientHarm: rule}}.WithDefaults().Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A client that loses is shown with the cause that most of its losses have, where one is known.
func TestWorstClientsHaveACause(t *testing.T) {
	list := divergence.Clients{List: []divergence.Client{
		{Hash: 1, Name: "acme", Counts: [2]divergence.ClientCount{allowed(100, 50)},
			Causes: &divergence.ClientCauses{divergence.BurstShape: 30, divergence.LimitValue: 10}},
		{Hash: 2, Name: "beta", Counts: [2]divergence.ClientCount{allowed(100, 20)}},
	}}
	r := gate.ClientsOf(&list, gate.UsuallyActive)

	var b strings.Builder
	if err := r.WriteText(&b, "in the log"); err != nil {
		t.Fatal(err)
	}
	const want = "    acme loses 50 of 100 (50 %), probably burst_shape (75 % of it)\n    beta loses 20 of 100 (20 %)\n"
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("the text ends with\n%s, want\n%s", b.String(), want)
	}
}

// Each row is a client beyond its limit: what became of its requests in the hour before, and in the hour. Two sides of one rate deny it
// different requests, and as many.
func TestShapesAreNoHarm(t *testing.T) {
	count := func(requests, allowed, lost, gained int64) divergence.ClientCount {
		return divergence.ClientCount{Requests: requests, Allowed: allowed, Lost: lost, Gained: gained}
	}
	crawling := count(7200, 3600, 1800, 1800)
	tests := map[string]struct {
		before, hour  divergence.ClientCount
		strike, alarm bool
	}{
		"as many are gained":                 {none, count(200, 100, 50, 50), false, false},
		"more are gained":                    {none, count(200, 100, 20, 80), false, false},
		"none are gained":                    {none, count(200, 100, 50, 0), true, true},
		"the end of a long time":             {crawling, count(120, 60, 30, 0), false, false},
		"the end of a time without losses":   {count(7200, 3600, 0, 0), count(120, 60, 30, 0), true, false},
		"more than a shape can make":         {crawling, count(1200, 600, 600, 0), true, true},
		"more than the authoritative denies": {count(1010, 1000, 20, 10), count(300, 300, 40, 0), true, true},
		"within its limit":                   {allowed(1000, 0), allowed(100, 30), true, true},
	}

	for name, test := range tests {
		// In shadow the hour is a strike. An old hour before has been thinned, and says nothing else.
		clients := clientsFrom(7, 1, test.hour, none)
		e := withClients(clients, clients)
		before := clientsFrom(7, 1, test.before, none)
		first := divergence.Hour{Unix: e.History.Hours[0].Unix - 1, Clients: before}
		if test.before.Lost >= divergence.LeastLost {
			first.Protected = before
		}
		e.History.Hours = append([]divergence.Hour{first}, e.History.Hours...)
		if strike, _ := gate.ProtectedHarmOf(harmConfig, &e); strike != test.strike {
			t.Errorf("%s: a strike: %t, want %t", name, strike, test.strike)
		}

		// An enforced candidate that does the same to three clients is rolled back. Of clients as far beyond their limit that is known
		// a quarter of an hour later.
		e.History.Hours[0].Clients = clientsFrom(7, 3, none, test.before)
		e.History.Hours[1].Clients = clientsFrom(7, 3, none, test.hour)
		e.History.Hours[0].Protected, e.History.Hours[1].Protected = e.History.Hours[0].Clients, e.History.Hours[1].Clients
		e.Exposure = gate.Exposure{Since: e.Now.Add(-2 * time.Hour)}
		e.Now = e.Now.Add(-time.Minute)
		_, early := gate.ClientHarmOf(harmConfig, &e)
		_, protectedAlarm := gate.ProtectedHarmOf(harmConfig, &e)
		e.Now = e.Now.Add(16 * time.Minute)
		_, clientAlarm := gate.ClientHarmOf(harmConfig, &e)
		if within := test.hour.Missing() > test.hour.Requests-test.hour.Allowed; early != (test.alarm && within) {
			t.Errorf("%s: an early alarm: %t", name, early)
		}
		if clientAlarm != test.alarm || protectedAlarm != test.alarm {
			t.Errorf("%s: alarms %t and %t, want %t", name, clientAlarm, protectedAlarm, test.alarm)
		}
	}
}
