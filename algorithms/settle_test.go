package algorithms_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func settle(t testing.TB, pair algorithms.Settler, r *algorithms.Receipt, cost int64, at time.Time) [2]algorithms.Settled {
	t.Helper()
	var into [1][2]algorithms.Settled
	if err := pair.Settle(t.Context(), []algorithms.Settlement{{Receipt: r, Cost: cost, At: at}}, into[:]); err != nil {
		t.Fatal(err)
	}
	return into[0]
}

// TestOnlyFailedLoginsCount is a policy that charges each login, and takes back those that succeed.
func TestOnlyFailedLoginsCount(t *testing.T) {
	for _, a := range algorithms.All {
		m := algorithms.NewMemory(algorithms.MemoryConfig{})
		c := algorithms.Check{Policy: "login", Key: "k", Cost: 1, Receipt: new(algorithms.Receipt), Sides: [2]algorithms.Side{
			{ID: "a", Algorithm: a, Limit: limitOf(a)}, {ID: "b", Algorithm: a, Limit: limitOf(a)},
		}}
		capacity := c.Sides[0].Limit.Capacity()
		for n := range 50 {
			c.At = noon
			o := one(t, m, c)
			if o[0].Decision != o[1].Decision || !o[0].Decision.Allowed {
				t.Fatalf("%s, login %d: %+v", a.Name(), n, o)
			}
			failed := int64(0)
			if n%20 == 0 {
				failed = 1
			}
			if s := settle(t, m, c.Receipt, failed, noon); s != [2]algorithms.Settled{} {
				t.Fatalf("%s, login %d: %+v", a.Name(), n, s)
			}
		}
		look := c
		look.Cost, look.Receipt = 0, nil
		if o := one(t, m, look); o[0].Decision.Remaining != capacity-3 || o[1].Decision != o[0].Decision {
			t.Errorf("%s: after 3 failed logins %+v, want 3 of %d spent", a.Name(), o, capacity)
		}
	}
}

// TestDrainedIsNotRefundedAgain is a client that sends slow requests of a full burst and has all of them refunded at once.
func TestDrainedIsNotRefundedAgain(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 6, Window: 12 * time.Second}}
	at := noon
	var receipts []*algorithms.Receipt
	for range 20 {
		c := algorithms.Check{Key: "k", Cost: 6, At: at, Receipt: new(algorithms.Receipt), Sides: [2]algorithms.Side{side}}
		if !one(t, m, c)[0].Decision.Allowed {
			t.Fatal("a full burst is denied a window later")
		}
		receipts = append(receipts, c.Receipt)
		at = at.Add(12 * time.Second)
	}

	admitted := int64(0)
	for _, r := range receipts {
		c := algorithms.Check{Key: "k", Cost: 6, At: at, Sides: [2]algorithms.Side{side}}
		if one(t, m, c)[0].Decision.Allowed {
			admitted += 6
		}
		settle(t, m, r, 0, at)
	}
	if admitted != 6 {
		t.Errorf("%d units are admitted at once, want 6", admitted)
	}
}

// TestSurchargeIsWaitedFor holds that a bucket waits for what a request has cost beyond its reservation, also where its key had
// been forgotten, and for 100 times its capacity at most.
func TestSurchargeIsWaitedFor(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 10})
	side := algorithms.Side{Algorithm: algorithms.TokenBucket{}, Limit: algorithms.Limit{Requests: 10, Window: 10 * time.Second}}
	c := algorithms.Check{Key: "k", Cost: 1, At: noon, Receipt: new(algorithms.Receipt), Sides: [2]algorithms.Side{side}}
	one(t, m, c)
	first := *c.Receipt
	for i := range 20 { // sweep it away
		other := c
		other.Key, other.At, other.Receipt = string(rune('a'+i)), noon.Add(time.Minute), nil
		one(t, m, other)
	}

	at := noon.Add(2 * time.Minute)
	settle(t, m, &first, 26, at)
	c.At, c.Receipt = at, nil
	if d := one(t, m, c)[0].Decision; d.Allowed || d.RetryAfter != 16*time.Second || d.Remaining != 0 {
		t.Errorf("after a surcharge of 25 on 10: %+v, want a wait of 16s", d)
	}

	settle(t, m, &first, 1<<60, at)
	if d := one(t, m, c)[0].Decision; d.RetryAfter != 991*time.Second {
		t.Errorf("after a surcharge without end: %+v, want a wait of 991s", d)
	}
}

// TestReceiptsAreText holds that a receipt survives its way through an API, and that no other text is one.
func TestReceiptsAreText(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	for _, a := range algorithms.All {
		c := algorithms.Check{Policy: "p", Key: "k\xff\x00", Cost: 2, At: noon, Receipt: new(algorithms.Receipt), Sides: [2]algorithms.Side{
			{ID: "a", Algorithm: a, Limit: limitOf(a)}, {Algorithm: a, Limit: limitOf(a)},
		}}
		one(t, m, c)
		text, err := c.Receipt.MarshalText()
		if err != nil || len(text) > 400 {
			t.Fatalf("%s: %d bytes, %v", a.Name(), len(text), err)
		}
		var read algorithms.Receipt
		if err := read.UnmarshalText(text); err != nil || read != *c.Receipt {
			t.Errorf("%s: %+v (%v), want %+v", a.Name(), read, err, *c.Receipt)
		}
		for _, bad := range []string{"", "e30", string(text[1:]), string(text[:len(text)/2])} {
			if err := read.UnmarshalText([]byte(bad)); err == nil {
				t.Errorf("%q is a receipt", bad)
			}
		}
	}
}

func TestSettlementsThatAreRefused(t *testing.T) {
	c := algorithms.Check{Key: "k", Cost: 2, At: noon, Receipt: new(algorithms.Receipt), Sides: [2]algorithms.Side{
		{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 6, Window: time.Second}},
	}}
	m := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true})
	one(t, m, c)
	if s := settle(t, m, c.Receipt, 0, noon); !errors.Is(s[0].Err, algorithms.ErrSettle) || s[1].Err != nil {
		t.Errorf("a synchronized store: %+v", s)
	}
	if s := settle(t, m, c.Receipt, -1, noon); !errors.Is(s[0].Err, algorithms.ErrCost) {
		t.Errorf("a negative cost: %+v", s)
	}
}
