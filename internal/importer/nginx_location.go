package importer

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// nginxPlace is a location, of which the inner ones stand beside the outer ones: a prefix inside another is the longer one anyway.
type nginxPlace struct {
	settings
	at    Place
	kind  string // "=", "^~", "~", "~*" or "" as the configuration has it
	uri   string
	in    string        // the prefix of the location around it, for regular expressions
	inner []*nginxPlace // the prefixes inside this one
}

// nginxPlaces are the locations of a server.
type nginxPlaces struct {
	exact     []*nginxPlace
	prefixes  []*nginxPlace // the longest first
	patterns  []*nginxPlace // in the order in which nginx tries them
	outermost []*nginxPlace // of the prefixes
}

func (p *nginxPlaces) all() []*nginxPlace { return slices.Concat(p.exact, p.prefixes, p.patterns) }

// mostLocations bounds the locations of all servers: each is a part of the condition of each limit.
const mostLocations = 1000

var requestPath = expr{"request.path", atom}

// placesOf reads the locations of a block.
func (n *nginx) placesOf(list []*directive, outer settings, prefix string) (all nginxPlaces) {
	var own []*nginxPlace
	for _, d := range list {
		if d.name != "location" || len(d.args) == 0 {
			continue
		}
		if n.locations++; n.locations > mostLocations {
			n.in.leave(d.Place, d.text(), "more than %d locations: import a smaller configuration", mostLocations)
			break
		}
		place := locationOf(d, prefix)
		place.settings = n.settingsOf(d.block, settings{limits: outer.limits, dryRun: outer.dryRun})

		// A named location is reached from another one, after the limits of that one were asked.
		if strings.HasPrefix(place.uri, "@") {
			continue
		}
		inner := n.placesOf(d.block, place.settings, place.uri)
		all.exact = append(all.exact, inner.exact...)
		all.prefixes = append(all.prefixes, inner.prefixes...)
		all.patterns = append(all.patterns, inner.patterns...)
		own = append(own, place)
	}

	// The regular expressions of inner locations are tried before those around them.
	for _, place := range own {
		switch place.kind {
		case "=":
			all.exact = append(all.exact, place)
		case "~", "~*":
			if _, err := regexp.Compile(place.uri); err != nil {
				n.in.leave(place.at, "location "+place.kind+" "+place.uri, "no regular expression of RE2: its requests count as the next location's")
				continue
			}
			all.patterns = append(all.patterns, place)
		default:
			all.prefixes = append(all.prefixes, place)
		}
	}
	slices.SortStableFunc(all.prefixes, func(a, b *nginxPlace) int { return cmp.Compare(len(b.uri), len(a.uri)) })
	return all
}

// locationOf reads the head of a location: a modifier and a URI, or both in one word.
func locationOf(d *directive, prefix string) *nginxPlace {
	p := &nginxPlace{at: d.Place, uri: d.args[0], in: prefix}
	if len(d.args) > 1 {
		p.kind, p.uri = d.args[0], d.args[1]
		return p
	}

	for _, kind := range []string{"^~", "=", "~*", "~"} {
		if rest, found := strings.CutPrefix(p.uri, kind); found {
			p.kind, p.uri = kind, rest
			break
		}
	}
	return p
}

// byPath returns the value for the location that nginx takes for a path (ngx_http_core_find_location): an exact one, the longest
// prefix with ^~, the first regular expression, the longest prefix, and else the server itself.
func (s *nginxServer) byPath(value func(settings) expr) expr {
	if s.answered {
		return value(settings{answered: true})
	}

	var branches []branch
	for _, p := range s.places.exact {
		branches = append(branches, branch{equals(requestPath, literal(p.uri)), value(p.settings)})
	}

	// Only the longest prefix can keep the regular expressions away.
	if len(s.places.patterns) > 0 {
		for i, p := range s.places.prefixes {
			if p.kind == "^~" {
				branches = append(branches, branch{s.places.isLongest(i), value(p.settings)})
			}
		}
	}
	for _, p := range s.places.patterns {
		branches = append(branches, branch{p.matches(), value(p.settings)})
	}
	return choose(branches, s.places.byPrefix(s.places.outermost, value(s.settings), value))
}

// byPrefix returns the value for the longest prefix of a path among some, of which each is inside the same outer one. Of two
// prefixes of which neither begins with the other a path has one at most, so only those inside one another exclude each other.
func (p *nginxPlaces) byPrefix(list []*nginxPlace, otherwise expr, value func(settings) expr) expr {
	all := otherwise
	for _, place := range list {
		inner := p.byPrefix(place.inner, value(place.settings), value)

		switch {
		case place.holds() == yes:
			all = inner
		case inner == otherwise:
		case otherwise == no:
			all = or(all, and(place.holds(), inner))
		default:
			all = and(all, or(not(place.holds()), inner))
		}
	}

	return all
}

// nest puts each prefix into the longest one that it begins with, and returns the others.
func (p *nginxPlaces) nest() (outermost []*nginxPlace) {
	for i := len(p.prefixes) - 1; i >= 0; i-- {
		place := p.prefixes[i]
		around := slices.IndexFunc(p.prefixes[i+1:], func(shorter *nginxPlace) bool { return strings.HasPrefix(place.uri, shorter.uri) })

		switch {
		case around < 0:
			outermost = append(outermost, place)
		case p.prefixes[i+1+around].uri != place.uri:
			outer := p.prefixes[i+1+around]
			outer.inner = append(outer.inner, place)
		}
	}
	return outermost
}

// isLongest returns the condition that a prefix is the longest one that a path has.
func (p *nginxPlaces) isLongest(i int) expr {
	when := p.prefixes[i].holds()
	for _, longer := range p.prefixes[:i] {
		if strings.HasPrefix(longer.uri, p.prefixes[i].uri) {
			when = and(when, not(longer.holds()))
		}
	}
	return when
}

// holds returns the condition of a prefix. Every path has the prefix /.
func (p *nginxPlace) holds() expr {
	if p.uri == "/" || p.uri == "" {
		return yes
	}
	return hasPrefix(requestPath, p.uri)
}

// matches returns the condition of a regular expression, within the location around it.
func (p *nginxPlace) matches() expr {
	pattern := p.uri
	if p.kind == "~*" {
		pattern = "(?i)" + pattern
	}
	when := matches(requestPath, pattern)
	if p.in != "" && p.in != "/" {
		when = and(hasPrefix(requestPath, p.in), when)
	}
	return when
}
