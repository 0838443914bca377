package gate

import (
	"cmp"
	"slices"
	"sort"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// spans are stretches of time, in order and apart from each other.
type spans []evidence.Span

// spansOf returns the time that is in any of the spans, which need no order.
func spansOf(list []evidence.Span) (union spans) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b evidence.Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range list {
		switch n := len(union); {
		case s.From >= s.To:
		case n > 0 && s.From <= union[n-1].To:
			union[n-1].To = max(union[n-1].To, s.To)
		default:
			union = append(union, s)
		}
	}
	return union
}

// or returns the time that is in either.
func (s spans) or(other spans) spans {
	if len(s) == 0 || len(other) == 0 {
		return append(s[:len(s):len(s)], other...)
	}
	return spansOf(slices.Concat(s, other))
}

// at returns the span that an instant is in, the zero Span if it is in none.
func (s spans) at(t int64) evidence.Span {
	if i := sort.Search(len(s), func(i int) bool { return s[i].To > t }); i < len(s) && s[i].From <= t {
		return s[i]
	}
	return evidence.Span{}
}

func (s spans) has(t int64) bool { return s.at(t) != evidence.Span{} }

// within returns how much of a span they are.
func (s spans) within(of evidence.Span) (n int64) {
	for i := sort.Search(len(s), func(i int) bool { return s[i].To > of.From }); i < len(s) && s[i].From < of.To; i++ {
		n += min(s[i].To, of.To) - max(s[i].From, of.From)
	}
	return n
}

// leave returns the minutes that are in none of them.
func (s spans) leave(minutes []evidence.Minute) []evidence.Minute {
	if len(s) == 0 {
		return minutes
	}
	return slices.DeleteFunc(slices.Clone(minutes), func(m evidence.Minute) bool { return s.has(m.Unix) })
}
