package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// lead evaluates all policies while this instance has the lease, and reads what the leader has found while it has not.
type lead struct {
	*common
	leader  *stages.Leader
	leads   atomic.Bool   // this instance has the lease
	read    clock.Moment  // when published assessments were
	leading sync.Mutex    // held by one turn at a time; it guards leader and lease
	lease   time.Duration // what another leader had left at the last turn
}

// leadLoop asks for the lease and leads with it until ctx is over; see stages.Leader. It is a loop of its own,
// because a store that is slow with evidence must not make gaps between two looks.
func (l *lead) leadLoop(ctx context.Context) {
	turn := task{what: "lead the fleet or hear of its leader", do: l.turn, within: leadTimeout}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.untilTurn()):
		}
		l.run(ctx, &turn)
	}
}

// untilTurn returns how long to wait for the next turn. A lease that ends before that is asked for right then: a leader
// that was killed is to be replaced within seconds.
func (l *lead) untilTurn() time.Duration {
	l.leading.Lock()
	defer l.leading.Unlock()
	next := clock.Jittered(stages.LeadEvery)
	if l.lease > 0 {
		next = min(next, l.lease+rand.N(time.Second))
	}
	return next
}

// turn does what is due as the leader, or reads what the leader has found.
func (l *lead) turn(ctx context.Context) error {
	l.leading.Lock()
	defer l.leading.Unlock()
	t, err := l.leader.Turn(ctx)
	l.logMoves(t.Moves)
	l.leads.Store(t.Leads)
	if l.lease = 0; !t.Leads {
		l.lease = t.Lease
		if err == nil {
			err = l.readPublished(ctx)
		}
		return err
	}

	for _, p := range l.compared() {
		if i := slices.IndexFunc(t.List, func(a stages.Assessment) bool { return a.Spec.Policy == p.Spec.Policy }); i >= 0 {
			l.keep(p, &assessment{&t.List[i], time.Now()})
		}
	}

	// After an error the list may be short for another reason, and nothing may be concluded from it.
	if err == nil && t.Evaluated {
		err = l.announceForgotten(ctx, t.List)
	}
	return err
}

// leadNow is turn, with all policies evaluated or all findings read.
func (l *lead) leadNow(ctx context.Context) error {
	l.leader.Hurry()
	l.read.Clear()
	return l.turn(ctx)
}

// announceForgotten announces policies that nobody has: a store that has lost its data does not know them any more, and where no
// instance of the stored fingerprint is left, any announcement is better than none. No command would know the policy.
func (l *lead) announceForgotten(ctx context.Context, list []stages.Assessment) error {
	var h stages.Heartbeat
	for _, p := range l.compared() {
		i := slices.IndexFunc(list, func(a stages.Assessment) bool { return a.Spec.Policy == p.Spec.Policy })
		if i < 0 || !p.Differs() && list[i].Spec.Fingerprint != p.Spec.Fingerprint {
			h.Specs = append(h.Specs, p.Spec)
		}
	}
	if len(h.Specs) == 0 {
		return nil
	}
	heard, err := l.Store.Heartbeat(ctx, h)
	return errors.Join(err, heard.Refused)
}

// readPublished reads what the leader has found.
func (l *lead) readPublished(ctx context.Context) error {
	if !l.read.Renew(stages.EvaluateEvery - stages.LeadEvery/2) {
		return nil
	}
	policies := l.compared()
	list, err := l.Store.Published(ctx, namesOf(policies), false)
	if err != nil {
		return err
	}
	for n, p := range policies {
		state := *p.Stage.State()
		if found := &list[n]; found.Of(&state) {
			a := found.Assessment(p.Spec, state)
			age := l.now().Sub(a.Evidence.Now).Abs() // either clock may have stepped
			l.keep(p, &assessment{&a, time.Now().Add(-age)})
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
func (l *lead) logMoves(moves []stages.Move) {
	for _, move := range moves {
		l.Log.Info("shadowlimit: moved", "policy", move.Policy,
			"to", move.State.Describe(), "from", move.State.From, "reason", move.State.Reason)
	}
}

// keep keeps the assessment of a policy, and logs an alarm that an operator has to act on.
// An alarm that goes on is logged once. In automatic mode the leader acts on it, and
// the move is logged instead.
func (l *lead) keep(p *Policy, a *assessment) {
	// A record has room for two sides, and those of instances that compare something else displace this policy's.
	if len(a.Evidence.OtherFingerprint) > 0 && !p.Differs() {
		p.Recorder.Mark(l.now())
	}
	before := p.assessment.Swap(a)
	known := before != nil && before.Alarm.Reason != ""
	if a.Alarm.Reason == "" || known || a.Spec.Config.Automatic {
		return
	}
	l.Log.Warn("shadowlimit: the candidate does harm, and stays as it is because the mode is manual; "+
		"unless the alarm is expected, run the command behind next in shadowlimit status POLICY",
		"policy", p.Spec.Policy, "stage", a.State.Describe(), "alarm", a.Alarm.Reason)
}
