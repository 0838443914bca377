package main

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	_ "time/tzdata" // a machine without the data base can read --time-zone, too

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

func logFlags() []cli.Flag {
	return under(aboutLogs,
		&cli.StringFlag{Name: "format", Value: "auto",
			Usage: "`FORMAT` of the logs, one of " + strings.Join(accesslog.FormatNames(), ", ")},
		&cli.StringFlag{Name: "time-field", Usage: "`FIELD` of the time: RFC 3339 or a number, its unit by the name's " +
			"ending _ns _us _ms _s or else by size (default: time, t_ns, t_us, t_ms, t_s and the usual names)"},
		&cli.StringFlag{Name: "key-field", Usage: "`FIELD` of the key (default: key, or the client's address)"},
		&cli.StringFlag{Name: "cost-field", Usage: "`FIELD` of the cost; absent is 1 (default: cost)"},
		&cli.StringSliceFlag{Name: "map", Usage: "`PAIR` request.FIELD=FIELD: the FIELD of the log fills that of the request, " +
			"such as request.headers.x-tenant=tenant; repeatable"},
		&cli.StringSliceFlag{Name: "route", Usage: "`TEMPLATE` of routes, such as /orders/{id}, or @FILE with one a line; repeatable"},
		&cli.StringSliceFlag{Name: "trusted-proxies", Usage: "`CIDR` of proxies, whose X-Forwarded-For is read as by the middleware; " +
			"repeatable (default: private networks)"},
		&cli.StringFlag{Name: "time-zone", Usage: "`ZONE` of times that have none, such as UTC or Europe/Berlin"},
		&cli.StringFlag{Name: "time-format", Usage: "`FORM` of the times, such as '%d.%m.%Y %H:%M:%S'"},
	)
}

// parseProxy reads the addresses of proxies: a prefix, or one address.
func parseProxy(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New("no address and no prefix")
	}
	return prefix, nil
}

// hasExpressions reports whether expressions read the requests of the log.
func hasExpressions(c *cli.Context) bool { return hasConfig(c) || c.IsSet("key") }

// mappable are the fields of a request that a log may fill, besides headers.NAME, claims.NAME and
// descriptors.NAME.
var mappable = []string{"ip", "method", "path", "route", "host", "query", "user", "domain", "cost", "size"}

// parseMap reads request.FIELD=FIELD_OF_THE_LOG.
func parseMap(values []string) (map[string]string, error) {
	var fields map[string]string
	for _, value := range values {
		to, from, found := strings.Cut(value, "=")
		name, ours := strings.CutPrefix(to, "request.")
		if !found || !ours || from == "" {
			return nil, usagef(replayHint, "--map %s: want request.FIELD=FIELD_OF_THE_LOG", value)
		}

		// Expressions see headers in lower case.
		header, isHeader := strings.CutPrefix(name, "headers.")
		claim, isClaim := strings.CutPrefix(name, "claims.")
		if isHeader {
			name = "headers." + strings.ToLower(header)
		}
		entry, isEntry := strings.CutPrefix(name, "descriptors.")
		if !slices.Contains(mappable, name) && (!isHeader || header == "") && (!isClaim || claim == "") && (!isEntry || entry == "") {
			return nil, usagef(replayHint, "--map %s: request has %s, headers.NAME, claims.NAME and descriptors.NAME", value,
				strings.Join(mappable, ", "))
		}
		if fields == nil {
			fields = map[string]string{}
		}
		if _, twice := fields[name]; twice {
			return nil, usagef(replayHint, "--map %s: request.%s is mapped twice", value, name)
		}
		fields[name] = from
	}
	return fields, nil
}
