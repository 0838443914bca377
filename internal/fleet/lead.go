package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// leadLoop asks for the lease and leads with it until ctx is over; see stages.Leader. It is a loop of its own,
// because a store that is slow with evidence must not make gaps between two looks.
func (f *Fleet) leadLoop(ctx context.Context) {
	lead := task{what: "lead the fleet or hear of its leader", do: f.lead, within: leadTimeout}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.untilTurn()):
		}
		f.run(ctx, &lead)
	}
}

// untilTurn returns how long to wait for the next turn. A lease that ends before that is asked for right then: a leader
// that was killed is to be replaced within seconds.
func (f *Fleet) untilTurn() time.Duration {
	f.leading.Lock()
	defer f.leading.Unlock()
	next := clock.Jittered(stages.LeadEvery)
	if f.lease > 0 {
		next = min(next, f.lease+rand.N(time.Second))
	}
	return next
}

// lead does what is due as the leader, or reads what the leader has found.
func (f *Fleet) lead(ctx context.Context) error {
	f.leading.Lock()
	defer f.leading.Unlock()
	t, err := f.leader.Turn(ctx)
	f.logMoves(t.Moves)
	f.leads.Store(t.Leads)
	if f.lease = 0; !t.Leads {
		f.lease = t.Lease
		if err == nil {
			err = f.readPublished(ctx)
		}
		return err
	}

	for _, p := range f.compared() {
		if i := slices.IndexFunc(t.List, func(a stages.Assessment) bool { return a.Spec.Policy == p.Spec.Policy }); i >= 0 {
			f.keep(p, &assessment{&t.List[i], time.Now()})
		}
	}

	// After an error the list may be short for another reason, and nothing may be concluded from it.
	if err == nil && t.Evaluated {
		err = f.announceForgotten(ctx, t.List)
	}
	return err
}

// leadNow is lead, with all policies evaluated or all findings read.
func (f *Fleet) leadNow(ctx context.Context) error {
	f.leader.Hurry()
	f.read.Clear()
	return f.lead(ctx)
}

// announceForgotten announces policies that nobody has: a store that has lost its data does not know them any more, and where no
// instance of the stored fingerprint is left, any announcement is better than none. No command would know the policy.
func (f *Fleet) announceForgotten(ctx context.Context, list []stages.Assessment) error {
	var h stages.Heartbeat
	for _, p := range f.compared() {
		i := slices.IndexFunc(list, func(a stages.Assessment) bool { return a.Spec.Policy == p.Spec.Policy })
		if i < 0 || !p.Differs() && list[i].Spec.Fingerprint != p.Spec.Fingerprint {
			h.Specs = append(h.Specs, p.Spec)
		}
	}
	if len(h.Specs) == 0 {
		return nil
	}
	heard, err := f.Store.Heartbeat(ctx, h)
	return errors.Join(err, heard.Refused)
}

// readPublished reads what the leader has found.
func (f *Fleet) readPublished(ctx context.Context) error {
	if !f.read.Renew(stages.EvaluateEvery - stages.LeadEvery/2) {
		return nil
	}
	policies := f.compared()
	list, err := f.Store.Published(ctx, namesOf(policies), false)
	if err != nil {
		return err
	}
	for n, p := range policies {
		state := *p.Stage.State()
		if found := &list[n]; found.Of(&state) {
			a := found.Assessment(p.Spec, state)
			age := f.now().Sub(a.Evidence.Now).Abs() // either clock may have stepped
			f.keep(p, &assessment{&a, time.Now().Add(-age)})
		}
	}
	return nil
}

func namesOf(list []*Policy) (names []string) {
	for _, p := range list {
		names = append(names, p.Spec.Policy)
	}
	return names
}

// logMoves logs the moves of this instance as the leader.
func (f *Fleet) logMoves(moves []stages.Move) {
	for _, move := range moves {
		f.Log.Info("shadowlimit: moved", "policy", move.Policy,
			"to", move.State.Describe(), "from", move.State.From, "reason", move.State.Reason)
	}
}

// keep keeps the assessment of a policy, and logs an alarm that an operator has to act on.
// An alarm that goes on is logged once. In automatic mode the leader acts on it, and
// the move is logged instead.
func (f *Fleet) keep(p *Policy, a *assessment) {
	// A record has room for two sides, and those of instances that compare something else displace this policy's.
	if len(a.Evidence.OtherFingerprint) > 0 && !p.Differs() {
		p.Recorder.Mark(f.now())
	}
	before := p.assessment.Swap(a)
	known := before != nil && before.Alarm.Reason != ""
	if a.Alarm.Reason == "" || known || a.Spec.Config.Automatic {
		return
	}
	f.Log.Warn("shadowlimit: the candidate does harm, and stays as it is because the mode is manual; "+
		"unless the alarm is expected, run the command behind next in shadowlimit status POLICY",
		"policy", p.Spec.Policy, "stage", a.State.Describe(), "alarm", a.Alarm.Reason)
}
