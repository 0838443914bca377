package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// fleetModel is a fleet, its operators and a late controller, and the network between them. Messages
// carry nothing: a lost one is a poll that comes late, a repeated one is two polls, and polls
// may come in any order.
type fleetModel struct {
	*cluster
	nodes      []*node
	operators  []*operator
	controller operator
	rollbacks  []*rollback
	started    int // instances in the place of others
}

// node is one instance.
type node struct {
	*Fleet
	*Policy
	link    *link
	busy    bool         // it polls, counts or reloads right now
	applied stages.State // when last looked at
	heardAt time.Time    // of the store
}

// operator gives orders by a state that it read some time ago.
type operator struct{ seen stages.State }

// rollback is a rollback that was ordered and answered.
type rollback struct {
	state   stages.State
	ordered time.Time
	resumed int // resumptions before the order
}

func newFleetModel(t *rapid.T) *fleetModel {
	c := &cluster{t: t, primary: stages.NewMemoryStore(), accepted: map[identity]bool{}, pressed: map[string]int64{}, quiet: true,
		ledger: evidence.NewMemoryLedger()}
	m := &fleetModel{cluster: c, operators: []*operator{{}, {}}}
	c.meanwhile, c.stopped = m.interfere, m.freeze
	for i := range 3 {
		n := &node{link: &link{cluster: c}}
		n.link.heard = func() { n.heardAt = time.Now() }
		n.start(fmt.Sprint("instance ", i))
		n.Fleet.Button.changed = n.Fleet.button.ordered
		m.nodes = append(m.nodes, n)
		m.poll(n)
	}

	c.quiet = false
	return m
}

// interfere sometimes has others act between two calls of an instance or an operator.
func (m *fleetModel) interfere() {
	if m.quiet || m.busy >= 3 || rapid.IntRange(0, 9).Draw(m.t, "others act at 9") != 9 {
		return
	}
	others := []func(){
		m.pollOne, m.leadOne, m.reload, m.promote, m.rollBack, m.pause, m.resume, m.adopt, m.control, m.failOverNow,
	}
	others[rapid.IntRange(0, len(others)-1).Draw(m.t, "meanwhile")]()
}

// within counts the actions under way, and checks the instances after each.
func (m *fleetModel) within(do func(context.Context)) {
	m.busy++
	do(context.Background())
	m.busy--
	m.look()
}

func (m *fleetModel) poll(n *node) {
	m.alone(n, func(ctx context.Context) { _ = n.Fleet.poller.poll(ctx) })
}

// alone has an instance do what it does once at a time.
func (m *fleetModel) alone(n *node, do func(context.Context)) {
	if n.busy {
		return
	}
	n.busy = true
	m.within(do)
	n.busy = false
}

func (m *fleetModel) someNode() *node {
	return m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(m.t, "instance")]
}
func (m *fleetModel) someOperator() *operator {
	return m.operators[rapid.IntRange(0, len(m.operators)-1).Draw(m.t, "operator")]
}

// start starts an instance, with the same file as before.
func (n *node) start(id string) {
	before := n.Policy
	n.Fleet, n.Policy = idleOn(n.link, id)
	n.Fleet.poller.decided = true
	n.Fleet.Ledger = &slowLedger{n.link.ledger, n.link}
	n.Fleet.Controller = stages.NewController(n.link, n.Fleet.Ledger, "leader "+id)
	n.Fleet.lead.leader = stages.NewLeader(n.link, id, n.Fleet.Controller, nil)
	n.Policy.Spec.Config.Automatic = true
	if before != nil {
		n.use(before.Spec.Fingerprint, 0)
	}
}

// use gives an instance a policy file of another fingerprint and generation.
func (n *node) use(fingerprint string, generation int64) {
	next := *n.Policy
	next.Spec.Fingerprint, next.memory = fingerprint, nil
	if fingerprint != n.Spec.Fingerprint {
		next.Stage, next.Recorder = n.Stage.Copy(), evidence.NewRecorder(nil)
	}
	n.Policy = &next
	n.Fleet.Replan(&Plan{Generation: generation, Policies: []*Policy{n.Policy}}, func() {})
}

// reload gives an instance another file.
func (m *fleetModel) reload() {
	n := m.someNode()
	m.alone(n, func(context.Context) {
		fingerprint := rapid.SampledFrom([]string{"e", "e", "f", "g"}).Draw(m.t, "fingerprint")
		n.use(fingerprint, rapid.Int64Range(0, 2).Draw(m.t, "generation"))
	})
}

// restart closes an instance and starts another in its place, which has decided requests.
func (m *fleetModel) restart() {
	n := m.someNode()
	m.alone(n, func(ctx context.Context) {
		_ = n.Fleet.lead.leader.Leave(ctx)
		m.started++
		n.start(fmt.Sprint("restart ", m.started))
		n.applied = stages.State{}
	})
}

// leadOne has an instance take a leader's turn, if the lease is its own or free.
func (m *fleetModel) leadOne() { m.lead(m.someNode()) }

func (m *fleetModel) lead(n *node) {
	m.alone(n, func(ctx context.Context) { _ = n.Fleet.lead.turn(ctx) })
}

// count lets time pass in which all instances poll and look.
func (m *fleetModel) count() { m.rest(rapid.IntRange(1, 50).Draw(m.t, "s")) }

func (m *fleetModel) rest(seconds int) {
	for s := range seconds {
		time.Sleep(time.Second)
		for _, n := range m.nodes {
			m.poll(n)
			if s%5 == 4 {
				m.lead(n)
			}
		}
	}
}

func (m *fleetModel) adopt() {
	m.within(func(ctx context.Context) {
		fingerprint := rapid.SampledFrom([]string{"e", "f", "g"}).Draw(m.t, "adopted")
		_, _ = stages.Adopt(ctx, m.link(), "p", fingerprint, stages.Order{Actor: "operator"})
	})
}

// settleAll lets the fleet come to rest, and compares what is stored with what instances have: the largest generation
// that is served, or a smaller one that was adopted.
func (m *fleetModel) settleAll() {
	m.settle()
	m.quiet = true
	m.rest(90)

	s := m.stored()
	served := false
	for _, n := range m.nodes {
		served = served || n.Spec.Fingerprint == s.Fingerprint
		if g := n.Fleet.plan.Load().Generation; g > s.Generation {
			m.t.Errorf("I10: %s serves generation %d, and the store has %s of %s, generation %d", n.Fleet.ID, g, s, s.Fingerprint, s.Generation)
		}
		if n.applied.Version != s.Version || n.applied.Fingerprint != s.Fingerprint || !n.applied.Since.Equal(s.Since) {
			m.t.Errorf("%s has applied %s of %s, the store has %s of %s", n.Fleet.ID, n.applied, n.applied.Fingerprint, s, s.Fingerprint)
		}
	}
	if !served {
		m.t.Errorf("I10: nobody serves %s, which is stored", s.Fingerprint)
	}
}

func (m *fleetModel) pollOne() { m.poll(m.someNode()) }

// someOrder is one that expects what its giver saw last, or nothing.
func (m *fleetModel) someOrder(o *operator) stages.Order {
	order := stages.Order{Actor: "operator"}
	if rapid.Bool().Draw(m.t, "expects what was seen") {
		order.Expect = &o.seen.Version
	}
	return order
}

var steps = []stages.Step{{Stage: stages.Canary, Percent: 1}, {Stage: stages.Canary, Percent: 50}, {Stage: stages.Promoted}}

func (m *fleetModel) promote() {
	o, step := m.someOperator(), rapid.SampledFrom(steps).Draw(m.t, "step")
	order := m.someOrder(o)
	m.within(func(ctx context.Context) { _, _ = stages.Advance(ctx, m.link(), "p", step, order) })
}

func (m *fleetModel) pause() {
	o := m.someOperator()
	order := m.someOrder(o)
	m.within(func(ctx context.Context) { _, _ = stages.Pause(ctx, m.link(), "p", order) })
}

func (m *fleetModel) resume() {
	o := m.someOperator()
	order := m.someOrder(o)
	m.within(func(ctx context.Context) { _, _ = stages.Resume(ctx, m.link(), "p", order) })
}

// see lets an operator look where the policy is.
func (m *fleetModel) see() {
	m.someOperator().seen = m.stored()
}

// foresee lets the controller do so.
func (m *fleetModel) foresee() {
	m.controller.seen = m.stored()
}

// control takes the step after what the controller saw, whatever the evidence.
func (m *fleetModel) control() {
	seen := m.controller.seen
	step, err := seen.Next(m.nodes[0].Spec.Config.Canary)
	if err == nil {
		order := stages.Order{Actor: "controller", Expect: &seen.Version}
		m.within(func(ctx context.Context) { _, _ = stages.Advance(ctx, m.link(), "p", step, order) })
	}
}

func (m *fleetModel) rollBack() {
	r := &rollback{resumed: len(m.resumed)}
	m.within(func(ctx context.Context) {
		var err error
		if r.state, err = stages.Rollback(ctx, m.link(), "p", stages.Order{Actor: "operator"}); err == nil {
			r.ordered = time.Now()
			m.rollbacks = append(m.rollbacks, r)
		}
	})
}

func (m *fleetModel) failOverNow() { m.failOver(rapid.IntRange(0, 12).Draw(m.t, "missed writes")) }

func (m *fleetModel) cutOrHeal() {
	n := m.someNode()
	n.link.cut = !n.link.cut
}

// pressOrRelease presses the red button of an instance, or releases it.
func (m *fleetModel) pressOrRelease() {
	n := m.someNode()
	if n.busy { // an order that is on its way cannot be withdrawn
		return
	}
	m.pressed["red button of "+n.Fleet.ID] = n.applied.Term
	n.Fleet.Button.Press(!n.Fleet.Button.pressed())
}

// checkOrders: an order that waited for the store is carried out once it is reached.
func (m *fleetModel) checkOrders() {
	for _, n := range m.nodes {
		if left := n.Fleet.button.orders.waiting(); len(left) > 0 {
			m.t.Errorf("I9: %s still has the order %v", n.Fleet.ID, left)
		}
	}
}

func (m *fleetModel) sleep() {
	time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(m.t, "s")) * time.Second)
}

// promoteTwice has two operators promote at once what both have seen.
func (m *fleetModel) promoteTwice() {
	s := m.stored()
	if s.Hold || s.Stage != stages.Shadow {
		return
	}

	var won []error
	promote := func() {
		step := rapid.SampledFrom(steps).Draw(m.t, "step")
		_, err := stages.Advance(context.Background(), m.link(), "p", step, stages.Order{Expect: &s.Version})
		won = append(won, err)
	}

	calls, at := 0, rapid.IntRange(0, 1).Draw(m.t, "the other comes before call")
	m.quiet = true
	m.meanwhile = func() {
		if calls++; calls-1 == at {
			promote()
		}
	}

	promote()
	m.meanwhile, m.quiet = m.interfere, false
	if len(won) != 2 || (won[0] == nil) == (won[1] == nil) || !errors.Is(errors.Join(won...), stages.ErrConflict) {
		m.t.Errorf("I6: two promotions at once: %v", won)
	}
	m.look()
}

// rank orders states as they are to be applied.
func rank(s stages.State) [3]float64 {
	return [3]float64{float64(s.Term), float64(s.Seq), -exposure(s)}
}

// look checks every instance.
func (m *fleetModel) look() {
	for _, n := range m.nodes {
		now := *n.Stage.State()
		if before, after := rank(n.applied), rank(now); slices.Compare(after[:], before[:]) < 0 {
			m.t.Errorf("I1: %s went from %s to %s", n.Fleet.ID, n.applied, now)
		}
		n.applied = now
		if now.Stage == stages.Canary && time.Since(n.heardAt) > stages.LeaveCanaryAfter {
			m.mustEnforce(n, "I7: cut off in a canary")
		}
	}

	m.checkMembership()
	m.checkTrail()
}

// hashes are of keys all over the canary's range.
var hashes = []uint64{0, 99, 100, 2500, 4999, 5000, 9999}

func (m *fleetModel) mustEnforce(n *node, when string) {
	for _, hash := range hashes {
		if n.enforced(at(hash)) != algorithms.Authoritative {
			m.t.Errorf("%s: %s enforces the candidate at %s", when, n.Fleet.ID, n.Stage.State())
			return
		}
	}
}

// checkMembership: a key in the canary of one instance is in every larger canary.
func (m *fleetModel) checkMembership() {
	for _, small := range m.nodes {
		for _, large := range m.nodes {
			differs := small.applied.Fingerprint != large.applied.Fingerprint || large.Differs() || small.Differs()
			if exposure(small.applied) > exposure(large.applied) || large.Stage.CutOff() || differs {
				continue
			}
			for _, hash := range hashes {
				if small.enforced(at(hash)) == algorithms.Candidate && large.enforced(at(hash)) == algorithms.Authoritative {
					m.t.Errorf("I5: key %d is in %s and not in %s", hash, small.applied, large.applied)
				}
			}
		}
	}
}

// settle lets the network rest.
func (m *fleetModel) settle() {
	held := m.appliedRollbacks()
	m.quiet = true
	for _, n := range m.nodes {
		n.link.cut = false
	}

	for round := 0; ; round++ {
		before := m.stored()
		m.rest(60)
		if round > 0 && identify(before) == identify(m.stored()) {
			break
		}
		if round > 5 {
			m.t.Fatalf("the fleet does not come to rest: %s", m.stored())
		}
	}

	m.checkRest(held)
	m.checkOrders()
	m.checkEvaluated()
	m.quiet = false
}

// appliedRollbacks returns the rollbacks that some instance has applied.
func (m *fleetModel) appliedRollbacks() (list []*rollback) {
	for _, r := range m.rollbacks {
		if slices.ContainsFunc(m.nodes, func(n *node) bool { return !n.applied.Before(r.state.Version) }) {
			list = append(list, r)
		}
	}
	return list
}

// checkRest checks what must be true once the network has been quiet.
func (m *fleetModel) checkRest(held []*rollback) {
	s := m.stored()
	for _, n := range m.nodes {
		if n.applied.Version != s.Version || exposure(n.applied) != exposure(s) {
			m.t.Errorf("%s has applied %s, the store has %s", n.Fleet.ID, n.applied, s)
		}
	}

	for _, r := range m.rollbacks {
		resumed := slices.ContainsFunc(m.resumed, func(v stages.Version) bool { return v.Term >= r.state.Term })
		for _, n := range m.nodes {
			// Another fingerprint, which an operator may have adopted since, is another migration.
			if slices.Contains(held, r) && !resumed && n.Spec.Fingerprint == r.state.Fingerprint {
				m.mustEnforce(n, "I2: after a rollback that an instance has applied")
			}
		}
	}
}

// The fleet keeps its promises while messages, polls, connections and the last writes of a
// Redis that fails over are lost.
func TestFleetKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newFleetModel(t)
			action := func(do func()) func(*rapid.T) { return func(*rapid.T) { do() } }

			t.Repeat(map[string]func(*rapid.T){
				"":             action(m.look),
				"poll":         action(m.pollOne),
				"poll again":   action(m.pollOne),
				"cut or heal":  action(m.cutOrHeal),
				"fail over":    action(m.failOverNow),
				"promote":      action(m.promote),
				"promoteTwice": action(m.promoteTwice),
				"rollback":     action(m.rollBack),
				"pause":        action(m.pause),
				"resume":       action(m.resume),
				"see":          action(m.see),
				"foresee":      action(m.foresee),
				"control":      action(m.control),
				"settle":       action(m.settle),
				"sleep":        action(m.sleep),
				"press":        action(m.pressOrRelease),
				"reload":       action(m.reload),
				"restart":      action(m.restart),
				"lead":         action(m.leadOne),
				"stop leader":  action(m.stopLeader),
				"harm":         action(m.harm),
				"count":        action(m.count),
				"adopt":        action(m.adopt),
			})

			m.settleAll()
		})
	})
}

// freeze stops an instance in the middle of what it does, while the others go on or are stopped with it.
func (m *fleetModel) freeze() {
	seconds := rapid.IntRange(31, 90).Draw(m.t, "stopped for s")
	if rapid.Bool().Draw(m.t, "all are stopped") {
		time.Sleep(time.Duration(seconds) * time.Second)
		return
	}
	m.rest(seconds)
}

// stopLeader stops an instance while it leads. What it finds may be harm.
func (m *fleetModel) stopLeader() {
	n := m.someNode()
	if rapid.Bool().Draw(m.t, "the candidate does harm") {
		m.within(func(ctx context.Context) {
			_, _ = stages.Resume(ctx, m.link(), "p", stages.Order{Actor: "operator"})
			_, _ = stages.Advance(ctx, m.link(), "p", stages.Step{Stage: stages.Promoted}, stages.Order{Actor: "operator"})
		})
		m.rest(2)
		m.harm()
	}

	n.link.freezesIn = rapid.IntRange(1, 14).Draw(m.t, "stops at call")
	m.alone(n, func(ctx context.Context) { _ = n.Fleet.lead.leadNow(ctx) })
	n.link.freezesIn = 0
}

// harm lets the candidate deny the requests of many clients on each instance that enforces it.
func (m *fleetModel) harm() {
	for _, n := range m.nodes {
		m.alone(n, func(ctx context.Context) {
			for hash := range uint64(60) {
				if n.enforced(at(hash)) == 1 {
					newlyDenied(n.Policy, hash)
				}
			}
			_ = n.Fleet.writer.flush(ctx)
		})
	}
}

// checkEvaluated: the policy is evaluated while its instances reach the store, and one of them leads.
func (m *fleetModel) checkEvaluated() {
	leaders := 0
	for _, n := range m.nodes {
		if n.Fleet.Leads() {
			leaders++
		}
		if a := n.assessment.Load(); m.stored().Stage != "" && !n.Differs() && (a == nil || time.Since(a.At) > 30*time.Second) {
			m.t.Errorf("I11: %s has no evaluation of the last half minute", n.Fleet.ID)
		}
	}
	if leaders != 1 {
		m.t.Errorf("I11: %d instances lead", leaders)
	}
}

// at is where a key of this hash stands that has no place of its own.
func at(hash uint64) evidence.Position { return evidence.Position{Hash: hash} }
