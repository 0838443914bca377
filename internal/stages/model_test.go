package stages

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An explicit-state model of "which configuration holds": one policy, up to four places for instances, a
// Redis with a replica, operators. It runs the rules that are shipped, breadth first, so that a trace that it finds is the
// shortest. One round is 15 s: each instance that reaches Redis sends one heartbeat, in one of two orders, and the
// leader looks. After every state the model lets all heal, waits for 16 rounds, and checks where the fleet rests.

const places = 4

// round is as long as a leader's gap may be, so one missed round is one.
const roundTime = watchGap

// modelInstance is one instance, as far as states go.
type modelInstance struct {
	up, cut, idle bool
	fingerprint   string
	generation    int64
	off           int // rounds without the store
	served        int // rounds with a heartbeat since the start or since it decides requests
	press         Press
	pressed       bool
	applied       State
}

// modelRedis is what a failover takes back.
type modelRedis struct {
	state      State
	heartbeats [places]member
	leader     int // 1 + its place; 0: nobody has the lease
	lease      int // rounds since it was extended
}

// world is a state of the model, and what its checks have to remember.
type world struct {
	away          bool
	redis, mirror modelRedis
	in            [places]modelInstance
	round         int
	watch         watch
	watcher       int   // place of the leader that watches
	read          State // what the leader's gate has judged

	begun, rollbacks int64 // the clocks of evidence and of terms: equal worlds must look alike
	left             int   // disturbances to come

	rolled       set   // rolled back, and not resumed since
	term         int64 // of the last rollback: one that a failover loses unseen is answered with status 5
	acknowledged set   // rolled back, and seen so by an instance
	ordered      set   // the red button was pressed
	completed    set
	lost         bool // A's promotion was ended by a person, or by the loss of all data
	loss         bool // Redis has lost data, by FLUSHALL or a failover
	adopted      string
	adoptedAt    int64 // the largest generation alive then
	bare         bool  // a rollback, and no promotion since
	late         bool  // the gate's move met another state than it had judged
}

// set is a set of fingerprints, each one letter.
type set uint8

func bit(f string) set {
	if f == "" {
		return 0
	}
	return 1 << (f[0] - 'A')
}

func (s set) has(f string) bool { return s&bit(f) != 0 }

func (w *world) now() time.Time      { return time.Unix(1e6, 0).Add(time.Duration(w.round) * roundTime) }
func (w *world) evidence() time.Time { return time.Unix(w.begun, 0) }
func (w *world) seconds() time.Time  { return time.Unix(2+w.rollbacks, 0) }

// key names worlds that behave alike: instants become ages.
func (w *world) key() string {
	b := make([]byte, 0, 256)
	flags := func(list ...bool) {
		for _, f := range list {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	number := func(list ...int64) {
		for _, n := range list {
			b = binary.AppendVarint(b, n)
		}
	}
	age := func(t time.Time) {
		if t.IsZero() {
			number(-1)
		} else {
			number(min(4, int64(w.now().Sub(t)/roundTime)))
		}
	}
	state := func(s *State) {
		number(s.Term, s.Seq, int64(slices.Index(Stages[:], s.Stage)), int64(bit(s.Fingerprint)), s.Since.Unix(), s.Generation, int64(len(s.Past)))
		for _, p := range s.Past {
			number(int64(bit(p.Fingerprint)), int64(slices.Index(Stages[:], p.Stage)), p.Since.Unix(), p.Term)
		}
	}
	redis := func(r *modelRedis) {
		state(&r.state)
		number(int64(r.leader), int64(min(r.lease, 3)))
		for i := range r.heartbeats {
			m := &r.heartbeats[i]
			flags(m.idle)
			number(int64(bit(m.fingerprint)), m.generation)
			age(m.at)
		}
	}

	flags(w.away, w.lost, w.loss, w.bare, w.late)
	redis(&w.redis)
	redis(&w.mirror)
	for i := range w.in {
		n := &w.in[i]
		flags(n.up, n.cut, n.idle, n.pressed)
		number(int64(bit(n.fingerprint)), n.generation, int64(n.off), int64(n.served), int64(bit(n.press.Fingerprint)), n.press.Term)
		state(&n.applied)
	}
	number(int64(w.watcher), int64(bit(w.watch.stored)))
	age(w.watch.at)
	age(w.watch.held)
	for _, s := range w.watch.seen {
		number(int64(s.id[0]), int64(bit(s.fingerprint)))
		age(s.at)
		age(s.heard)
		age(s.since)
	}
	state(&w.read)
	number(w.begun, w.rollbacks, int64(w.left), w.term, int64(w.rolled), int64(w.acknowledged), int64(w.ordered), int64(w.completed), int64(bit(w.adopted)), w.adoptedAt)
	return string(b)
}

// finding is something that must not be; a finding of a moment is checked right then, the others at rest.
type finding struct{ law, what string }

// wait lets one round pass.
func (w *world) wait(backwards bool) (found []finding) {
	for k := range places {
		if backwards {
			k = places - 1 - k
		}
		if n := &w.in[k]; n.up && !n.cut && !w.away {
			found = append(found, w.heartbeat(k)...)
		}
	}
	w.round++
	w.redis.lease = min(w.redis.lease+1, 3)
	for i := range w.in {
		if w.in[i].up {
			w.in[i].off = min(w.in[i].off+1, 3)
		}
	}
	w.note()
	return found
}

// heartbeat is what an instance does with its heartbeat.
func (w *world) heartbeat(i int) (found []finding) {
	n, r := &w.in[i], &w.redis
	if n.applied.Stage != "" && n.applied.Supersedes(r.state) {
		r.state = n.applied
	}
	if n.pressed && r.state.Stage != "" {
		if n.press.Void(&r.state) {
			n.pressed, w.ordered = false, w.ordered&^bit(n.fingerprint)
		} else if next, changed := pressed(r.state, n.press, Order{}, w.seconds()); changed {
			if next.Term != r.state.Term {
				w.rolledBack(next)
			}
			r.state = next
			w.lost = w.lost || n.fingerprint == "A"
		}
	}
	if r.state.Stage == "" {
		w.begun++
		r.state = first(n.fingerprint, n.generation, Order{}, w.evidence())
	}
	if !n.idle {
		n.served = min(n.served+1, 4)
	}
	r.heartbeats[i] = member{id: fmt.Sprint(i), fingerprint: n.fingerprint, generation: n.generation, idle: n.idle, at: w.now()}
	found = w.lead(i)

	if !n.applied.Supersedes(r.state) {
		n.applied = r.state
	}
	n.off = 0
	if n.applied.Stage == RolledBack && n.applied.Term >= w.term {
		w.acknowledged |= bit(n.applied.Fingerprint) & w.rolled
	}
	if !w.enforces(n) {
		if !n.pressed && w.completed.has(n.fingerprint) && r.state.Of(n.fingerprint) != RolledBack {
			found = append(found, finding{"completed", fmt.Sprintf("%d enforces the retired authoritative of %s", i, n.fingerprint)})
		}
		return found
	}
	if stage := r.state.Of(n.fingerprint); stage != Completed && !(r.state.Fingerprint == n.fingerprint && stage.Exposed()) {
		found = append(found, finding{"named", fmt.Sprintf("%d enforces %s, which %s does not name", i, n.fingerprint, r.state)})
	}
	return found
}

// rolledBack notes a rollback.
func (w *world) rolledBack(next State) {
	w.rollbacks++
	w.rolled |= bit(next.Fingerprint)
	w.term, w.bare, w.lost = next.Term, true, true
	w.completed &^= bit(next.Fingerprint)
}

func (w *world) enforces(n *modelInstance) bool {
	switch {
	case n.pressed:
		return false
	case n.applied.Fingerprint == n.fingerprint:
		return n.applied.Stage == Promoted || n.applied.Stage == Completed || n.applied.Stage == Canary && n.off < 2
	}
	return n.applied.Of(n.fingerprint) == Completed
}

// lead has an instance look as the leader, if it has the lease or gets it.
func (w *world) lead(i int) (found []finding) {
	r := &w.redis
	if r.leader == 0 || r.lease >= 2 {
		r.leader = i + 1
	}
	if r.leader != i+1 {
		return nil
	}
	r.lease = 0
	if w.watcher != r.leader {
		w.watcher, w.watch = r.leader, watch{}
	}

	var members []member
	for _, m := range r.heartbeats {
		if m.id != "" && w.now().Sub(m.at) <= SilentFor {
			members = append(members, m)
		}
	}
	next, moves := w.watch.look(w.now(), &r.state, members)
	if !moves {
		return nil
	}
	if next.fingerprint == r.state.Fingerprint {
		r.state = following(r.state, Order{}, w.now())
		r.state.Generation = next.generation
		return nil
	}

	if next.generation <= r.state.Generation || next.generation > w.adoptedAt {
		w.adopted = ""
	}
	for k := range w.in {
		n := &w.in[k]
		if !n.up || n.cut || n.fingerprint != r.state.Fingerprint || n.idle {
			continue
		}
		if next.generation <= r.state.Generation && n.served > 1 && n.off < 2 {
			found = append(found, finding{"heard", fmt.Sprintf("%s takes over from %s, which %d serves", next.fingerprint, r.state, k)})
		}
		if next.generation > r.state.Generation && n.served > 3 && n.generation >= next.generation {
			found = append(found, finding{"larger", fmt.Sprintf("%s takes over from a generation as large on %d", next.fingerprint, k)})
		}
	}
	w.begun++
	r.state = replacedBy(r.state, next.fingerprint, next.generation, Order{}, w.evidence())
	return found
}

// note forgets in the checks what was lost with the data and with all who knew it: no rule can bring that back.
func (w *world) note() {
	if !w.loss {
		return
	}
	knows := func(f string, stage Stage) bool {
		return w.redis.state.Of(f) == stage ||
			slices.ContainsFunc(w.in[:], func(n modelInstance) bool { return n.up && n.applied.Of(f) == stage })
	}
	w.lost = w.lost || !knows("A", Promoted)
	for _, f := range []string{"A", "B", "C"} {
		waits := slices.ContainsFunc(w.in[:], func(n modelInstance) bool { return n.up && n.pressed && n.fingerprint == f })
		if !knows(f, RolledBack) {
			w.acknowledged &^= bit(f)
			if !waits {
				w.ordered &^= bit(f)
			}
		}
		if !knows(f, Completed) {
			w.completed &^= bit(f)
		}
	}
}

// rest heals everything, waits, and checks where the fleet rests.
func (w world) rest() (found []finding) {
	w.away = false
	for i := range w.in {
		w.in[i].cut = false
	}
	bare := w.bare && !w.loss
	w.loss = false // what is forgotten from here on, a rule forgets

	const rounds = 16
	changed, before := 0, w.redis.state
	for k := range rounds {
		for _, f := range w.wait(k%2 == 1) {
			if f.law == "completed" || f.law == "named" {
				found = append(found, f)
			}
		}
		if w.redis.state.compare(before) != 0 {
			changed, before = k, w.redis.state
		}
	}
	return append(found, w.checkRest(changed < rounds-4, bare)...)
}

// checkRest checks a fleet that has been calm for long.
func (w *world) checkRest(rests, bare bool) (found []finding) {
	s := w.redis.state
	var serving, newest set
	best := int64(-1)
	for _, n := range w.in {
		if n.up && !n.idle {
			serving |= bit(n.fingerprint)
			if n.generation > best {
				best, newest = n.generation, 0
			}
			if n.generation == best {
				newest |= bit(n.fingerprint)
			}
		}
	}
	if serving == 0 {
		return nil
	}

	one := serving&(serving-1) == 0
	check := func(law string, holds bool) {
		if !holds {
			found = append(found, finding{law, fmt.Sprintf("at rest with %s of %s, generation %d;%s", s, s.Fingerprint, s.Generation, w.who())})
		}
	}
	check("rest", rests)
	check("judged", !w.late)
	switch {
	case w.adopted != "" && serving.has(w.adopted) && !(one && serving.has(s.Fingerprint)):
		check("adopted", s.Fingerprint == w.adopted)
	case !serving.has(s.Fingerprint):
		check("served", false)
	case !newest.has(s.Fingerprint):
		check("generation", best <= s.Generation)
	}
	check("rolled back", !w.acknowledged.has(s.Fingerprint) || !s.Exposed())
	check("rolled back, in shadow", !w.acknowledged.has(s.Fingerprint) || s.Stage == RolledBack || s.Exposed())
	check("button", !w.ordered.has(s.Fingerprint) || !s.Exposed())
	check("bare", !bare || !s.Exposed())
	check("promotion", w.lost || serving != bit("A") || s.Fingerprint == "A" && s.Stage == Promoted)
	check("promotion beside others", w.lost || serving == bit("A") || s.Fingerprint != "A" || s.Stage == Promoted)
	for _, n := range w.in {
		check("applied", !n.up || n.applied.compare(s) == 0)
	}
	return found
}

func (w *world) who() (text string) {
	for i, n := range w.in {
		if n.up {
			text += fmt.Sprintf(" %d runs %s%d", i, n.fingerprint, n.generation)
		}
		if n.up && n.idle {
			text += " idle"
		}
	}
	return text
}

// act is something that happens. Those without a cost heal, or are the replica's.
type act struct {
	name string
	do   func(*world) bool
	cost int
}

// start starts an instance in a place: a letter, and a digit for its generation. A small letter is idle.
func start(i int, file string, disk bool) act {
	name := fmt.Sprintf("%d starts %s", i, file)
	if disk {
		name += " with its disk"
	}
	f, g, idle := parseFile(file)
	return act{name, func(w *world) bool {
		n := &w.in[i]
		if n.up && n.fingerprint == f && n.generation == g && n.idle == idle && !w.loss && !w.away {
			return false
		}
		if n.pressed {
			w.ordered &^= bit(n.fingerprint)
		}
		next := modelInstance{up: true, cut: n.cut, idle: idle, fingerprint: f, generation: g, off: 2}
		if disk {
			next.applied = n.applied
		}
		// Another process has another id, which the leader has never seen.
		w.watch.seen = slices.DeleteFunc(slices.Clone(w.watch.seen), func(s seen) bool { return s.id == fmt.Sprint(i) })
		if w.watcher == i+1 {
			w.watcher, w.watch = 0, watch{}
			if w.redis.leader == i+1 && !w.away {
				w.redis.leader = 0
			}
		}
		*n = next
		return true
	}, 1}
}

func parseFile(file string) (fingerprint string, generation int64, idle bool) {
	if len(file) > 1 {
		generation = int64(file[1] - '0')
	}
	return strings.ToUpper(file[:1]), generation, file[0] >= 'a'
}

func end(i int) act {
	return act{fmt.Sprintf("%d ends", i), func(w *world) bool {
		n := &w.in[i]
		if !n.up {
			return false
		}
		if n.pressed {
			w.ordered &^= bit(n.fingerprint)
		}
		*n = modelInstance{applied: n.applied}
		return true
	}, 1}
}

func cuts(list ...int) (acts []act) {
	for _, i := range list {
		acts = append(acts, act{fmt.Sprintf("cut %d", i), func(w *world) bool {
			was := w.in[i].cut
			w.in[i].cut = true
			return w.in[i].up && !was
		}, 1}, act{fmt.Sprintf("heal %d", i), func(w *world) bool {
			was := w.in[i].cut
			w.in[i].cut = false
			return was
		}, 0})
	}
	return acts
}

func button(i int) act {
	return act{fmt.Sprintf("press %d", i), func(w *world) bool {
		n := &w.in[i]
		if !n.up || n.pressed {
			return false
		}
		n.pressed, n.press = true, Press{n.fingerprint, max(n.applied.Term, 1)}
		w.ordered |= bit(n.fingerprint)
		w.lost = w.lost || n.fingerprint == "A"
		return true
	}, 1}
}

// disasters are what may happen to Redis.
func disasters(names ...string) []act {
	return some(map[string]act{
		"FLUSHALL": {"FLUSHALL", func(w *world) bool {
			ok := !w.away && w.redis.state.Stage != ""
			w.redis, w.loss = modelRedis{}, true
			return ok
		}, 1},
		"mirror": {"the replica stops following", func(w *world) bool {
			ok := w.redis.state.compare(w.mirror.state) != 0 || w.redis.heartbeats != w.mirror.heartbeats
			w.mirror = w.redis
			return ok
		}, 0},
		"failover": {"failover to the replica", func(w *world) bool {
			ok := w.redis.state.compare(w.mirror.state) != 0
			w.redis, w.loss = w.mirror, true
			return ok
		}, 1},
		"away": {"Redis away", func(w *world) bool { was := w.away; w.away = true; return !was }, 1},
		"back": {"Redis back", func(w *world) bool { was := w.away; w.away = false; return was }, 0},
	}, names)
}

func some(all map[string]act, names []string) (acts []act) {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(all))
	}
	for _, name := range names {
		acts = append(acts, all[name])
	}
	return acts
}

// forward takes the next step of the stored state.
func (w *world) forward() {
	s := &w.redis.state
	step, _ := s.Next([]float64{1})
	*s = following(*s, Order{}, w.now())
	s.Stage, s.Percent, w.bare = step.Stage, step.Percent, false
}

// persons are the orders of operators, and of the leader's gate.
func persons(names ...string) []act {
	open := func(w *world) bool {
		s := w.redis.state.Stage
		return !w.away && (s == Shadow || s == Canary)
	}
	return some(map[string]act{
		"rollback": {"rollback", func(w *world) bool {
			s := w.redis.state
			if w.away || s.Stage == RolledBack || s.Stage == "" {
				return false
			}
			w.redis.state = rolledBack(s, Order{}, w.seconds())
			w.rolledBack(w.redis.state)
			return true
		}, 1},
		"resume": {"resume", func(w *world) bool {
			s := w.redis.state
			pressed := func(n modelInstance) bool { return n.up && !n.cut && n.pressed }
			if w.away || s.Stage != RolledBack || slices.ContainsFunc(w.in[:], pressed) {
				return false
			}
			w.begun++
			w.redis.state = resumed(s, Order{}, w.evidence())
			w.rolled &^= bit(s.Fingerprint)
			w.acknowledged &^= bit(s.Fingerprint)
			w.ordered &^= bit(s.Fingerprint)
			return true
		}, 1},
		"promote": {"promote", func(w *world) bool {
			if !open(w) {
				return false
			}
			w.forward()
			return true
		}, 1},
		"complete": {"complete", func(w *world) bool {
			s := w.redis.state
			if w.away || s.Stage != Promoted {
				return false
			}
			w.redis.state = following(s, Order{}, w.now())
			w.redis.state.Stage = Completed
			w.completed |= bit(s.Fingerprint)
			w.lost = true
			return true
		}, 1},
		"judge": {"the leader judges", func(w *world) bool {
			ok := open(w) && w.redis.state.compare(w.read) != 0
			w.read = w.redis.state
			return ok
		}, 0},
		"move": {"the leader moves", func(w *world) bool {
			if !open(w) || w.read.Stage == "" || !w.read.is(w.redis.state) {
				return false
			}
			w.late = w.late || w.read.Fingerprint != w.redis.state.Fingerprint
			w.forward()
			return true
		}, 1},
	}, names)
}

func adopt(f string) act {
	return act{"adopt " + f, func(w *world) bool {
		s, live, top := w.redis.state, false, w.redis.state.Generation
		for _, n := range w.in {
			if n.up && !n.cut {
				live, top = live || n.fingerprint == f, max(top, n.generation)
			}
		}
		if w.away || s.Stage == "" || s.Fingerprint == f || !live {
			return false
		}
		w.begun++
		w.redis.state = replacedBy(s, f, top, Order{}, w.evidence())
		w.adopted, w.adoptedAt = f, top
		return true
	}, 1}
}

// fleetOf is a world at rest: letters with generations, "." for a free place, and what is stored.
func fleetOf(files, stored string, stage Stage) world {
	seq := map[Stage]int64{Shadow: 1, Canary: 2, Promoted: 4, Completed: 5, RolledBack: 1}[stage]
	w := world{begun: 1, lost: stage != Promoted || stored != "A"}
	if stage == Completed {
		w.completed = bit(stored)
	}
	s := State{Version: Version{1, seq}, Stage: stage, Fingerprint: stored, Since: w.evidence()}
	if stage == Canary {
		s.Percent = 1
	}
	for i, file := range strings.Fields(files) {
		if file == "." {
			continue
		}
		f, g, idle := parseFile(file)
		w.in[i] = modelInstance{up: true, idle: idle, fingerprint: f, generation: g, served: 4}
		if f == stored {
			s.Generation = max(s.Generation, g)
		}
	}
	w.redis.state = s
	for i := range w.in {
		if w.in[i].up {
			w.in[i].applied = s
		}
	}
	w.mirror = w.redis
	return w
}
