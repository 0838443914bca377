// Command shadowlimit-envoy is a rate limit service for Envoy: it decides by a policy file of shadowlimit.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/flaghelp"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/limits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends what the first could not
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit statuses, as those of shadowlimit.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a wrong invocation.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// silentLogger drops the log lines of go-redis: failures of Redis are logged by the harness.
type silentLogger struct{}

func (silentLogger) Printf(context.Context, string, ...any) {}

// run is the whole program except for the process around it. It returns the exit status.
func run(ctx context.Context, args []string, out, talk io.Writer) int {
	redis.SetLogger(silentLogger{})
	app := newApp(out, talk)
	err := app.RunContext(ctx, slices.Concat([]string{app.Name}, args))
	if err == nil {
		return exitOK
	}

	// A URL in the wrong place, as an argument, is shown without its password.
	fmt.Fprintf(talk, "%s: %s\n", app.Name, humanize.WithoutSecrets(err.Error()))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailure
}

const description = `Answers Envoy's rate limit filter (envoy.service.ratelimit.v3) by a policy
file, which is read again whenever it changes. Policies see the descriptors
as request.descriptors, the domain as request.domain, and the keys of a
descriptor in their order as request.route:

  - name: per-user
    when: request.domain == "edge" && request.route == "user"
    key: request.descriptors[?"user"].orValue("")
    authoritative: { algorithm: fixed_window, limit: 100, window: 1m }

"shadowlimit import envoy" makes such a file of a configuration of
envoyproxy/ratelimit.

Without --redis the limits are this process's own. With it they are those of
all instances of the same name. An address that other machines can reach
needs TLS and a token, which is read from --token-file or SHADOWLIMIT_TOKEN;
Envoy sends it as "authorization: Bearer TOKEN" by initial_metadata of its
grpc_service. It goes on until SIGTERM or an interrupt, finishes the requests
that have begun, and writes the last evidence. /healthz, /readyz, /metrics
and /status are on --http.

Example:
  shadowlimit-envoy --config policies.yaml --redis redis://127.0.0.1:6379/0`

func init() { flaghelp.Use() }

func newApp(out, talk io.Writer) *cli.App {
	return &cli.App{
		Name:            "shadowlimit-envoy",
		Usage:           "a rate limit service for Envoy, until interrupted",
		UsageText:       "shadowlimit-envoy --config FILE [--listen ADDRESS] [--redis URL]",
		Description:     description,
		HideVersion:     true,
		HideHelpCommand: true,
		Writer:          out, ErrWriter: talk,
		Flags:          flags(),
		ExitErrHandler: func(*cli.Context, error) {}, // run alone decides the status
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usagef("%v: see --help", err) },
		Action:         func(c *cli.Context) error { return serveAction(c, talk) },
	}
}

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "the policy `FILE` (required)"},
		&cli.StringSliceFlag{
			Name: "listen", Usage: "`ADDRESS` for Envoy, HOST:PORT or unix:PATH; repeatable", Value: cli.NewStringSlice("127.0.0.1:8081"),
		},
		&cli.StringFlag{Name: "http", Usage: "`ADDRESS` of metrics, status and health; \"\" for none", Value: "127.0.0.1:8430"},
		&cli.StringFlag{Name: "redis", EnvVars: []string{"SHADOWLIMIT_REDIS"}, Usage: "`URL` of Redis"},
		&cli.StringFlag{
			Name: "fields", Value: "draft-08",
			Usage: "`STYLE` of the response fields for clients: " + strings.Join(styles(), ", "),
		},
		&cli.Float64Flag{Name: "retry-jitter", Usage: "`SHARE`, 0 to 1, by which Retry-After is longer at random"},
		&cli.BoolFlag{Name: "upstream", Usage: "tell the service behind Envoy both sides in the field " + limits.DebugField},

		// No flag has the token itself: every user of the machine can read a program's arguments.
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` with the token that questions over TCP must bring"},
		&cli.StringFlag{Name: "tls-cert", Usage: "`FILE` with the certificate for TLS, in PEM, read again once a minute"},
		&cli.StringFlag{Name: "tls-key", Usage: "`FILE` with its key"},
		&cli.BoolFlag{Name: "insecure", Usage: "let other machines ask without token or TLS, in a network that you trust"},
		&cli.StringFlag{Name: "red-button", Usage: "`FILE` that enforces the authoritative at once, while it exists"},
	}
}
