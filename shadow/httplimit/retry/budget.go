package retry

import "sync/atomic"

// budget bounds repeats by the number of calls. It is a count of tokens: a call adds a share of one, up to the reserve, and a
// repeat takes one. So repeats are at most the reserve and that share of all calls, whatever servers answer, and a crowd of
// clients that are refused cannot make itself larger.
type budget struct {
	share  int64 // millionths of a token
	tokens atomic.Int64
}

const (
	token   = 1_000_000
	reserve = 10 * token
)

// init fills the budget, so that the first calls of a client may be repeated, too.
func (b *budget) init(share float64) {
	b.share = int64(min(share, 10) * token) // all of the reserve is the most that a call can add
	if b.share > 0 {
		b.tokens.Store(reserve)
	}
}

// add counts a call.
func (b *budget) add() {
	// Another call may change the count meanwhile: then this one looks again.
	for {
		now := b.tokens.Load()
		next := min(now+max(b.share, 0), reserve)
		if next == now || b.tokens.CompareAndSwap(now, next) {
			return
		}
	}
}

// take reports whether there is a repeat left, and takes it.
func (b *budget) take() bool {
	for {
		now := b.tokens.Load()
		if now < token {
			return false
		}
		if b.tokens.CompareAndSwap(now, now-token) {
			return true
		}
	}
}
