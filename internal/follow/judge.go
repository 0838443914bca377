package follow

import (
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Answer is what the log says that the other program's limiter has done with a request.
type Answer uint8

// The zero value is a line that does not say it.
const (
	Unknown Answer = iota
	Allowed
	Denied
)

// Check is what a line charges by one policy.
type Check struct {
	Policy   int // of Config.Policies
	Key      string
	Cost     int64
	Limit    algorithms.Limit // of the candidate
	Expected algorithms.Expected
}

// mostKeys bounds the keys that all candidates remember together. A key of more is judged as if it were new, and that is no evidence.
const mostKeys = algorithms.DefaultMaxKeys

// judge has the candidates and their memory. A pair in memory would do, but this one is kept over the end of the process.
type judge struct {
	policies []*judged
	keys     int
	swept    int64 // the instant of the last sweep
}

// judged is one policy.
type judged struct {
	algorithm algorithms.Algorithm
	recorder  *evidence.Recorder
	hash      evidence.KeyHash
	setting   evidence.Setting // but for what each check has of its own
	protected map[string]bool
	states    map[string]kept
}

// kept is what a candidate remembers of a key.
type kept struct {
	State algorithms.State
	Idle  int64 // the instant from which on it is as if the key had never been used
}

func newJudged(service string, p *policies.Policy, recorder *evidence.Recorder, window time.Duration) *judged {
	a, c := p.Sides[algorithms.Authoritative], p.Sides[algorithms.Candidate]
	j := &judged{
		algorithm: c.Algorithm, recorder: recorder, hash: evidence.NewKeyHash(service, p.Name),
		protected: map[string]bool{}, states: map[string]kept{},
		setting: evidence.Setting{First: a.None(), Window: window},
	}
	j.setting.Shapes[algorithms.Candidate] = algorithms.TraitsOf(c.Algorithm).Shape
	j.setting.Limits[algorithms.Authoritative] = a.Usual()
	for _, key := range p.Promotion.Protect {
		j.protected[key] = true
	}
	return j
}

// check judges a check at the instant of its line, and counts it unless that is too long ago for the ledger.
func (j *judge) check(at int64, answer Answer, c *Check, counts bool) {
	p := j.policies[c.Policy]
	when := time.UnixMicro(at)
	var o [2]algorithms.Observation
	a := &o[algorithms.Authoritative]
	switch {
	case p.setting.First:
		*a = algorithms.Observation{Status: algorithms.Judged, At: when, Decision: algorithms.Decision{Allowed: true, Remaining: -1}}
	case answer == Unknown:
		*a = algorithms.Skip(algorithms.OtherReason)
	default:
		*a = algorithms.Observation{Status: algorithms.Judged, At: when, Decision: algorithms.Decision{Allowed: answer == Allowed}}
	}
	j.step(p, at, c, &o[algorithms.Candidate])
	if !counts {
		return
	}

	setting := p.setting
	setting.Cost, setting.Expected, setting.Protected = c.Cost, c.Expected, p.protected[c.Key]
	setting.Limits[algorithms.Candidate] = c.Limit
	p.recorder.Observe(c.Key, p.hash.Of(c.Key), when, &o, &setting)
}

// step judges the candidate, by the rule of a pair: what does not count leaves no trace.
func (j *judge) step(p *judged, at int64, c *Check, o *algorithms.Observation) {
	before, known := p.states[c.Key]
	next, d, err := p.algorithm.Step(before.State, &c.Limit, c.Cost, at)
	o.Status, o.At, o.Decision = algorithms.Judged, time.UnixMicro(at), d
	if err != nil {
		o.Status, o.Err = algorithms.Failed, err
		return
	}

	// A state that lay ahead was moved, whatever the answer.
	if !(c.Cost > 0 && d.Allowed) && next.Last >= before.State.Last {
		return
	}
	if !known {
		if j.keys >= mostKeys {
			j.sweep(at)
		}
		if j.keys >= mostKeys {
			o.Degraded = true
			return
		}
		j.keys++
	}
	key := c.Key
	if !known {
		key = strings.Clone(key) // it may share the memory of a line
	}
	p.states[key] = kept{next, at + d.ResetAfter.Microseconds() + 1}
}

// sweep forgets the keys that are as if they had never been used. It is about as much work as a second of lines.
func (j *judge) sweep(at int64) {
	const every, late = int64(time.Second / time.Microsecond), int64(time.Minute / time.Microsecond)
	if at-j.swept < every && at >= j.swept {
		return
	}
	j.swept = at
	for _, p := range j.policies {
		for key, k := range p.states {
			if k.Idle+late <= at { // a line may come late
				delete(p.states, key)
				j.keys--
			}
		}
	}
}
