package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/envoy"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/redisurl"
	"github.com/shadowlimit/shadowlimit/internal/serve"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// closeTimeout is how long the last evidence may take.
const closeTimeout = 5 * time.Second

func serveAction(c *cli.Context, talk io.Writer) (err error) {
	o, err := optionsOf(c)
	if err != nil {
		return err
	}
	listeners, pages, err := o.listenAll()
	if err != nil {
		return err
	}

	log := slog.New(slog.NewTextHandler(talk, nil))
	harness, closeAll, err := o.harness(c, log)
	if err != nil {
		closeListeners(append(listeners, pages...))
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()

	name := harness.Policies().Name
	for _, l := range listeners {
		fmt.Fprintf(talk, "shadowlimit-envoy: limiting %s on %s\n", name, l.Addr())
	}
	for _, l := range pages {
		fmt.Fprintf(talk, "shadowlimit-envoy: metrics and status on %s\n", l.Addr())
	}
	return o.serve(c.Context, harness, log, listeners, pages)
}

// listenAll opens the addresses for Envoy and those of the pages.
func (o *options) listenAll() (listeners, pages []net.Listener, err error) {
	if listeners, err = o.listen("listen", o.addresses...); err != nil {
		return nil, nil, err
	}
	if o.http != "" {
		if pages, err = o.listen("http", o.http); err != nil {
			closeListeners(listeners)
			return nil, nil, err
		}
	}
	return listeners, pages, nil
}

func closeListeners(list []net.Listener) {
	for _, l := range list {
		l.Close()
	}
}

// harness starts the limiters, and returns what ends them: the last evidence is written after the last request. A Redis that
// does not answer is no reason to stay away: the policies' rules for that hold.
func (o *options) harness(c *cli.Context, log *slog.Logger) (h *shadow.Harness, closeAll func() error, err error) {
	cfg := shadow.Config{File: o.file, Logger: log, RedButton: shadow.RedButton{File: c.String("red-button")}}
	closeRedis := func() error { return nil }
	if address := c.String("redis"); address != "" {
		settings, err := redisurl.Parse(address)
		if err != nil {
			return nil, nil, usagef("--redis: %v", err)
		}
		client := redis.NewUniversalClient(lua.Tune(settings, 0))
		cfg.Redis, closeRedis = client, client.Close
	}

	h, err = shadow.New(cfg)
	if err == nil {
		err = h.Start(c.Context)
	}
	if err != nil {
		return nil, nil, errors.Join(humanize.Discreet(err), closeRedis())
	}
	return h, func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(c.Context), closeTimeout)
		defer cancel()
		return errors.Join(h.Close(last), closeRedis())
	}, nil
}

// serve answers until the context ends or a listener fails, and then ends both servers.
func (o *options) serve(ctx context.Context, h *shadow.Harness, log *slog.Logger, listeners, pages []net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	web := make(chan error, 1)
	if len(pages) > 0 {
		page := serve.New(serve.Config{Limiter: h, Token: o.token, TLS: o.tls, Logger: log})
		go func() {
			err := page.Serve(ctx, pages...)
			cancel(err)
			web <- err
		}()
	} else {
		web <- nil
	}

	running := o.serveGRPC(envoy.New(h, o.service), listeners)
	select {
	case <-ctx.Done():
	case failed := <-running.ended:
		running.ended <- failed // for stop, which counts all of them
		cancel(failed)
	}
	return errors.Join(running.stop(), <-web)
}
