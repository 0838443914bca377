package adaptive

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the table of docs/adaptive.md")

// world is a service of twenty instances in virtual time, with a table of its course. Each instance serves 25 requests a
// second; what is more waits, up to 4 s, and beyond that is answered with an error.
type world struct {
	name   string
	signal Signal                       // whose usual steps hold
	load   func(minute float64) float64 // of all instances, in parts of what they can serve
	slow   time.Duration                // of every request of the first instance
	lie    time.Duration                // what all instances report instead of the truth
	silent func(minute float64) bool    // no signal arrives
}

const (
	others    = 19
	capacity  = 25.0 // requests a second of one instance
	mostQueue = 4 * capacity
	minutes   = 180
)

// course is what became of a service.
type course struct {
	least       Level
	first, last int // changes in the first and the last hour
	whole       float64
	failed      float64 // of all requests that the limit admits
	denied      float64 // of all requests
}

// play runs a service for three hours. The limit is twice what the service can serve, so without a level it protects nothing.
func (w *world) play() course {
	var counters [2]Counter // of the first instance, and of each other one
	var past [2][]Sketch
	var queues [2]float64
	s, level := State{}, Full
	out := course{least: Full, whole: math.NaN()}
	var offered, admitted, failures float64

	for second := range minutes * 60 {
		minute := float64(second) / 60
		for i := range counters {
			asks := w.load(minute) * capacity
			admits := min(asks, 2*capacity*float64(level)/float64(Full))
			queues[i] += admits - capacity
			lost := max(0, queues[i]-mostQueue)
			queues[i] = min(max(0, queues[i]), mostQueue)
			w.report(&counters[i], i, admits, lost, queues[i])
			past[i] = append(past[i], counters[i].Read())
			if i == 0 {
				continue
			}
			offered, admitted, failures = offered+asks, admitted+admits, failures+lost
		}

		// The leader counts every 5 s, and each heartbeat is of the 10 s up to 2 s before.
		if second%5 > 0 || second < 15 {
			continue
		}
		var e Evidence
		if w.silent == nil || !w.silent(minute) {
			first, other := past[0][second-2].Since(&past[0][second-12]), past[1][second-2].Since(&past[1][second-12])
			e.Add(&first)
			for range others {
				e.Add(&other)
			}
		}
		r := Usual(w.signal)
		s = r.Next(s, &e, began.Add(time.Duration(second)*time.Second))
		out.note(level, s.Level(), minute)
		level = s.Level()
	}
	out.failed, out.denied = failures/admitted, 1-admitted/offered
	return out
}

// note counts a change, and remembers when the limit was whole for the last time.
func (c *course) note(before, level Level, minute float64) {
	c.least = min(c.least, level)
	if level == before {
		return
	}
	if minute < 60 {
		c.first++
	}
	if minute >= minutes-60 {
		c.last++
	}
	if c.whole = math.NaN(); level == Full {
		c.whole = minute
	}
}

// report counts one second of one instance: durations have an exponential distribution, by its quantiles.
func (w *world) report(c *Counter, instance int, admits, lost, queue float64) {
	base := 10*time.Millisecond + time.Duration(queue/capacity*float64(time.Second))
	if instance == 0 && w.slow > 0 {
		base = w.slow
	}
	if w.lie > 0 {
		base = w.lie
	}

	n := int(admits)
	for i := range n {
		quantile := -math.Log(1 - (float64(i)+0.5)/float64(n))
		c.Add(base+time.Duration(quantile*float64(10*time.Millisecond)), float64(i) < lost)
	}
}

func constant(load float64) func(float64) float64 { return func(float64) float64 { return load } }

// between is a load that is high for some minutes, and 0.5 otherwise.
func between(from, to, high float64) func(float64) float64 {
	return func(minute float64) float64 {
		if minute >= from && minute < to {
			return high
		}
		return 0.5
	}
}

// worlds are the situations, for each signal.
func worlds() (list []world) {
	for _, signal := range []Signal{LatencyP99, ErrorRate} {
		list = append(list,
			world{name: "a calm service", signal: signal, load: constant(0.8)},
			world{name: "an overload of 1.6 for 20 minutes", signal: signal, load: between(10, 30, 1.6)},
			world{name: "an overload of 1.6 without an end", signal: signal, load: constant(1.6)},
			world{name: "a load that swings between 0.5 and 1.6 every 2 minutes", signal: signal, load: func(minute float64) float64 {
				return 1.05 - 0.55*math.Cos(minute*math.Pi)
			}},
		)

		// The instances of the other situations are slow, and do not fail.
		if signal == ErrorRate {
			continue
		}
		list = append(list,
			world{name: "a signal that lies: always 10 s", signal: signal, load: constant(0.8), lie: 10 * time.Second},
			world{name: "one sick instance of twenty: always 3 s", signal: signal, load: constant(0.8), slow: 3 * time.Second},
			world{name: "an overload of 1.6 without an end, no signal from minute 60", signal: signal, load: constant(1.6),
				silent: func(minute float64) bool { return minute >= 60 }},
		)
	}
	return list
}

// table has the courses of one signal; those of the other are nearly the same.
func table(courses []course) string {
	var b strings.Builder
	b.WriteString("| situation | least level | changes in the last hour | failed | denied |\n|---|---|---|---|---|\n")
	for i, w := range worlds() {
		if c := courses[i]; w.signal == LatencyP99 {
			fmt.Fprintf(&b, "| %s | %d/64 | %d | %.1f%% | %.1f%% |\n", w.name, c.least, c.last, c.failed*100, c.denied*100)
		}
	}
	return b.String()
}

const (
	documentFile = "../../docs/adaptive.md"
	tableBegins  = "<!-- simulated -->\n"
	tableEnds    = "<!-- end -->\n"
)

// The table of the document is that of the simulation, which has no chance in it.
func TestAdaptiveDocument(t *testing.T) {
	var courses []course
	for _, w := range worlds() {
		courses = append(courses, w.play())
	}
	checkCourses(t, courses)

	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), tableBegins)
	_, after, found := strings.Cut(rest, tableEnds)
	if !found {
		t.Fatalf("%s has no place for the table", documentFile)
	}

	want := before + tableBegins + table(courses) + tableEnds + after
	if *update {
		err = os.WriteFile(documentFile, []byte(want), 0o644)
	} else if want != string(text) {
		t.Errorf("the table of %s differs: go test ./internal/adaptive -run AdaptiveDocument -update", documentFile)
	}
	if err != nil {
		t.Error(err)
	}
}

// checkCourses holds what the document promises.
func checkCourses(t *testing.T, courses []course) {
	t.Helper()
	for i, w := range worlds() {
		c := courses[i]
		switch {
		case strings.HasPrefix(w.name, "a calm") && (c.least < Full || c.first+c.last > 0):
			t.Errorf("%s, %s: the level has changed", w.name, w.signal)
		case strings.HasSuffix(w.name, "20 minutes") && !(c.whole > 30 && c.whole < 60):
			t.Errorf("%s, %s: the limit was whole at minute %.0f", w.name, w.signal, c.whole)
		case strings.HasSuffix(w.name, "without an end") && c.last > 16:
			t.Errorf("%s, %s: %d changes in the last hour", w.name, w.signal, c.last)
		case strings.Contains(w.name, "no signal") && !(c.whole > 60 && c.whole < 75):
			t.Errorf("%s, %s: the limit was whole at minute %.0f", w.name, w.signal, c.whole)
		case c.least < Full/4:
			t.Errorf("%s, %s: the level was %d", w.name, w.signal, c.least)
		}
	}
}
