package main

import (
	"fmt"
	"io"
	"time"
)

// progress is one line that is redrawn, on terminals only.
type progress struct {
	out  io.Writer // nil: not a terminal
	next time.Time
	open bool
}

// redrawEvery is the least time between two drawings.
const redrawEvery = 100 * time.Millisecond

func newProgress(out io.Writer) *progress {
	if d, ok := terminal(out); ok {
		return &progress{out: d, next: time.Now().Add(redrawEvery)}
	}
	return &progress{}
}

// show draws how much of something is done; total is 0 if it is unknown.
func (p *progress) show(what string, done, total int64) {
	if p.out == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(redrawEvery)
	p.open = true

	if total > 0 {
		fmt.Fprintf(p.out, "\r"+clearLine+"%s: %d %%", what, 100*done/total)
	} else {
		fmt.Fprintf(p.out, "\r"+clearLine+"%s: %d", what, done)
	}
}

// clear removes the line.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r"+clearLine)
		p.open = false
	}
}
