package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// story plays the bundled log on the stage and says what happens.
type story struct {
	*stage
	out      io.Writer
	now      time.Time // of everybody
	next     time.Time // when to sync
	row      time.Time // when to write a row
	version  promotion.Version
	promoted time.Time
	plan     string // what the requests' x-plan says
	sent     int64
	denied   int64
}

const (
	syncEvery = 5 * time.Minute
	rowEvery  = 6 * time.Hour
	// calm is how long all is well after the promotion.
	calm = 3 * time.Hour
)

// tell sends every request at its instant, and lets the service do in between what
// it does in its background.
func (s *story) tell(ctx context.Context, events []demoEvent) error {
	s.now, s.next, s.row = events[0].at, events[0].at, events[0].at
	fmt.Fprintf(s.out, "%-19s  %-14s %9s %7s %13s %14s %12s %12s\n", "time (UTC)", "stage", "requests", "429s", "newly denied", "newly allowed", "least score", "clean hours")
	rule(s.out)
	for _, e := range events {
		if err := s.windTo(ctx, e.at); err != nil {
			return err
		}
		status, err := s.get(ctx, e.client, s.plan)
		if err != nil {
			return err
		}
		s.sent++
		if status == http.StatusTooManyRequests {
			s.denied++
		}
	}
	if err := s.windTo(ctx, s.now.Add(time.Hour)); err != nil {
		return err
	}
	return s.epilogue(ctx)
}

// windTo winds the clock forward, with a stop wherever the service has to do
// something.
func (s *story) windTo(ctx context.Context, at time.Time) error {
	for !s.next.After(at) {
		s.now = s.next
		s.redis.SetTime(s.now)
		if err := s.beat(ctx); err != nil {
			return err
		}
		s.next = s.next.Add(syncEvery)
	}
	s.now = at
	s.redis.SetTime(at)
	return nil
}

// beat lets the service write, judge and move, and tells what came of it.
func (s *story) beat(ctx context.Context) error {
	if err := s.harness.Sync(ctx); err != nil {
		return err
	}
	states, err := s.store.States(ctx, []string{demoPolicy})
	if err != nil {
		return err
	}
	state := states[0]
	if state.Version != s.version {
		s.version = state.Version
		if err := s.harness.Sync(ctx); err != nil { // apply it now
			return err
		}
		if err := s.writeRow(ctx); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  => %s (was %s), by %s\n     %s\n", state.Describe(), state.From, state.Actor, state.Reason)
	} else if !s.now.Before(s.row) {
		if err := s.writeRow(ctx); err != nil {
			return err
		}
	}
	s.breakIt(state)
	return nil
}

// breakIt is the regression: some hours after the promotion another team's proxy
// begins to call every client a trial client, and the candidate's limit for those
// is 2.
func (s *story) breakIt(state promotion.State) {
	switch {
	case state.Stage != promotion.Promoted:
		s.promoted = time.Time{}
	case s.promoted.IsZero():
		s.promoted = s.now
	case s.plan == "" && s.now.Sub(s.promoted) >= calm:
		s.plan = "trial"
		fmt.Fprintf(s.out, "  !! %s: a proxy is deployed that sets x-plan: trial on every request;\n     the candidate allows trial clients 2 a minute\n", s.now.Format("Mon 15:04"))
	}
}

func (s *story) writeRow(ctx context.Context) error {
	s.row = s.now.Add(rowEvery)
	list, err := s.control.Assess(ctx)
	if err != nil {
		return err
	}
	a := list[0]
	total := a.Evidence.History.Total()
	least := a.Gate.Divergence.Score
	for _, r := range divergence.AllRatios {
		least = min(least, a.Gate.Ratio(r).Score)
	}
	stage := a.State
	stage.Hold = false
	_, err = fmt.Fprintf(s.out, "%-19s  %-14s %9d %7d %13d %14d %12.1f %12.1f\n", s.now.Format("Mon Jan 02 15:04"), stage.Describe(), s.sent, s.denied,
		total[divergence.NewlyDenied], total[divergence.NewlyAllowed], least, a.Gate.CleanHours)
	return err
}

// epilogue shows who was hurt, and the audit trail.
func (s *story) epilogue(ctx context.Context) error {
	if err := s.writeRow(ctx); err != nil {
		return err
	}
	rule(s.out)
	states, err := s.store.History(ctx, demoPolicy)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, "\naudit trail")
	return writeTransitions(s.out, transitions(states))
}
