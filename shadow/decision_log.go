package shadow

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// DecisionLogConfig configures NewDecisionLog.
type DecisionLogConfig struct {
	// Logger gets the lines; nil means slog.Default().
	Logger *slog.Logger
	// Differences is the most comparisons a second to log that are evidence against the
	// candidate; 0 means 10.
	Differences int64
	// Others is the same for all other comparisons; 0 means 1, negative none. They are far
	// more in most services, and in one budget would take the places of differences.
	Others int64
	// Secret makes the logged hashes of keys useless to a reader of the log alone. The
	// plain hash of an address can be found by trying all addresses.
	Secret []byte
}

// NewDecisionLog returns a Config.Observer that logs comparisons: a few of each second,
// with a budget of their own for differences. Keys are logged as hashes. A line has
// the answers of both sides.
//
// The function may be called concurrently. It often writes while a request waits, so the
// Logger's handler must not block.
func NewDecisionLog(cfg DecisionLogConfig) func(Comparison) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Differences == 0 {
		cfg.Differences = 10
	}
	if cfg.Others == 0 {
		cfg.Others = 1
	}

	differences, others := ration{most: cfg.Differences}, ration{most: cfg.Others}
	return func(c Comparison) {
		budget := &others
		if c.Differs() {
			budget = &differences
		}
		if budget.take() {
			cfg.log(&c)
		}
	}
}

func (cfg *DecisionLogConfig) log(c *Comparison) {
	// The first 8 of its 32 bytes are enough to find the lines of one key in a log.
	mac := hmac.New(sha256.New, cfg.Secret)
	mac.Write([]byte(c.Key))

	attrs := []slog.Attr{
		slog.String("policy", c.Policy),
		slog.String("key_hash", hex.EncodeToString(mac.Sum(nil)[:8])),
		slog.Int64("cost", c.Cost),
		slog.Time("at", c.At),
		slog.String("enforced", c.Enforced.String()),
		slog.String("outcome", string(c.Outcome)),
	}
	for role, o := range c.Observed {
		attrs = append(attrs, slog.Group(algorithms.Role(role).String(), answerAttrs(&o)...))
	}
	cfg.Logger.LogAttrs(context.Background(), slog.LevelInfo, "shadowlimit: comparison", attrs...)
}

// answerAttrs are a side's answer, or why it has none.
func answerAttrs(o *algorithms.Observation) []any {
	switch {
	case o.Err != nil:
		return []any{slog.String("error", o.Err.Error())}
	case o.Status != algorithms.Judged:
		return []any{slog.String("status", o.Status.String())}
	}
	return []any{
		slog.Bool("allowed", o.Decision.Allowed),
		slog.Int64("remaining", o.Decision.Remaining),
		slog.Duration("retry_after", o.Decision.RetryAfter),
	}
}

// ration allows a number of lines a second. It has no lock, because every comparison of
// every request asks it.
type ration struct {
	most   int64        // lines a second; negative none
	second atomic.Int64 // Unix time that taken is of
	taken  atomic.Int64 // may exceed most
}

// take reports whether another line is allowed. As the second changes, a few more may be.
func (r *ration) take() bool {
	// On a busy service nearly every comparison ends here, and writes nothing that other
	// processors read.
	if r.taken.Load() >= r.most && r.second.Load() == time.Now().Unix() {
		return false
	}

	// Of the requests that see a new second first, one swaps it and resets the count.
	if now := time.Now().Unix(); r.second.Swap(now) != now {
		r.taken.Store(0)
	}
	return r.taken.Add(1) <= r.most
}
