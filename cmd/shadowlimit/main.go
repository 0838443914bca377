// Command shadowlimit shows what another rate limiter would do to your traffic,
// and moves it into place by stages.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends what the first could not
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are where a command reads and writes: reports to out, messages to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}
