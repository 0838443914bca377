package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// keyDifferences are the recent differences of a key, as far as the ledger has them.
type keyDifferences struct {
	// Counted is the last 24 h of the key, exactly; null where the policy does not protect it.
	Counted *keyCounts `json:"counted"`
	// NewlyDenied and NewlyAllowed are from the lists of the most frequent keys, since the evidence began; null where the key
	// is in none.
	NewlyDenied  *evidence.KeyCount `json:"newly_denied"`
	NewlyAllowed *evidence.KeyCount `json:"newly_allowed"`
	// Masked reports that the lists name keys by HMACs.
	Masked bool `json:"masked"`
}

// keyCounts are the compared requests of a key, what the authoritative allowed, and what of that the candidate denied.
type keyCounts struct {
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"`
	Lost     int64 `json:"lost"`
}

func differencesOf(ctx context.Context, f *fleet, a *stages.Assessment, key string) (d keyDifferences, err error) {
	heard, err := f.store.Heartbeat(ctx, stages.Heartbeat{})
	if err != nil {
		return d, err
	}
	now := heard.Now

	// Evidence of before is of another comparison.
	since := now.Add(-evidence.HoursPerDay * time.Hour)
	if since.Before(a.State.Since) {
		since = a.State.Since
	}
	history, err := evidence.NewReader(f.ledger, a.State.LedgerID(a.Spec.Policy), since).History(ctx, now)
	if err != nil {
		return d, err
	}
	d.Counted = countsOf(history.Hours, key)

	for kind, into := range map[evidence.KeyKind]**evidence.KeyCount{
		evidence.KeysNewlyDenied: &d.NewlyDenied, evidence.KeysNewlyAllowed: &d.NewlyAllowed,
	} {
		top, err := f.ledger.Top(ctx, a.State.LedgerID(a.Spec.Policy), kind)
		if err != nil {
			return d, err
		}
		d.Masked = d.Masked || slices.ContainsFunc(top, func(k evidence.KeyCount) bool { return secretKey.MatchString(k.Key) })
		if i := slices.IndexFunc(top, func(k evidence.KeyCount) bool { return k.Key == key }); i >= 0 {
			*into = &top[i]
		}
	}
	return d, nil
}

// countsOf returns the counts of a protected key; nil for another one. With a secret no key is found: the ledger has its HMAC.
func countsOf(hours []evidence.Hour, key string) *keyCounts {
	var sum evidence.ProtectedKeys
	for i := range hours {
		sum.Join(hours[i].Protected)
	}
	found := sum.Find(key)
	if found == nil {
		return nil
	}
	n := found.Total()
	return &keyCounts{n.Allowed() + n.Denied(), n.Allowed(), n[evidence.NewlyDenied]}
}

func (d *keyDifferences) write(out io.Writer) {
	var parts []string
	if n := d.Counted; n != nil {
		parts = append(parts, fmt.Sprintf("in 24 h %s compared, %s allowed by the %s, of which the candidate denied %s",
			humanize.Counted(n.Requests, "request"), humanize.Grouped(n.Allowed), algorithms.Authoritative, humanize.Grouped(n.Lost)))
	}
	for _, listed := range []struct {
		what  string
		count *evidence.KeyCount
	}{{"newly denied", d.NewlyDenied}, {"newly allowed", d.NewlyAllowed}} {
		if k := listed.count; k != nil {
			parts = append(parts, fmt.Sprintf("%s %s since the evidence began, at most %s too high", listed.what,
				humanize.Grouped(k.Count), humanize.Grouped(k.Error)))
		}
	}

	if d.Masked {
		parts = append(parts, "the service has a secret: its lists name keys by HMACs, see top")
	} else if len(parts) == 0 {
		parts = append(parts, "none known since the evidence began: the key is not among those that differ most, nor protected")
	}
	fmt.Fprintf(out, "  lately    %s\n", strings.Join(parts, "\n            "))
}
