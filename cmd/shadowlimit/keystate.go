package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
)

// keySide is what one side holds for a key now.
type keySide struct {
	// Limiter is the side as the policy file has it.
	Limiter string `json:"limiter"`
	// Limit and Remaining are in units of cost: what the key may take, and what remains. ResetAfterUS is how long until the side is
	// as if the key had never been used; null: never. All are null for the reason Unknown.
	Limit        *int64 `json:"limit"`
	Remaining    *int64 `json:"remaining"`
	ResetAfterUS *int64 `json:"reset_after_us"`
	Unknown      string `json:"unknown,omitempty"`
}

// keyState is what both sides hold. Record reports that Redis has a record of the key: without one both sides are as if unused.
type keyState struct {
	Record        bool     `json:"record"`
	Authoritative keySide  `json:"authoritative"`
	Candidate     *keySide `json:"candidate"`
}

// keyStateOf looks at a key's record. It asks both sides for a check of cost 0, which changes nothing.
func keyStateOf(ctx context.Context, f *fleet, p *policies.Policy, key string) (*keyState, error) {
	pair, err := lua.New(f.client, lua.Config{Name: f.name})
	if err != nil {
		return nil, err
	}
	n, err := f.client.Exists(ctx, pair.RecordKey(p.Name, key)).Result()
	if err != nil {
		return nil, err
	}

	check := algorithms.Check{Policy: p.Name, Key: key}
	var sides [2]keySide
	for role, side := range p.Sides {
		if side == nil {
			continue
		}
		sides[role].Limiter = side.String()
		check.Sides[role], sides[role].Unknown = lookedAt(p, side, key)
	}

	var observed [1][2]algorithms.Observation
	if err := pair.Evaluate(ctx, []algorithms.Check{check}, observed[:]); err != nil {
		return nil, err
	}
	for role := range sides {
		if check.Sides[role].Present() {
			sides[role].note(&observed[0][role])
		}
	}

	state := &keyState{Record: n > 0, Authoritative: sides[algorithms.Authoritative]}
	if p.Sides[algorithms.Candidate] != nil {
		state.Candidate = &sides[algorithms.Candidate]
	}
	return state, nil
}

// lookedAt returns a side as it is asked, or why it cannot be: only a service knows its other stores and its limiters.
func lookedAt(p *policies.Policy, side *policies.Side, key string) (asked algorithms.Side, unknown string) {
	limit, told := p.LimitOf(side, key)
	switch {
	case side.None():
		return asked, "it allows every request"
	case side.Custom():
		return asked, "a limiter of the service's own, whose state is known there only"
	case side.Sync > 0:
		return asked, "it is synchronized: each instance has a state of its own"
	case side.Store != "":
		return asked, "its state is in the store " + side.Store + ", whose address is known to the service only"
	case !told:
		return asked, "its limit depends on more of a request than the key: see explain --request"
	}
	asked = side.Bare()
	asked.Limit = limit
	return asked, ""
}

// note keeps what a side has answered.
func (s *keySide) note(o *algorithms.Observation) {
	if o.Status != algorithms.Judged {
		s.Unknown = humanize.Visible(fmt.Sprint(o.Err))
		return
	}

	d := &o.Decision
	s.Limit, s.Remaining = &d.Capacity, &d.Remaining
	if d.ResetAfter != algorithms.Never {
		us := d.ResetAfter.Microseconds()
		s.ResetAfterUS = &us
	}
}

func (s *keySide) String() string {
	if s.Unknown != "" {
		return s.Unknown
	}

	left := fmt.Sprintf("%s of %s left", humanize.Grouped(*s.Remaining), humanize.Grouped(*s.Limit))
	switch {
	case s.ResetAfterUS == nil:
		return left
	case *s.ResetAfterUS == 0:
		return left + ", unused"
	}
	reset := (time.Duration(*s.ResetAfterUS) * time.Microsecond).Round(time.Millisecond)
	return fmt.Sprintf("%s, as if unused in %s", left, reset)
}

// write writes the lines of the state; nil says that there was no file.
func (s *keyState) write(out io.Writer) {
	if s == nil {
		fmt.Fprint(out, "  state     not known without the policy file: give it, --config FILE\n")
		return
	}

	fmt.Fprintf(out, "  state     authoritative  %s: %s\n", humanize.Visible(s.Authoritative.Limiter), &s.Authoritative)
	if s.Candidate != nil {
		fmt.Fprintf(out, "            candidate      %s: %s\n", humanize.Visible(s.Candidate.Limiter), s.Candidate)
	}
	if !s.Record {
		fmt.Fprint(out, "            Redis has no record of the key: it was not used recently, or the service has a secret "+
			"and finds records by HMACs\n")
	}
}
