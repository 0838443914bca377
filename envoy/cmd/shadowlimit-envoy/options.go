package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/envoy"
	"github.com/shadowlimit/shadowlimit/internal/serve"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// fieldStyles are the values of --fields.
var fieldStyles = map[string]httplimit.Fields{
	"draft-08": httplimit.FieldsDraft08, "draft-06": httplimit.FieldsDraft06, "legacy": httplimit.FieldsLegacy,
	"legacy-epoch": httplimit.FieldsLegacyEpoch, "none": httplimit.FieldsNone,
}

func styles() []string { return slices.Sorted(maps.Keys(fieldStyles)) }

// options are the checked flags.
type options struct {
	file      string
	addresses []string
	http      string
	insecure  bool
	service   envoy.Config
	token     string
	tls       *tls.Config
}

func optionsOf(c *cli.Context) (*options, error) {
	o := &options{
		file: c.String("config"), addresses: c.StringSlice("listen"), http: c.String("http"), insecure: c.Bool("insecure"),
		service: envoy.Config{RetryJitter: c.Float64("retry-jitter"), Upstream: c.Bool("upstream")},
	}

	style, known := fieldStyles[c.String("fields")]
	o.service.Fields = style
	switch jitter := o.service.RetryJitter; {
	case c.Args().Present():
		return nil, usagef("no arguments are taken: see --help")
	case o.file == "":
		return nil, usagef("--config is needed, with a policy file")
	case !known:
		return nil, usagef("--fields %s: the styles are %s", c.String("fields"), strings.Join(styles(), ", "))
	case !(jitter >= 0 && jitter <= 1):
		return nil, usagef("--retry-jitter %v: want 0 to 1", jitter)
	}

	if err := o.parseToken(c); err != nil {
		return nil, err
	}
	return o, o.parseTLS(c)
}

// leastToken makes a token that cannot be guessed likely: 16 random bytes have 22 characters in base64.
// One of more than mostToken comes with no call, because servers bound its metadata.
const leastToken, mostToken = 20, 4096

// tokenVariable has the token where no file does.
const tokenVariable = "SHADOWLIMIT_TOKEN"

func (o *options) parseToken(c *cli.Context) error {
	text, from := os.Getenv(tokenVariable), tokenVariable
	if file := c.String("token-file"); file != "" {
		content, err := policies.ReadFile(file)
		if err != nil {
			return usagef("--token-file: %v", err)
		}
		text, from = string(content), "--token-file"
	} else if text == "" {
		return nil
	}

	o.token = strings.TrimSpace(text)
	if n := len(o.token); n < leastToken || n > mostToken || strings.ContainsFunc(o.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usagef("%s: a token is one word of %d to %d characters of ASCII: openssl rand -base64 32", from, leastToken, mostToken)
	}
	return nil
}

func (o *options) parseTLS(c *cli.Context) error {
	cert, key := c.String("tls-cert"), c.String("tls-key")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return usagef("--tls-cert and --tls-key must be given together")
	}

	certificate, err := serve.LoadCertificate(cert, key)
	if err != nil {
		return fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	o.tls = &tls.Config{GetCertificate: certificate.Get}
	return nil
}

// listen opens the addresses of a flag. One that other machines reach needs all that keeps strangers from asking.
func (o *options) listen(flag string, addresses ...string) ([]net.Listener, error) {
	list, err := serve.Listen(o.insecure || o.token != "" && o.tls != nil, addresses...)
	if remote := new(serve.Remote); errors.As(err, remote) {
		return nil, usagef("--%s %v, so it needs a token (--token-file, or %s) and TLS (--tls-cert and --tls-key); "+
			"--insecure is for a network whose every machine may use up budgets", flag, remote, tokenVariable)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return list, nil
}
