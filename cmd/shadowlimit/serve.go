package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/serve"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const serveDescription = `Decides for services in any language and for proxies, by a policy file that
is read again whenever it changes. A service asks

  curl localhost:8429/v1/check \
      -d '{"method":"POST","path":"/orders/7","user":"ann"}'

with the fields of "explain --request", or with a list of up to 100 requests;
the answer says allowed true or false, and has the response fields for its
client. Traefik and Caddy ask /v1/forward-auth, nginx /v1/auth-request:
docs/integrate.md has their configurations. /healthz, /readyz, /metrics and
/status are for operators.

Without --redis the limits are this process's own. With it they are those of
all instances of the same name, services with the middleware among them.

An address that other machines can reach needs TLS and a token, which is read
from --token-file or SHADOWLIMIT_TOKEN. It goes on until SIGTERM or an
interrupt, finishes the requests that have begun, and writes the last
evidence.

Examples, from the folder of the repository:
  shadowlimit serve --config examples/policies/per-merchant.yaml
  shadowlimit serve --config examples/policies/login-protection.yaml \
      --route /login \
      --listen unix:shadowlimit.sock`

// serveAddress is where a server listens unless it is told otherwise.
const serveAddress = "127.0.0.1:8429"

func serveCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "serve",
		Usage:       "decide for any language over HTTP, until interrupted",
		Description: serveDescription,
		Flags:       serveFlags(),
		Action:      func(c *cli.Context) error { return serveAction(c, std) },
	}
}

func serveFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "the policy `FILE` (required)"},
		&cli.StringSliceFlag{
			Name: "listen", Usage: "`ADDRESS` HOST:PORT or unix:PATH; repeatable", Value: cli.NewStringSlice(serveAddress),
		},
		redisFlag("`URL` of Redis"),
		&cli.StringSliceFlag{
			Name: "route", Usage: "`TEMPLATE` that names the route of a path, such as /orders/{id}, or @FILE with one a line; repeatable",
		},

		&cli.StringSliceFlag{Name: "proxy", Usage: "address or `PREFIX` of a proxy on another machine, such as 10.0.0.0/8; repeatable"},
	}
	return append(append(flags, guardFlags()...),
		&cli.StringFlag{Name: "red-button", Usage: "`FILE` that enforces the authoritative at once, while it exists"})
}

// guardFlags say who may ask at an address. None has the token itself: every user of the machine can read a command's arguments.
func guardFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` with the token that questions over TCP must bring"},
		&cli.StringFlag{Name: "tls-cert", Usage: "`FILE` with the certificate for TLS, in PEM, read again once a minute"},
		&cli.StringFlag{Name: "tls-key", Usage: "`FILE` with its key"},
		&cli.BoolFlag{Name: "insecure", Usage: "let other machines ask without token or TLS, in a network that you trust"},
	}
}

func serveAction(c *cli.Context, std streams) (err error) {
	o, err := serveOptionsOf(c)
	if err != nil {
		return err
	}
	listeners, err := o.listen()
	if err != nil {
		return err
	}

	log := slog.New(slog.NewTextHandler(std.err, nil))
	harness, closeAll, err := o.harness(c, log)
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	o.server.Limiter, o.server.Logger = harness, log
	if harness.Policies().Adapts {
		log.Warn("shadowlimit: serve: the handlers run elsewhere, so no adaptive limit has a signal, and its whole limit holds")
	}

	for _, l := range listeners {
		say(std.err, "shadowlimit: serving %s on %s\n", harness.Policies().Name, o.urlOf(l.Addr()))
	}
	return serve.New(o.server).Serve(c.Context, listeners...)
}

// closeTimeout is how long the last evidence may take.
const closeTimeout = 5 * time.Second

// harness starts the limiters, and returns what ends them: the last evidence is written after the last request. A Redis that
// does not answer is no reason to stay away: the policies' rules for that hold.
func (o *serveOptions) harness(c *cli.Context, log *slog.Logger) (h *shadow.Harness, closeAll func() error, err error) {
	cfg := shadow.Config{File: o.file, Logger: log, RedButton: shadow.RedButton{File: c.String("red-button")}}
	closeRedis := func() error { return nil }
	if address := c.String("redis"); address != "" {
		client, err := openRedis(address, 0)
		if err != nil {
			return nil, nil, err
		}
		cfg.Redis, closeRedis = client, client.Close
	}

	h, err = shadow.New(cfg)
	if err == nil {
		err = h.Start(c.Context)
	}
	if err != nil {
		closed := closeRedis()
		if problems := (*policies.Problems)(nil); errors.As(err, &problems) && closed == nil {
			return nil, nil, problems
		}
		text := strings.TrimPrefix(err.Error(), "shadow: new: ")
		return nil, nil, errors.Join(fmt.Errorf("%s: %s", o.file, text), closed)
	}
	return h, func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(c.Context), closeTimeout)
		defer cancel()
		return errors.Join(h.Close(last), closeRedis())
	}, nil
}

// serveOptions are the checked flags.
type serveOptions struct {
	file      string
	addresses []string
	insecure  bool
	server    serve.Config
}

func serveOptionsOf(c *cli.Context) (*serveOptions, error) {
	o := &serveOptions{file: c.String("config"), addresses: c.StringSlice("listen"), insecure: c.Bool("insecure")}
	switch {
	case c.Args().Present():
		return nil, usagef("a policy file stands behind --config", "serve takes no arguments")
	case o.file == "":
		return nil, usagef(seeHelp(c), "serve needs --config with a policy file")
	}

	// A button that cannot be pressed is found out on the night it is needed.
	if err := checkPlace("--red-button", c.String("red-button")); err != nil {
		return nil, err
	}
	for _, parse := range []func(*cli.Context) error{o.parseRoutes, o.parseProxies, o.parseToken, o.parseTLS} {
		if err := parse(c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *serveOptions) parseRoutes(c *cli.Context) error {
	r, err := parseRoutes(c.StringSlice("route"))
	if r != nil {
		o.server.Route = r.find
	}
	return err
}

func (o *serveOptions) parseProxies(c *cli.Context) error {
	for _, text := range c.StringSlice("proxy") {
		prefix, err := parseProxy(text)
		if err != nil {
			return usagef("such as 10.0.0.0/8 or 10.1.2.3", "--proxy %s: %v", text, err)
		}
		o.server.Proxies = append(o.server.Proxies, prefix)
	}
	return nil
}

// leastToken makes a token that cannot be guessed likely: 16 random bytes have 22 characters in base64.
// One of more than mostToken comes with no request, because servers bound its header.
const leastToken, mostToken = 20, 4096

const tokenHint = "make one by: openssl rand -base64 32 > FILE"

// tokenVariable has the token where no file does. A flag would show it to every user of the machine.
const tokenVariable = "SHADOWLIMIT_TOKEN"

func (o *serveOptions) parseToken(c *cli.Context) error {
	text, from := os.Getenv(tokenVariable), tokenVariable
	if file := c.String("token-file"); file != "" {
		content, err := policies.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--token-file %s: %w", file, reason(err))
		}
		text, from = string(content), "--token-file"
	} else if text == "" {
		return nil
	}

	o.server.Token = strings.TrimSpace(text)
	if n := len(o.server.Token); n < leastToken || n > mostToken || strings.ContainsFunc(o.server.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usagef(tokenHint, "%s: a token is one word of %d to %d characters of ASCII", from, leastToken, mostToken)
	}
	return nil
}

func (o *serveOptions) parseTLS(c *cli.Context) error {
	cert, key := c.String("tls-cert"), c.String("tls-key")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return usagef("", "--tls-cert and --tls-key must be given together")
	}

	certificate, err := serve.LoadCertificate(cert, key)
	if err != nil {
		return fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	o.server.TLS = &tls.Config{GetCertificate: certificate.Get}
	return nil
}

// listen opens the addresses. One that other machines reach needs all that keeps strangers from asking.
func (o *serveOptions) listen() ([]net.Listener, error) {
	var missing []string
	if o.server.Token == "" {
		missing = append(missing, "a token (--token-file, or "+tokenVariable+")")
	}
	if o.server.TLS == nil {
		missing = append(missing, "TLS (--tls-cert and --tls-key)")
	}

	// An empty address of a socket would be a socket without a name.
	const hint = "such as 127.0.0.1:8080 or unix:/run/shadowlimit.sock"
	if slices.Contains(o.addresses, "unix:") {
		return nil, usagef(hint, "--listen unix: names no socket")
	}

	list, err := serve.Listen(o.insecure || missing == nil, o.addresses...)
	if remote := new(serve.Remote); errors.As(err, remote) {
		return nil, usagef("or listen on 127.0.0.1 or a Unix socket; --insecure is for a network whose every machine may use up budgets",
			"--listen %v, so it needs %s", remote, strings.Join(missing, " and "))
	}
	switch {
	case errors.As(err, new(*net.AddrError)), errors.As(err, new(*net.DNSError)):
		return nil, usagef(hint, "--listen: %v", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--listen: %w: another program listens there; name another port, or end that program", err)
	case err != nil:
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return list, nil
}

// urlOf is how a client names a listener.
func (o *serveOptions) urlOf(a net.Addr) string {
	switch {
	case a.Network() == "unix":
		return "unix:" + a.String()
	case o.server.TLS != nil:
		return "https://" + a.String()
	default:
		return "http://" + a.String()
	}
}
