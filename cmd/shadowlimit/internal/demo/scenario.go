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
	out io.Writer

	now      time.Time // of every clock
	nextSync time.Time
	nextRow  time.Time
	state    stages.State // that was printed last
	promoted time.Time    // zero unless the candidate is promoted
	plan     string       // the requests' x-plan
	sent     int64
	unharmed int64 // of the sent, those before the candidate went wrong
	before   int64 // newly denied until then
	harmed   int64 // newly denied from then to the rollback
}

const (
	syncEvery = 5 * time.Minute
	rowEvery  = 24 * time.Hour
	// calm is how long all is well after the promotion.
	calm = 4 * time.Hour
)

// play sends every request at its instant, until the candidate is rolled back. In between the service does its background work.
func (s *scenario) play(ctx context.Context, requests []request) error {
	s.now, s.nextSync, s.nextRow = requests[0].at, requests[0].at, requests[0].at.Add(rowEvery)
	fmt.Fprintf(s.out, "%-12s  %8s  %6s  %7s\n%-12s  %8s  %6s  %7s\n", "", "", "newly", "newly", "time (UTC)", "requests", "denied", "allowed")

	for _, r := range requests {
		if err := s.windTo(ctx, r.at); err != nil {
			return err
		}
		if s.state.Stage == stages.RolledBack {
			break
		}
		if status, err := s.get(ctx, r.client, s.plan); err != nil {
			return err
		} else if status != http.StatusOK && status != http.StatusTooManyRequests {
			return fmt.Errorf("the service answered %d", status)
		}
		s.sent++
	}
	// From here on the clock runs, and commands may ask: what they find must be of now.
	return s.harness.Sync(ctx)
}

// windTo winds the clock forward and stops wherever the service has background work to do.
func (s *scenario) windTo(ctx context.Context, at time.Time) error {
	for !s.nextSync.After(at) {
		s.now = s.nextSync
		s.redis.SetTime(s.now)
		if err := s.sync(ctx); err != nil || s.state.Stage == stages.RolledBack {
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

	switch state := states[0]; {
	case state.Version != s.state.Version:
		s.state = state
		err = s.showMove(ctx)
	case !s.now.Before(s.nextRow):
		err = s.showWait(ctx)
	case state.Stage == stages.Promoted && s.plan == "" && s.now.Sub(s.promoted) >= calm:
		err = s.injectRegression(ctx)
	}
	return err
}

// showMove prints the new stage, what it means, and why it was moved to.
func (s *scenario) showMove(ctx context.Context) error {
	// The next request is to be decided by the new stage, without waiting for the next sync.
	if err := s.harness.Sync(ctx); err != nil {
		return err
	}

	name := strings.ToUpper(strings.ReplaceAll(s.state.Describe(), "_", " "))
	means, why := "all conditions are met", ""
	colors := humanize.PageFor(s.out).Colors
	color := colors.Good
	switch s.state.Stage {
	case stages.Shadow:
		means, color = "today's limiter decides", colors.Unsure
	case stages.Promoted:
		s.promoted = s.now
		why = "The bucket decides for every client. Today's limiter still counts."
	case stages.RolledBack:
		name, _, _ = strings.Cut(name, " (")
		means, why, color = "today's limiter decides", s.state.Reason+".", colors.Bad
	}
	denied, err := s.writeRow(ctx, padded(color(name), name)+means)
	if err != nil {
		return err
	}
	s.harmed = denied - s.before
	s.say(why)
	return nil
}

// showWait prints how far it is, and what the gate waits for.
func (s *scenario) showWait(ctx context.Context) error {
	list, err := s.controller.Assess(ctx)
	if err != nil {
		return err
	}
	g := &list[0].Gate
	verdict := humanize.PageFor(s.out).Unsure(g.Verdict) // a pass is moved at once
	_, err = s.writeRow(ctx, fmt.Sprintf("%s%d of %d conditions met", padded(verdict, g.Verdict), g.Met(), len(g.Conditions)))
	return err
}

// padded fills up a word, whose colour takes no room, to the column of what it means.
func padded(colored, word string) string {
	return colored + strings.Repeat(" ", max(0, 11-len(word))+2)
}

// injectRegression breaks the candidate some hours after its promotion: another team's proxy
// begins to call every client a trial client, and the candidate allows those 2 a minute.
func (s *scenario) injectRegression(ctx context.Context) (err error) {
	s.plan, s.unharmed = "trial", s.sent
	if s.before, err = s.writeRow(ctx, "!!           a proxy is deployed"); err == nil {
		s.say(regression)
	}
	return err
}

const regression = "It sets x-plan: trial on every request, and the candidate of the policy file allows trial clients 2 a minute."

// writeRow prints the counts beside a text, and returns how many requests were newly denied.
func (s *scenario) writeRow(ctx context.Context, text string) (denied int64, err error) {
	s.nextRow = s.now.Add(rowEvery)
	list, err := s.controller.Assess(ctx)
	if err != nil {
		return 0, err
	}
	total := list[0].Evidence.History.Total()
	_, err = fmt.Fprintf(s.out, "%-12s  %8s  %6d  %7d  %s\n", s.now.Format("Mon 02 15:04"), humanize.Grouped(s.sent),
		total[evidence.NewlyDenied], total[evidence.NewlyAllowed], text)
	return total[evidence.NewlyDenied], err
}

// say prints a text below a row.
func (s *scenario) say(text string) {
	const indent = "              "
	if text != "" {
		fmt.Fprintf(s.out, "%s%s\n", indent, strings.ReplaceAll(humanize.Wrap(text, 80-len(indent)), "\n  ", "\n"+indent))
	}
}
