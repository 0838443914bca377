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
	// Others is the same for all other comparisons; 0 means 1, negative none.
	Others int64
	// Secret makes the logged hashes of keys useless to anyone who only has the log. The
	// plain hash of an address can be found by trying all addresses.
	Secret []byte
}

// NewDecisionLog returns a Config.Observer that logs comparisons: a few of each second,
// with a budget of their own for those that differ. Keys are logged as hashes. A line has
// the answers of both sides.
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

// log writes one line.
func (cfg *DecisionLogConfig) log(c *Comparison) {
	mac := hmac.New(sha256.New, cfg.Secret)
	mac.Write([]byte(c.Key))

	attrs := []slog.Attr{
		slog.String("policy", c.Policy),
		slog.String("key_hash", hex.EncodeToString(mac.Sum(nil)[:8])),
		slog.Int64("cost", c.Cost),
		slog.Time("at", c.At),
		slog.String("enforced", c.Enforced.String()),
		slog.String("outcome", c.Outcome.String()),
	}
	for role, o := range c.Observed {
		attrs = append(attrs, slog.Group(algorithms.Role(role).String(), answerAttrs(&o)...))
	}
	cfg.Logger.LogAttrs(context.Background(), slog.LevelInfo, "shadowlimit: comparison", attrs...)
}

// answerAttrs are a side's answer, or why it has none.
func answerAttrs(o *algorithms.Observation) []any {
	if o.Status != algorithms.Judged {
		return []any{slog.String("error", o.Err.Error())}
	}
	return []any{
		slog.Bool("allowed", o.Decision.Allowed),
		slog.Int64("remaining", o.Decision.Remaining),
		slog.Duration("retry_after", o.Decision.RetryAfter),
	}
}

// ration allows a number of lines a second.
type ration struct {
	most   int64
	second atomic.Int64
	taken  atomic.Int64
}

// take reports whether another line is allowed. As the second changes, a few more may be.
func (r *ration) take() bool {
	if r.taken.Load() >= r.most && r.second.Load() == time.Now().Unix() {
		return false
	}

	if now := time.Now().Unix(); r.second.Swap(now) != now {
		r.taken.Store(0)
	}
	return r.taken.Add(1) <= r.most
}
