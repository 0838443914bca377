package limitertest

import (
	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// settledAtOnceIsAsIf finds a refund that gives back too much, or too little: one that is made at once leaves what a check of the
// final cost would have left.
func settledAtOnceIsAsIf(t *trial) {
	events := t.drawEvents()
	w, asIf := t.newTwins(), t.newTwins()
	for i, e := range events {
		r := new(algorithms.Receipt)
		o := w.evaluate(e, algorithms.Check{Receipt: r})
		final := rapid.Int64Range(0, max(1, e.cost)).Draw(t.T, "final")
		if _, ok := w.settle(r, final, e.at); !ok {
			return
		}
		if counts(e, o[0].Decision) {
			asIf.evaluate(event{e.at, final}, algorithms.Check{})
		}

		look := event{e.at, 0}
		if got, want := w.evaluate(look, algorithms.Check{}), asIf.evaluate(look, algorithms.Check{}); got[0].Decision != want[0].Decision {
			t.Fatalf("event %d of %+v under %s, settled to %d\n  is     %+v\n  as if  %+v", i, events, t.limit, final, got[0].Decision, want[0].Decision)
		}
	}
}

// settledTwinsAgree finds a settlement that changes one side in another way than its twin, whenever it comes.
func settledTwinsAgree(t *trial) {
	events := t.drawWild()
	w := t.newTwins()
	var open []*algorithms.Receipt
	for _, e := range events {
		r := new(algorithms.Receipt)
		o := w.evaluate(e, algorithms.Check{Receipt: r, Enforced: algorithms.Role(rapid.IntRange(0, 1).Draw(t.T, "enforced"))})
		if o[0].Decision != o[1].Decision {
			t.Fatalf("cost %d at %d under %s\n  one side   %+v\n  other side %+v", e.cost, e.at, t.limit, o[0].Decision, o[1].Decision)
		}
		open = append(open, r)
		if rapid.Bool().Draw(t.T, "settles") {
			i := rapid.IntRange(0, len(open)-1).Draw(t.T, "which")
			s, ok := w.settle(open[i], rapid.Int64Range(0, 2*t.limit.Capacity()+2).Draw(t.T, "final"), e.at)
			if !ok {
				return
			}
			if s[0] != s[1] {
				t.Fatalf("a settlement at %d of %+v under %s: %+v", e.at, *open[i], t.limit, s)
			}
			open = append(open[:i], open[i+1:]...)
		}
	}
}
