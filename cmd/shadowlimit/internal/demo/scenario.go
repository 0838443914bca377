package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// scenario plays the bundled log in an environment and prints what happens.
type scenario struct {
	*environment
	out          io.Writer
	writeHistory func(io.Writer, []stages.State) error

	now      time.Time // of every clock
	nextSync time.Time
	nextRow  time.Time
	version  stages.Version // of the state that was printed last
	promoted time.Time      // zero unless the candidate is promoted
	plan     string         // the requests' x-plan
	sent     int64
	denied   int64
}

const (
	syncEvery = 5 * time.Minute
	rowEvery  = 12 * time.Hour
	// calm is how long all is well after the promotion.
	calm = 4 * time.Hour
)

// play sends every request at its instant. In between the service does its background work.
func (s *scenario) play(ctx context.Context, requests []request) error {
	s.now, s.nextSync, s.nextRow = requests[0].at, requests[0].at, requests[0].at
	fmt.Fprintf(s.out, "%-16s  %-11s %8s %6s %7s %8s %9s  %s\n%53s %8s %9s  %s\n",
		"time (UTC)", "stage", "requests", "429s", "newly", "newly", "least", "conditions", "denied", "allowed", "score", "met")
	s.line()

	for _, r := range requests {
		if err := s.windTo(ctx, r.at); err != nil {
			return err
		}
		status, err := s.get(ctx, r.client, s.plan)
		if err != nil {
			return err
		}

		s.sent++
		if status == http.StatusTooManyRequests {
			s.denied++
		}
	}

	// The last hour's evidence is judged after the last request.
	if err := s.windTo(ctx, s.now.Add(time.Hour)); err != nil {
		return err
	}
	return s.epilogue(ctx)
}

// windTo winds the clock forward and stops wherever the service has background work to do.
func (s *scenario) windTo(ctx context.Context, at time.Time) error {
	for !s.nextSync.After(at) {
		s.now = s.nextSync
		s.redis.SetTime(s.now)
		if err := s.sync(ctx); err != nil {
			return err
		}
		s.nextSync = s.nextSync.Add(syncEvery)
	}

	s.now = at
	s.redis.SetTime(at)
	return nil
}

// sync lets the service write, judge and move, and prints the outcome.
func (s *scenario) sync(ctx context.Context) error {
	if err := s.harness.Sync(ctx); err != nil {
		return err
	}
	states, err := s.store.States(ctx, []string{policy})
	if err != nil {
		return err
	}

	state := states[0]
	switch {
	case state.Version != s.version:
		s.version = state.Version
		err = s.showMove(ctx, state)
	case !s.now.Before(s.nextRow):
		err = s.showWait(ctx)
	}
	if err != nil {
		return err
	}

	s.injectRegression(state)
	return nil
}

// showMove prints the new state and why it was moved to.
func (s *scenario) showMove(ctx context.Context, state stages.State) error {
	// The next request is to be decided by the new stage, without waiting for the next sync.
	if err := s.harness.Sync(ctx); err != nil {
		return err
	}

	if _, err := s.writeRow(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "  => %s (was %s), by %s\n     %s\n", state.Describe(), state.From, state.Actor, indented(state.Reason))
	return err
}

// showWait prints how far it is, and what the gate waits for.
func (s *scenario) showWait(ctx context.Context) error {
	a, err := s.writeRow(ctx)
	if err == nil && a.Gate.Met() < len(a.Gate.Conditions) {
		_, err = fmt.Fprintf(s.out, "     %s: %s\n", a.Gate.Verdict, indented(a.Gate.Reason))
	}
	return err
}

// indented breaks the lines of a sentence that stands in the column of reasons.
func indented(text string) string {
	return strings.ReplaceAll(humanize.Wrap(text, 68), "\n", "\n     ")
}

// injectRegression breaks the candidate some hours after its promotion: another team's proxy
// begins to call every client a trial client, and the candidate allows those 2 a minute.
func (s *scenario) injectRegression(state stages.State) {
	switch {
	case state.Stage != stages.Promoted:
		s.promoted = time.Time{}
	case s.promoted.IsZero():
		s.promoted = s.now
	case s.plan == "" && s.now.Sub(s.promoted) >= calm:
		s.plan = "trial"
		fmt.Fprintf(s.out, regression, s.now.Format("Mon 15:04"))
	}
}

const regression = `  !! %s: a proxy is deployed that sets x-plan: trial on every request;
     the candidate allows trial clients 2 a minute
`

// writeRow prints the counts, and returns what they are judged by.
func (s *scenario) writeRow(ctx context.Context) (*stages.Assessment, error) {
	s.nextRow = s.now.Add(rowEvery)
	list, err := s.controller.Assess(ctx)
	if err != nil {
		return nil, err
	}

	// A step needs all of the scores, so the least one says how near it is.
	a := &list[0]
	least := a.Gate.Divergence.Score
	for _, r := range evidence.AllRatios {
		if part := a.Gate.Ratio(r); part != nil && part.Threshold > 0 {
			least = min(least, part.Score)
		}
	}

	total := a.Evidence.History.Total()
	stage := a.State
	stage.Hold = false // the column has no room for it; the line of the move says it
	_, err = fmt.Fprintf(s.out, "%-16s  %-11s %8d %6d %7d %8d %9s  %d of %d\n",
		s.now.Format("Mon Jan 02 15:04"), stage.Describe(), s.sent, s.denied,
		total[evidence.NewlyDenied], total[evidence.NewlyAllowed], humanize.Grouped(int64(least)), a.Gate.Met(), len(a.Gate.Conditions))
	return a, err
}

// epilogue prints the final counts and the audit trail.
func (s *scenario) epilogue(ctx context.Context) error {
	if _, err := s.writeRow(ctx); err != nil {
		return err
	}
	s.line()

	states, err := s.store.History(ctx, policy)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, "\naudit trail")
	return s.writeHistory(s.out, states)
}

func (s *scenario) line() { fmt.Fprintln(s.out, strings.Repeat("-", 78)) }
