package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// outcome is the report of the commands that change a stage.
type outcome struct {
	Policy  string  `json:"policy"`
	Stage   string  `json:"stage"`
	Percent float64 `json:"percent"`
	Hold    bool    `json:"hold"`
	Term    int64   `json:"term"`
	Seq     int64   `json:"seq"`

	Fingerprint string `json:"fingerprint"`
	Generation  int64  `json:"generation"`

	Applied []string `json:"applied"` // live instances of its fingerprint that have applied the state
	Missing []string `json:"missing"` // live instances that have not
	Silent  []string `json:"silent"`  // instances without a recent report: gone, or cut off
	Other   []string `json:"other"`   // live instances of another fingerprint
	Seconds float64  `json:"seconds"`

	Joint *joint `json:"joint,omitempty"` // of a promote --joint

	// Of a rollback: what clients get that is not the authoritative's usual answer, and what to do next.
	Effect string `json:"effect,omitempty"`
	Next   string `json:"next,omitempty"`

	state   stages.State
	repair  string // the command that repairs what Effect is about
	said    int    // lines of a rollback on standard error
	earlier bool   // another order has led to the state, and this one has moved nothing
	order   stages.Order
	start   time.Time
	wasAway bool      // Redis has not answered for some time since the order was given
	ordered time.Time // by the store's clock, no earlier than the order was given; zero before the first poll
	asked   time.Time // by the store's clock, when the instances were last asked for
}

// pollEvery is how often instances are asked.
const pollEvery = 50 * time.Millisecond

// awaitFleet waits until every live instance has applied a state, and names the instances that have
// not. A store that does not answer meanwhile may be failing over, so it is asked again.
func awaitFleet(c *cli.Context, f *fleet, o *outcome, std streams) error {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()

	o.sort(nil, nil, stages.Version{})
	told := false
	for {
		complete, err := o.poll(c.Context, f)
		if complete && o.mayBeLate() && ctx.Err() == nil {
			if !told {
				say(std.err, "stored; waiting up to %s for instances that could not report to Redis\n", stages.LiveFor)
				o.said++
			}
			complete, told = false, true
		}
		if complete {
			failed := o.reached()
			return cmp.Or(o.write(std.out, f.format, failed), failed)
		}

		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			if len(o.Missing) == 0 && err == nil {
				continue // the next poll ends it
			}
			if err := c.Context.Err(); err != nil {
				say(std.err, "%s is stored, version %s, but the wait was interrupted: "+
					"see status for the instances that have applied it\n", o.state.Describe(), o.state.Version)
				return err
			}
			return o.timedOut(err, f.format, std)
		}
	}
}

// mayBeLate reports whether silent instances may soon report again: Redis has just been away, or seems to have been, because no instance
// reports. To name them as lost would have an operator press red buttons in vain.
func (o *outcome) mayBeLate() bool {
	away := o.wasAway || len(o.Applied) == 0
	return away && o.state.Stage == stages.RolledBack && len(o.Silent) > 0 && o.asked.Sub(o.ordered) < stages.LiveFor
}

// reached is an error for a rollback that no instance has heard of, although some may run: what looks like success would be an
// outage that goes on.
func (o *outcome) reached() error {
	if lost := o.lost(); len(lost) > 0 && len(o.Applied)+len(o.Other) == 0 {
		return statusf(exitTimeout, "%s is stored, and has reached no instance", o.state.Describe())
	}
	return nil
}

// rolledBack notes what a rollback does that its policy had led to a state.
func (o *outcome) rolledBack(before *stages.Assessment) {
	o.Effect = status.AfterRollback(before)
	if len(before.RollbackHurts()) > 0 || before.Unasked() {
		o.repair = status.RepairCommand(before)
	}
	if o.earlier {
		o.said++
	}
}

// poll asks which instances have applied the state.
func (o *outcome) poll(ctx context.Context, f *fleet) (complete bool, err error) {
	if err := o.ask(ctx, f); err != nil {
		return false, err
	}

	o.Seconds = time.Since(o.start).Seconds()
	return len(o.Missing) == 0, nil
}

// timedOut reports a move that some instances have not applied in time; err is the store's last
// error.
func (o *outcome) timedOut(err error, format format, std streams) error {
	o.Seconds = time.Since(o.start).Seconds()
	failed := statusf(exitTimeout, "%s is stored, but after %.1f s not applied by %s; they apply it once they reach Redis",
		o.state.Describe(), o.Seconds, strings.Join(o.Missing, ", "))
	switch {
	case err != nil:
		failed = statusf(exitTimeout, "%s was stored, but after %.1f s it is unknown which instances have applied it: %w",
			o.state.Describe(), o.Seconds, err)
	case o.state.Stage == stages.RolledBack: // its report names them
		failed = statusf(exitTimeout, "stored, and after %.1f s not applied everywhere", o.Seconds)
	}
	return cmp.Or(o.write(std.out, format, failed), failed)
}

// ask finds out which instances have applied the state.
func (o *outcome) ask(ctx context.Context, f *fleet) error {
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return err
	}

	// Read after the instances, the stored state is older than theirs only after a failover.
	stored, err := f.store.States(ctx, []string{o.Policy})
	if err != nil {
		return err
	}

	// A failover may have lost a rollback before any instance heard of it. One who knows stores it again.
	if o.state.Stage == stages.RolledBack && o.state.Supersedes(stored[0]) {
		if err := f.store.Put(ctx, o.Policy, o.state, stages.Condition{}); err != nil && !errors.Is(err, stages.ErrConflict) {
			return err
		}
	}

	o.asked = fleet.Now
	if o.ordered.IsZero() {
		o.ordered = fleet.Now
	}
	live, silent := fleet.With(o.Policy)
	o.sort(live, silent, stored[0].Version)
	return nil
}

// sort sorts the instances by whether they have applied the state. One that is ahead of the
// store is going to restore the version that the store has lost: until then it counts as missing.
func (o *outcome) sort(live, silent []stages.Instance, stored stages.Version) {
	o.Applied, o.Missing, o.Silent, o.Other = []string{}, []string{}, []string{}, []string{}
	for _, i := range live {
		has := i.Policies[o.Policy]
		other := has.Fingerprint != o.state.Fingerprint
		if other {
			o.Other = append(o.Other, i.ID)
		}

		// One of another fingerprint has to hear of the state too, but does not follow it.
		switch {
		case has.Version.Before(o.state.Version) || stored.Before(has.Version):
			o.Missing = append(o.Missing, i.ID)
		case !other:
			o.Applied = append(o.Applied, i.ID)
		}
	}

	for _, i := range silent {
		o.Silent = append(o.Silent, i.ID)
	}
}

// write reports the outcome, which the error failed ends; nil if the move has succeeded.
func (o *outcome) write(out io.Writer, format format, failed error) error {
	s := o.state
	o.Stage, o.Percent, o.Hold = string(s.Stage), s.Percent, s.Hold
	o.Fingerprint, o.Generation = s.Fingerprint, s.Generation
	o.Term, o.Seq = s.Term, s.Seq
	if s.Stage == stages.RolledBack {
		o.Next = o.afterRollback()
		if failed != nil {
			o.said++
		}
		return format.print(out, o, o.writeRollback)
	}
	return format.print(out, o, o.writeText)
}

// movedText says what was done.
func (o *outcome) movedText() string {
	moved := o.state.From + " ->"
	if o.earlier {
		moved = "still"
	}
	return fmt.Sprintf("%s: %s %s, version %s", humanize.Printable(o.Policy), moved, o.state.Describe(), o.state.Version)
}

// appliedText says for how many instances it holds.
func (o *outcome) appliedText() string {
	live, lost := len(o.Applied)+len(o.Missing), o.lost()
	switch {
	case o.ordered.IsZero(): // no poll has succeeded
		return "it is not known which instances have applied it"
	case live == 0 && len(o.Other) > 0:
		return "no live instance has this fingerprint: none follows this stage"
	case live == 0 && len(lost) == 0:
		return "no instance is live: instances apply it when they start"
	case len(lost) > 0:
		return fmt.Sprintf("%d of %d applied in %.1f s", len(o.Applied), live+len(lost), o.Seconds)
	}
	return fmt.Sprintf("%d/%d applied in %.1f s", len(o.Applied), live, o.Seconds)
}

func (o *outcome) writeText(out io.Writer) error {
	fmt.Fprintf(out, "%s\n%s\n", o.movedText(), o.appliedText())
	for _, list := range []struct {
		what string
		ids  []string
	}{
		{"not applied", o.Missing},
		{"silent, has not left", o.Silent},
		{"of another fingerprint, does not follow this stage (it enforces its authoritative, or a candidate that it has completed)", o.Other},
	} {
		for _, id := range list.ids {
			fmt.Fprintf(out, "  %s: %s\n", list.what, humanize.Printable(id))
		}
	}
	return nil
}

// writeRollback says what was done, for whom it holds already, what it does that may surprise, and the next thing to do.
func (o *outcome) writeRollback(out io.Writer) error {
	columns := humanize.PageFor(out).Columns()
	var notes []string
	for _, list := range []struct {
		what string
		ids  []string
	}{
		{"NOT REACHED, may still enforce the candidate", o.lost()},
		{"not applied", o.Missing},
		{"of another policy file, which they follow", o.Other},
	} {
		if len(list.ids) > 0 {
			notes = append(notes, listed(list.what, list.ids, columns))
		}
	}
	if o.Effect != "" {
		effect := strings.Split(strings.TrimSpace(humanize.Wrap(o.Effect, columns)), "\n")
		notes = slices.Insert(notes, min(1, len(notes)), effect...)
	}

	lines := append([]string{clip(o.movedText(), columns), o.appliedText()}, notes[:min(len(notes), mostLines-3-o.said)]...)
	for _, line := range append(lines, "next: "+o.Next) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// mostLines is what a rollback prints at most: an engineer on call reads it at night.
const mostLines = 6

// afterRollback is what to do next.
func (o *outcome) afterRollback() string {
	policy := humanize.ShellWord(o.Policy)
	switch {
	case len(o.lost()) > 0:
		return "end the process of each that is not reached, or press its red button"
	case o.repair != "":
		return o.repair
	case len(o.Missing) > 0 || len(o.Applied) == 0:
		return "shadowlimit status " + policy
	case o.earlier:
		return "shadowlimit history " + policy
	}
	return "shadowlimit top " + policy
}

// lost returns the silent instances that a rollback must reach. Only there a silent instance may do harm.
func (o *outcome) lost() []string {
	if o.state.Stage != stages.RolledBack {
		return nil
	}
	return o.Silent
}
