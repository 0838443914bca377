package limitertest

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// NewExchange is the specification of a store's exchange.
func NewExchange() Exchange {
	x := &exchanged{map[string]sharedRecord{}, map[int]int64{}}
	return x.exchange
}

// exchanged is the fleet's store of synchronized records.
type exchanged struct {
	records map[string]sharedRecord
	notes   map[int]int64 // last exchange by process
}

// sharedRecord is a state and the mark of its writer.
type sharedRecord struct {
	mark  string
	state algorithms.State
}

// exchange is the specification of lua/exchange.lua.
func (x *exchanged) exchange(process int, number int64, changes []algorithms.Change) (joint []algorithms.Joint) {
	if x.notes[process] > number {
		return nil // it comes late, and has been sent again since
	}
	again := x.notes[process] == number
	x.notes[process] = number
	mark := func(n int64) string { return fmt.Sprint(process, ".", n) }

	for i := range changes {
		c := &changes[i]
		key := c.Policy + ":" + c.Key + ":" + c.Side.Name()
		r, there := x.records[key]

		switch {
		// An exchange that is sent again is charged once. The record may have changed since its first arrival.
		case again && (!there || r == sharedRecord{mark(number), c.State}):
			joint = append(joint, algorithms.Joint{Ours: true})
		case again:
			joint = append(joint, algorithms.Joint{State: r.state})

		// Without another writer the state of the process stands, digit for digit.
		case !there || c.Base != 0 && r.mark == mark(c.Base):
			x.records[key] = sharedRecord{mark(number), c.State}
			joint = append(joint, algorithms.Joint{Ours: true})

		// With one, its consumption is charged, whether or not the record would have admitted it.
		default:
			s := c.Debit(r.state)
			x.records[key] = sharedRecord{mark(number), s}
			joint = append(joint, algorithms.Joint{State: s})
		}
	}
	return joint
}

// process is one instance of a simulated fleet.
type process struct {
	memory  *algorithms.Memory
	number  int64
	flight  []algorithms.Change // collected and not joined
	reply   []algorithms.Joint  // of the flight, on its way
	total   int64               // units admitted
	at, was int64               // total at the last collection and at the one before
	told    int64               // of total, what an exchange has carried to the store
	span    int64               // most units between a collection and the reply to the next one
	landed  []message           // what the network may deliver once more
}

// message is an exchange that was sent.
type message struct {
	number  int64
	changes []algorithms.Change
}

// newProcess returns a process that has admitted nothing, with no bound on its keys: the laws are exact.
func newProcess() *process {
	return &process{memory: algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1, Synchronized: true})}
}

// collect takes the changes off the memory, for the next exchange.
func (p *process) collect() {
	if p.flight != nil {
		return // the flight before has not landed: it is sent again
	}
	p.flight, _ = p.memory.Changed(64)
	p.number++
	p.was, p.at = p.at, p.total
}

// send has the store make the exchange in flight. The answer is on its way then, and may be lost.
func (p *process) send(id int, x Exchange) {
	if p.flight != nil {
		p.reply = x(id, p.number, p.flight)
		p.told = p.at
	}
}

// late has the network deliver an exchange once more whose answer has come, by this way or a later one.
func (p *process) late(t *rapid.T, id int, x Exchange) {
	if len(p.landed) > 0 {
		m := rapid.SampledFrom(p.landed).Draw(t, "message")
		x(id, m.number, m.changes)
	}
}

// receive takes over an answer that has come.
func (p *process) receive() {
	if p.reply == nil {
		return
	}

	// The bound is by the most that a process admits in such a span.
	p.span = max(p.span, p.total-p.was)
	p.memory.Join(p.flight, p.reply, p.number)
	p.landed = append(p.landed, message{p.number, p.flight})
	p.flight, p.reply = nil, nil
}

// sync is an exchange on which nothing is lost.
func (p *process) sync(id int, x Exchange) {
	p.collect()
	p.send(id, x)
	p.receive()
}

// synchronizable are sides of each algorithm that can be exchanged, and so of each shape. Synchronized finds one that is missing.
// Their numbers are small, so that programs reach the limit, and those of GCRA do not divide each other: its rounding then
// shows in every exchange, and not in none.
var synchronizable = []algorithms.Side{
	{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 40, Window: time.Second}},
	{Algorithm: algorithms.FixedWindowAnchored{}, Limit: algorithms.Limit{Requests: 40, Window: time.Second}},
	{Algorithm: algorithms.SlidingWindowCounter{}, Limit: algorithms.Limit{Requests: 40, Window: time.Second}},
	{Algorithm: algorithms.TokenBucket{}, Limit: algorithms.Limit{Requests: 40, Window: time.Second, Burst: 10}},
	{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 37, Window: time.Second, Burst: 9}},
	{Algorithm: algorithms.LeakyBucket{}, Limit: algorithms.Limit{Requests: 40, Window: time.Second, Burst: 10}},
}

// checkAt charges one key at an instant.
func checkAt(m *algorithms.Memory, at int64, cost int64, sides ...algorithms.Side) [2]algorithms.Observation {
	c := algorithms.Check{Policy: "p", Key: "k", Cost: cost, At: time.UnixMicro(at)}
	copy(c.Sides[:], sides)
	var into [1][2]algorithms.Observation
	if err := m.Evaluate(context.Background(), []algorithms.Check{c}, into[:]); err != nil {
		panic(err)
	}
	return into[0]
}

// epochMicros is the instant at which programs begin, in microseconds: the begin of a window of a second.
const epochMicros = 1_700_000_000_000_000
