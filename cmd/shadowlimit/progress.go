package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress is one line that is drawn over, on terminals only.
type progress struct {
	out  io.Writer // nil: not a terminal
	next time.Time
	open bool
}

// redraw is the least time between two drawings.
const redraw = 100 * time.Millisecond

func newProgress(out io.Writer) *progress {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		return &progress{out: out, next: time.Now().Add(redraw)}
	}
	return &progress{}
}

// show draws what is being done and how much of it is; of 0 means nobody knows.
func (p *progress) show(what string, done, of int64) {
	if p.out == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(redraw)
	p.open = true
	if of > 0 {
		fmt.Fprintf(p.out, "\r\x1b[K%s: %d %%", what, 100*done/of)
	} else {
		fmt.Fprintf(p.out, "\r\x1b[K%s: %d", what, done)
	}
}

// clear removes the line.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}
