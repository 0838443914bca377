package lua

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// form says which script of some steps judges a charge.
type form int

const (
	general          form = iota // pair.lua alone, with an argument for each value
	straight                     // straight.lua in front of it, for charges without an epoch
	straightNumbered             // and for those with one
)

// formOf returns the form of a charge of these steps. A charge that follows another store's is rare.
func formOf(c *algorithms.Charge, names [2]string) form {
	switch {
	// A follower has to compare its record with its predecessor's, which straight.lua does not.
	case c.Follows() || !inLine(names[0]) || !inLine(names[1]):
		return general
	case c.Epoch != 0:
		return straightNumbered
	}
	return straight
}

// inLine reports whether a step can stand in the place of its call: a step with a log can fail. "" is no step.
func inLine(name string) bool { return !steps[name].hasLog }

// straightTemplate becomes the beginning of a script.
var straightTemplate = template.Must(template.New("straight").Parse(sourceOf("straight")))

// straightScript is what straightTemplate is filled with.
type straightScript struct {
	Sides    []straightSide
	Numbered bool
	Size     int    // of the record
	Form     string // of the record, as struct takes it
	Zeros    string // a record of nothing but zeros, as Lua writes a text
	Numbers  string // the name of the part of numbers
}

type straightSide struct {
	N      int // from 1 on
	Step   string
	Delays bool
}

// Two reports whether there are two sides.
func (s straightScript) Two() bool { return len(s.Sides) == 2 }

// straightText returns straight.lua for the steps, which the functions of a library judge.
func straightText(names []string, numbered bool, functions library) string {
	s := straightScript{Numbered: numbered, Numbers: nameNumber("NUMBERS0")}
	for i, name := range names {
		if results := functions[name].results; results[len(results)-1] != "0" {
			panic("lua: " + name + " keeps a fourth number, which straight.lua does not write")
		}
		s.Sides = append(s.Sides, straightSide{i + 1, name, steps[name].delays})
	}

	// A numbered record has one more part, of the numbers; see pair.lua.
	parts := len(s.Sides)
	if numbered {
		parts++
	}
	s.Size, s.Form = 40*parts, "<"+strings.Repeat("ddddd", parts)
	s.Zeros = strings.Repeat(`\0`, s.Size)

	// The template's own calls of steps, and those within the steps, are all written in.
	var b strings.Builder
	if err := straightTemplate.Execute(&b, s); err != nil {
		panic(err) // a test composes every script
	}
	return functions.inline(b.String())
}

// nameNumber returns, for a script, the number whose bytes are a name of 8 characters.
func nameNumber(name string) string {
	return strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64([]byte(name))), 'g', -1, 64)
}

// serverClock stands for the instant of the server. It is above all instants.
const serverClock = 1 << 54

// packed returns what straight.lua is given, in one text: Redis makes a text of each argument.
func packed(c *algorithms.Charge, sides []sideTerms) string {
	// An instant of the caller is below this one: checkCharge refuses later ones.
	at := int64(serverClock)
	if !c.At.IsZero() {
		at = c.At.UnixMicro()
	}

	// Three numbers of the charge, five of each side, and one of the epoch.
	b := make([]byte, 0, 8*(3+2*5+1))
	b = appendNumbers(b, at, leastTTLOf(c), min(c.Cost, maxCost))
	for i := range sides {
		b = append(b, sides[i].part...)
		b = appendNumbers(b, sides[i].terms[:]...)
	}
	if c.Epoch != 0 {
		b = appendNumbers(b, int64(algorithms.EpochBase(c.Epoch)))
	}
	return string(b)
}

// appendNumbers adds numbers as struct packs a d. A double holds each of them exactly.
func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// admits stands in a packed reply for the wait of a side that admits.
const admits = -2

func (c *call) unpack(reply string) (all answers, err error) {
	// The order is the one of pair.lua's reply. A side that admits has no wait, so one number says both.
	in := numbers{text: reply}
	all.at = in.next()
	for i := range c.sides {
		status, retry, remaining, reset, delay := int64(0), in.next(), in.next(), in.next(), int64(0)
		if retry == admits {
			status, retry = 1, 0
		}
		if c.delays[i] {
			delay = in.next()
		}
		all.sides[i].decision = decided([sideReply]int64{status, remaining, retry, reset, delay})
	}
	if c.numbered() {
		all.number = in.next()
		all.apart = in.next()
	}

	// Too short, too long, no whole number, no whole number: Redis may lie.
	if in.bad || in.text != "" {
		return all, fmt.Errorf("%w: a text of %d bytes", ErrReply, len(reply))
	}
	return all, nil
}

// numbers reads the numbers of a packed reply.
type numbers struct {
	text string
	bad  bool // a number was missing, or is none of a script's
}

func (n *numbers) next() int64 {
	if len(n.text) < 8 {
		n.bad = true
		return 0
	}

	// NaN equals nothing, not even its own whole part, so it is refused, too.
	x := math.Float64frombits(binary.LittleEndian.Uint64([]byte(n.text[:8])))
	n.text = n.text[8:]
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		n.bad = true
		return 0
	}
	return int64(x)
}
