package algorithms_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// stores are twins, fixed windows of 2 charges in 6 ticks, in one store or in two. What the second store has had is
// remembered, so that it can be put back to what it once was.
type stores struct {
	t        *testing.T
	one      bool
	lead     *algorithms.Memory
	other    *algorithms.Memory
	had      []algorithms.Charge
	saved    int
	now      time.Time
	compared int
	differed bool
}

// step is an operation of a program.
type step struct {
	name string
	do   func(*stores)
}

var missed = map[string]struct {
	one   bool // in one record; else in two stores
	steps []step
}{
	"nothing follows the request":     {false, []step{{"crash", func(s *stores) { s.ask(1) }}}},
	"another epoch charges the lead":  {false, []step{{"other epoch", func(s *stores) { s.ask(2) }}}},
	"a plain policy charges the lead": {false, []step{{"plain", func(s *stores) { s.ask(0) }}}},
	"the other store is emptied":      {false, []step{{"empty", func(s *stores) { s.restore(0) }}}},
	"the other store is put back": {false, []step{
		{"restore", func(s *stores) { s.restore(s.saved) }},
		{"save", func(s *stores) { s.saved = len(s.had) }},
	}},
	"two requests overtake each other":         {false, []step{{"race", func(s *stores) { s.race(true) }}}},
	"one that overtakes is not waited for":     {false, []step{{"race", func(s *stores) { s.race(false) }}}},
	"the limit changes under one id":           {false, []step{{"other limit", func(s *stores) { s.changed() }}}},
	"in one record: a side is left out":        {true, []step{{"left out", func(s *stores) { s.ask(1) }}}},
	"in one record: another epoch":             {true, []step{{"other epoch", func(s *stores) { s.ask(2) }}}},
	"in one record: a plain policy leaves out": {true, []step{{"plain", func(s *stores) { s.ask(0) }}}},
	"in one record: the limit changes":         {true, []step{{"other limit", func(s *stores) { s.changed() }}}},
	"in one record: a third side comes":        {true, []step{{"third", func(s *stores) { s.third() }}}},
	"in one record: a side follows":            {true, []step{{"follows", func(s *stores) { s.inTwo() }}}},
}

// TestNoProgramCountsWhatWasMissed runs every program of requests and ticks with one disturbance, up to 7 operations,
// and finds those in which twins differ and the difference is counted.
func TestNoProgramCountsWhatWasMissed(t *testing.T) {
	for name, tt := range missed {
		t.Run(name, func(t *testing.T) {
			alphabet := append([]step{
				{"request", (*stores).request},
				{"tick", func(s *stores) { s.now = s.now.Add(time.Second) }},
			}, tt.steps...)

			compared := 0
			programs(alphabet, 7, func(program []step) {
				s := &stores{t: t, one: tt.one, now: time.Unix(1_700_000_100, 0)}
				s.lead = algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
				s.restore(0)
				for _, op := range program {
					op.do(s)
				}

				compared += s.compared
				if s.differed {
					t.Fatalf("a difference is counted: %s", describeProgram(program))
				}
			})
			if compared == 0 {
				t.Error("no comparison is counted at all")
			}
		})
	}
}

// programs calls with every sequence of operations in which the third of the alphabet stands once.
func programs(alphabet []step, most int, call func([]step)) {
	for length := 1; length <= most; length++ {
		index := make([]int, length)
		program := make([]step, length)
		for {
			once := 0
			for i, k := range index {
				program[i] = alphabet[k]
				if k == 2 {
					once++
				}
			}
			if once == 1 {
				call(program)
			}

			i := 0
			for i < length && index[i] == len(alphabet)-1 {
				index[i] = 0
				i++
			}
			if i == length {
				break
			}
			index[i]++
		}
	}
}

func describeProgram(program []step) string {
	var names []string
	for _, op := range program {
		names = append(names, op.name)
	}
	return strings.Join(names, "; ")
}

var window = algorithms.Limit{Requests: 2, Window: 6 * time.Second}

// charge is one of both sides.
func (s *stores) charge(epoch uint16) algorithms.Charge {
	return algorithms.Charge{Key: "k", Cost: 1, At: s.now, Epoch: epoch, Sides: [2]algorithms.Side{
		{ID: "a", Algorithm: algorithms.FixedWindow{}, Limit: window},
		{ID: "b", Algorithm: algorithms.FixedWindow{}, Limit: window},
	}}
}

// ask charges the leading side alone and returns the charge as the other side has to follow it.
func (s *stores) ask(epoch uint16) (algorithms.Charge, algorithms.Observation) {
	c := s.charge(epoch)
	c.Sides[1] = algorithms.Side{}
	o := one(s.t, s.lead, c)[0]

	next := s.charge(epoch)
	next.Sides[0] = algorithms.Side{}
	next.Lead = algorithms.Lead{Number: o.Number, Unused: o.Unused, Counted: o.Decision.Allowed}
	return next, o
}

// follow charges the other side and reports whether it has judged.
func (s *stores) follow(c algorithms.Charge, lead algorithms.Observation) bool {
	store := s.other
	if s.one {
		store = s.lead
	}

	o := one(s.t, store, c)[1]
	if o.Status == algorithms.Deferred {
		return false
	}
	s.had = append(s.had, c)
	s.compare(lead, o)
	return true
}

// compare counts a comparison of which neither side is apart.
func (s *stores) compare(a, b algorithms.Observation) {
	for _, o := range []algorithms.Observation{a, b} {
		if o.Apart != 0 && s.now.UnixMicro() < algorithms.Forgotten(algorithms.AlignedWindow, window, o.Apart) {
			return
		}
	}

	s.compared++
	s.differed = s.differed || a.Decision != b.Decision
}

func (s *stores) request() {
	if s.one {
		o := one(s.t, s.lead, s.charge(1))
		s.compare(o[0], o[1])
		return
	}
	s.inTwo()
}

// inTwo is a request whose other side follows.
func (s *stores) inTwo() {
	c, o := s.ask(1)
	s.follow(c, o)
}

// race has the second of two requests arrive first at the other side.
func (s *stores) race(patient bool) {
	first, firstLead := s.ask(1)
	second, secondLead := s.ask(1)

	second.Lead.Patient = patient
	judged := s.follow(second, secondLead)
	s.follow(first, firstLead)
	if !judged && !s.follow(second, secondLead) {
		s.t.Fatal("a side in step is left unjudged")
	}
}

// changed is a request in which the other side has another limit, and therefore the pair another epoch.
func (s *stores) changed() {
	if s.one {
		c := s.charge(2)
		c.Sides[1].Limit.Requests = 1
		one(s.t, s.lead, c)
		return
	}

	c, _ := s.ask(2)
	c.Sides[1].Limit.Requests = 1
	one(s.t, s.other, c)
	s.had = append(s.had, c)
}

// third is a request of an instance with another candidate, whose part takes the other one's room.
func (s *stores) third() {
	c := s.charge(2)
	c.Sides[1].ID = "c"
	one(s.t, s.lead, c)
}

// restore puts the other store back to what it was after some of its charges.
func (s *stores) restore(had int) {
	s.other = algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	s.had = slices.Clone(s.had[:had])
	for _, c := range s.had {
		one(s.t, s.other, c)
	}
}

// TestAlwaysDenyingSideIsCompared holds that a side which has never admitted anything is not taken for one that has lost
// its part.
func TestAlwaysDenyingSideIsCompared(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	for i := range 1000 {
		o := one(t, m, algorithms.Charge{Key: "k", Cost: 10, Epoch: 1, At: noon.Add(time.Duration(i) * time.Second),
			Sides: [2]algorithms.Side{
				{ID: "a", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 1e6, Window: time.Hour}},
				{ID: "b", Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 5}},
			}})
		if !o[0].Decision.Allowed || o[1].Decision.Allowed || o[0].Apart != 0 || o[1].Apart != 0 {
			t.Fatalf("charge %d: %+v", i, o)
		}
	}
}

// TestRecordIsKeptForTheOtherStore holds that a record is not dropped as idle while the other side's part, in another
// store, may be in use.
func TestRecordIsKeptForTheOtherStore(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 4})
	c := algorithms.Charge{Key: "k", Cost: 1, At: noon, Epoch: 1, Keep: time.Hour}
	c.Sides[0] = algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: window}
	first := one(t, m, c)[0]

	for i := range 3 {
		ask(t, m, string(rune('a'+i)), 1, noon.Add(time.Minute))
	}
	c.At = noon.Add(2 * time.Minute)
	if o := one(t, m, c)[0]; o.Number != first.Number.Next() {
		t.Errorf("after the number %x comes %x: the record was dropped", first.Number, o.Number)
	}
}
