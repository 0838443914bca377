package evidence

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Slot is what was counted of a policy in one minute: by an instance since its last batch, or by the fleet. Its fields in Redis:
//
//	t0 to t9        outcomes, by their numbers
//	d0 .., a0 ..    causes of newly denied and of newly allowed comparisons
//	s0 ..           reasons of inconclusive comparisons
//	l               instances that were there
//	x00 .., x10 ..  cost that the authoritative, or the candidate, has missed, by the reason
//	c0, c1          cost that the authoritative has allowed and denied, where the sides share no record
//	b0, b1          newly denied and newly allowed of keys that both sides have denied
//	e0, e1          what these cost beyond 1 each
//	u0 to u9        what outcomes cost beyond 1 each, below 0 where costs were settled to less
//	y, m            checks that were too young to be compared; marks
//	k0 to k2        up to three hashes of keys that differ, of each ratio
//	p00KEY ..       what became of a protected key: the enforced side, the outcome, and the key; p is how many there are
//
// Ticks begin with their number in the minute: 0t2 are the newly denied of the first ten seconds. Besides t, x, c, b, y and m they
// have n0 and n1 (answers of the candidate alone), f and s (failed and slow), h (hashes of up to 1,024 newly denied keys), and the
// counts of up to 64 keys: dKEY (newly denied), aKEY (newly allowed), wKEY (denied without the authoritative); d, a and w are how
// many there are.
type Slot struct {
	Minute
	// Live is above 0 if an instance was running. Without it a quiet minute could not be told from one in which all were down.
	Live int64
	// Causes, Skipped and Protected may be of another minute of the same hour: they are only asked for by hours.
	Causes    Causes
	Skipped   Skips
	Protected ProtectedKeys
	// Ticks are in order.
	Ticks []Tick

	// Change numbers the slot's last change in the ledger, and Err says what of the slot cannot be read.
	Change int64
	Err    error
}

// ticksPerMinute is how many ticks a slot has.
const ticksPerMinute = SecondsPerMinute / TickSeconds

// join adds what another observer counted.
func (s *Slot) join(other *Slot) {
	s.Minute.Join(&other.Minute)
	s.Live += other.Live
	s.Causes.add(&other.Causes)
	s.Skipped.add(&other.Skipped)
	s.Protected.Join(other.Protected)
	for i := range other.Ticks {
		s.tick(other.Ticks[i].Unix).Join(&other.Ticks[i])
	}
}

// tick returns a tick, which it inserts if it is new.
func (s *Slot) tick(unix int64) *Tick {
	i, found := slices.BinarySearchFunc(s.Ticks, unix, func(t Tick, unix int64) int { return cmp.Compare(t.Unix, unix) })
	if !found {
		s.Ticks = slices.Insert(s.Ticks, i, Tick{Unix: unix})
	}
	return &s.Ticks[i]
}

// HourOf returns the sum of slots of an hour, which are in order.
func HourOf(unix int64, slots []Slot) Hour {
	h := Hour{Unix: unix}
	for i := range slots {
		s := &slots[i]
		if s.Live > 0 {
			h.Live |= 1 << (s.Unix % MinutesPerHour)
		}
		h.Causes.add(&s.Causes)
		h.Skipped.add(&s.Skipped)
		h.Protected.Join(s.Protected)
		if s.Tally != (Tally{}) || s.Extra != nil || s.Disturbed != nil {
			h.at(s.Unix).Join(&s.Minute)
		}
	}
	return h
}

// counter is a count by its name in the ledger. Outcomes, causes and reasons are named by their numbers.
type counter struct {
	name string
	n    *int64
	cost bool

	signed bool // may be below 0
}

func counters(prefix string, counts []int64) []counter {
	list := make([]counter, len(counts))
	for i := range counts {
		list[i] = counter{name: prefix + strconv.Itoa(i), n: &counts[i]}
	}
	return list
}

// counters returns the counts of a slot but those of its ticks and keys. One that is missing here is not in the ledger.
func (s *Slot) counters() []counter {
	return slices.Concat(
		counters("t", s.Tally[:]), counters("d", s.Causes.Denied[:]), counters("a", s.Causes.Allowed[:]), counters("s", s.Skipped[:]),
		[]counter{{name: "l", n: &s.Live}}, disturbanceCounters(s.Disturbed, ""), s.extraCounters(),
	)
}

// extraCounters returns the costs beyond 1, none where there are none.
func (s *Slot) extraCounters() []counter {
	if s.Extra == nil {
		return nil
	}
	list := counters("u", s.Extra[:])
	for i := range list {
		list[i].cost, list[i].signed = true, true
	}
	return list
}

// counters returns the counts of a tick. Its names begin with its number in the minute.
func tickCounters(t *Tick) []counter {
	p := tickName(t)
	return slices.Concat(
		counters(p+"t", t.Tally[:]), counters(p+"n", t.Alone[:]), []counter{{name: p + "f", n: &t.Failed}, {name: p + "s", n: &t.Slow}},
		disturbanceCounters(t.Disturbed, p),
	)
}

func tickName(t *Tick) string { return strconv.FormatInt(t.Unix%ticksPerMinute, 10) }

// counters returns the counts of a disturbance, none where there is none.
func disturbanceCounters(d *Disturbance, prefix string) []counter {
	if d == nil {
		return nil
	}
	costs := slices.Concat(
		counters(prefix+"x0", d.OneSided[0][:]), counters(prefix+"x1", d.OneSided[1][:]), counters(prefix+"c", d.Compared[:]),
		counters(prefix+"e", d.ShiftedExtra[:]),
	)
	for i := range costs {
		costs[i].cost = true
	}
	return slices.Concat(costs, counters(prefix+"b", d.Shifted[:]), []counter{{name: prefix + "y", n: &d.Young}, {name: prefix + "m", n: &d.Marks}})
}

// keyWeights are the weights of a tick by the name of their group.
type keyWeights struct {
	group   string
	weights *Weights
}

func tickWeights(t *Tick) []keyWeights {
	p := tickName(t)
	return []keyWeights{{p + "d", &t.Denied}, {p + "a", &t.Allowed}, {p + "w", &t.Lonely}}
}

// keyCounter is a count of a key. Of each group there is a bounded number.
type keyCounter struct {
	group string
	most  int
	key   string
	n     int64
}

// keyCounters returns the counts of keys of a slot.
func (s *Slot) keyCounters() (list []keyCounter) {
	for i := range s.Protected {
		for role, tally := range s.Protected[i].Counts {
			for o, n := range tally {
				if n != 0 {
					key := strconv.Itoa(role) + strconv.Itoa(o) + s.Protected[i].Key
					list = append(list, keyCounter{"p", mostListed * len(tally) * 2, key, n})
				}
			}
		}
	}
	for i := range s.Ticks {
		for _, of := range tickWeights(&s.Ticks[i]) {
			for _, w := range *of.weights {
				list = append(list, keyCounter{of.group, weightsKept, strconv.FormatUint(uint64(w.Key), 10), w.Count})
			}
		}
	}
	return list
}

// hashes is a set of hashes as it is stored, each with as many bytes.
type hashes struct {
	name  string
	width int
	most  int // bytes
	text  string
}

// hashes returns the sets of hashes of a slot.
func (s *Slot) hashes() (list []hashes) {
	for r, sample := range s.Keys {
		var text []byte
		for _, hash := range sample {
			text = binary.BigEndian.AppendUint64(text, hash)
		}
		list = append(list, hashes{"k" + strconv.Itoa(r), 8, 8 * sampledKeys, string(text)})
	}
	for i := range s.Ticks {
		var text []byte
		for _, hash := range s.Ticks[i].Harmed {
			text = binary.BigEndian.AppendUint32(text, hash)
		}
		list = append(list, hashes{tickName(&s.Ticks[i]) + "h", 4, 4 * harmedKept, string(text)})
	}
	return slices.DeleteFunc(list, func(h hashes) bool { return h.text == "" })
}

// mostCounted is the largest count of an entry that is believed. In a minute it is over a thousand million requests a
// second, and thousands of instances in 32 days do not add up to more than a number can hold.
const mostCounted = 1 << 36

// believed reports whether an instance can have counted these. Other programs can write to the ledger, and a count
// below 0, or a sum that overflows, would be a ratio of nothing.
func believed(counts ...int64) bool { return believedUpTo(mostCounted, counts...) }

func believedUpTo(most int64, counts ...int64) bool {
	return !slices.ContainsFunc(counts, func(n int64) bool { return n < 0 || n > most })
}

// slotReading reads the fields of a slot.
type slotReading struct {
	Slot
	counters map[string]counter
	weights  map[string]*Weights
	harmed   map[string]*[]uint32
}

// slotOf reads a slot. What cannot be read or believed is left out, and Err says that.
func slotOf(minute int64, fields map[string]string) Slot {
	r := &slotReading{counters: map[string]counter{}, weights: map[string]*Weights{}, harmed: map[string]*[]uint32{}}
	r.Unix, r.Disturbed, r.Extra = minute, &Disturbance{}, new(Tally)
	var numbers [ticksPerMinute]bool
	for name := range fields {
		if name != "" && name[0] >= '0' && name[0] < '0'+ticksPerMinute {
			numbers[name[0]-'0'] = true
		}
	}
	for n, has := range numbers {
		if has {
			r.Ticks = append(r.Ticks, Tick{Unix: minute*ticksPerMinute + int64(n), Disturbed: &Disturbance{}})
		}
	}
	r.note(r.Slot.counters())
	for i := range r.Ticks {
		t := &r.Ticks[i]
		r.note(tickCounters(t))
		r.harmed[tickName(t)+"h"] = &t.Harmed
		for _, of := range tickWeights(t) {
			r.weights[of.group] = of.weights
		}
	}

	for name, text := range fields {
		if !r.read(name, text) {
			r.Err = fmt.Errorf("field %.40q cannot be read: %.40q", name, text)
		}
	}
	for _, d := range append([]**Disturbance{&r.Disturbed}, disturbancesOf(r.Ticks)...) {
		if **d == (Disturbance{}) {
			*d = nil
		}
	}
	if *r.Extra == (Tally{}) {
		r.Extra = nil
	}
	return r.Slot
}

func disturbancesOf(ticks []Tick) (list []**Disturbance) {
	for i := range ticks {
		list = append(list, &ticks[i].Disturbed)
	}
	return list
}

func (r *slotReading) note(list []counter) {
	for _, c := range list {
		r.counters[c.name] = c
	}
}

// read reads one field, and reports whether it is one.
func (r *slotReading) read(name, text string) bool {
	if harmed := r.harmed[name]; harmed != nil {
		for b := []byte(text); len(b) >= 4; b = b[4:] {
			*harmed = append(*harmed, binary.BigEndian.Uint32(b))
		}
		return len(text)%4 == 0 && len(text) <= 4*harmedKept
	}
	if number, ok := strings.CutPrefix(name, "k"); ok {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(r.Keys) {
			return false
		}
		for b := []byte(text); len(b) >= 8; b = b[8:] {
			r.Keys[i].Add(binary.BigEndian.Uint64(b))
		}
		return len(text)%8 == 0
	}

	n, err := strconv.ParseInt(text, 10, 64)
	c, known := r.counters[name]
	switch {
	case err != nil || n < 0 && !(known && c.signed):
		return false
	case known && c.cost: // the ledger's sums are not bounded
		*c.n = boundedCost(n)
		return true
	case n > mostCounted:
		return false
	case known:
		*c.n = n
		return true
	case name == "p" || r.weights[name] != nil: // how many keys the group has
		return true
	case strings.HasPrefix(name, "p"):
		return r.readProtected(name[1:], n)
	case len(name) < 3:
		return false
	}
	weights := r.weights[name[:2]]
	key, err := strconv.ParseUint(name[2:], 10, 32)
	if weights == nil || err != nil || len(*weights) >= weightsKept {
		return false
	}
	*weights = append(*weights, Weight{uint32(key), n})
	return true
}

// readProtected reads a count of a protected key by its name without the group: role, outcome and key.
func (r *slotReading) readProtected(name string, n int64) bool {
	if len(name) < 2 {
		return false
	}
	role, o := int(name[0])-'0', int(name[1])-'0'
	if role < 0 || role > int(algorithms.Candidate) || o < 0 || o >= len(KeyTally{}) {
		return false
	}
	k := r.Protected.of(name[2:])
	if k != nil {
		k.Counts[role][o] = n
	}
	return k != nil
}
