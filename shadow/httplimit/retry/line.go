package retry

import (
	"container/list"
	"sync"
)

// lines are the calls that wait, in the order in which they came, a line for each key that has any.
type lines struct {
	mu      sync.Mutex
	byKey   map[string]*list.List // of *turn; no list is empty
	waiting int                   // in all lines, and outside of them for a leaky bucket's turn
	most    int
}

// turn is the place of a call in its line.
type turn struct {
	key   string
	first chan struct{} // closed when the call is the first of its line
	place *list.Element
}

func (l *lines) init(most int) { l.byKey, l.most = map[string]*list.List{}, most }

// enter puts a call at the end of its line. It reports whether there was room.
func (l *lines) enter(key string) (*turn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= l.most {
		return nil, false
	}

	line := l.byKey[key]
	if line == nil {
		line = list.New()
		l.byKey[key] = line
	}

	// A channel that is closed once wakes one call. A condition would wake all of the line, and they would race.
	t := &turn{key: key, first: make(chan struct{})}
	t.place = line.PushBack(t)
	if line.Len() == 1 {
		close(t.first)
	}
	l.waiting++
	return t, true
}

// leave takes a call off its line, from whatever place, and lets the next one ask if it was the first.
func (l *lines) leave(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[t.key]
	wasFirst := line.Front() == t.place
	line.Remove(t.place)

	// A list that stayed for each key would let a client's own keys fill the memory.
	switch next := line.Front(); {
	case next == nil:
		delete(l.byKey, t.key)
	case wasFirst:
		close(next.Value.(*turn).first)
	}
}

// forget makes room for another call.
func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting-- // apart from leave: a call with a turn of a leaky bucket is in no line, and still waits
}
