package importer

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// nginxServer is a block server.
type nginxServer struct {
	*directive
	settings
	names     []string
	byDefault bool // of one of its addresses
	places    nginxPlaces
}

var requestHost = expr{"request.host", atom}

// server reads a block server.
func (n *nginx) server(d *directive) *nginxServer {
	s := nameServer(d)
	s.settings = n.settingsOf(d.block, n.outside)
	s.places = n.placesOf(d.block, s.settings, "")
	s.places.outermost = s.places.nest()
	return s
}

// nameServer reads the names of a block server, and whether it is the default.
func nameServer(d *directive) *nginxServer {
	s := &nginxServer{directive: d}
	for _, inner := range d.block {

		switch inner.name {
		case "server_name":
			for _, name := range inner.args {
				s.names = append(s.names, strings.ToLower(name))
			}
		case "listen":
			s.byDefault = s.byDefault || slices.Contains(inner.args, "default_server") || slices.Contains(inner.args, "default")
		}
	}

	return s
}

// hasLimits reports whether any request to the server is limited.
func (s *nginxServer) hasLimits() bool {
	if s.answered {
		return false
	}
	limited := func(p *nginxPlace) bool { return len(p.limits) > 0 && !p.settings.answered }
	return len(s.limits) > 0 || slices.ContainsFunc(s.places.all(), limited)
}

// name returns what $server_name is in it.
func (s *nginxServer) name() string {
	if len(s.names) == 0 {
		return ""
	}
	return s.names[0]
}

// byHost returns the value for the server that nginx takes for a request: by its exact name, by the longest wildcard in front, the
// longest behind, the first regular expression, and else the default server (ngx_http_find_virtual_server).
func (n *nginx) byHost(value func(*nginxServer) expr) expr {
	if len(n.servers) == 1 {
		return value(n.servers[0])
	}

	var exact []branch
	var masks []hostMask
	taken := map[string]*nginxServer{}
	for _, s := range n.byLimits() {
		var names []string
		for _, name := range s.names {
			if name == "_" || name == "" {
				continue // no host has this name: the server is there for requests with another one
			}
			if other := taken[name]; other != nil {
				if other != s {
					n.samePort(s, other, name)
				}
				continue
			}
			taken[name] = s

			mask := maskOf(name)
			switch {
			case mask.rank == exactName:
				names = append(names, mask.text)
			case mask.rank == badName:
				n.in.leave(s.Place, "server_name "+name, "no regular expression of RE2: requests to it count as the default server's")
			default:
				mask.then = value(s)
				masks = append(masks, mask)
			}
		}
		if len(names) > 0 {
			exact = append(exact, branch{oneOf(requestHost, names), value(s)})
		}
	}

	slices.SortStableFunc(masks, func(a, b hostMask) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.length, a.length))
	})
	for _, m := range masks {
		exact = append(exact, branch{m.when, m.then})
	}
	return choose(exact, value(n.defaultServer()))
}

// byLimits returns the servers, and those with limits first: of two servers of one name at two ports, that is the one that matters.
func (n *nginx) byLimits() []*nginxServer {
	list := slices.Clone(n.servers)
	slices.SortStableFunc(list, func(a, b *nginxServer) int {
		rank := func(s *nginxServer) int {
			if s.hasLimits() {
				return 0
			}
			return 1
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return list
}

// samePort says that two servers cannot be told apart, where that makes a difference.
func (n *nginx) samePort(s, other *nginxServer, name string) {
	if s.hasLimits() || other.hasLimits() {
		n.in.leave(s.Place, "server "+name, "the server at %s has the same name, and a policy sees no port: its requests count as that one's",
			other.Place)
	}
}

// defaultServer takes the requests with no name of a server.
func (n *nginx) defaultServer() *nginxServer {
	for _, s := range n.servers {
		if s.byDefault {
			return s
		}
	}
	return n.servers[0]
}

// hostMask is the condition of a name of a server.
type hostMask struct {
	branch
	rank   int
	length int // of wildcards: longer ones go first
	text   string
}

// Ranks of names, in the order in which nginx looks for them.
const (
	exactName = iota
	wildcardInFront
	wildcardBehind
	regularExpression
	badName
)

// maskOf reads one name of a server, in the order in which nginx tries the kinds of names.
func maskOf(name string) hostMask {
	m := hostMask{text: name, length: len(name)}
	switch {
	case strings.HasPrefix(name, "~"):
		m.rank, m.length = regularExpression, 0
		m.when = matches(requestHost, "(?i)"+name[1:])
		if m.when == no {
			m.rank = badName
		}

	// A leading dot stands for the name itself and all below it.
	case strings.HasPrefix(name, "*."):
		m.rank, m.when = wildcardInFront, requestHost.call("endsWith", literal(name[1:]).text)
	case strings.HasPrefix(name, ".") && len(name) > 1:
		suffix := requestHost.call("endsWith", literal(name).text)
		m.rank, m.when = wildcardInFront, or(equals(requestHost, literal(name[1:])), suffix)
	case strings.HasSuffix(name, ".*"):
		m.rank, m.when = wildcardBehind, hasPrefix(requestHost, strings.TrimSuffix(name, "*"))
	}
	return m
}

// matches returns the condition that a value matches a regular expression; no, if RE2 does not know the expression.
func matches(value expr, pattern string) expr {
	if _, err := regexp.Compile(pattern); err != nil {
		return no
	}
	return value.call("matches", literal(pattern).text)
}
