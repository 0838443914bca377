package importer

import (
	"slices"
	"strings"
	"time"
)

// haproxy collects what a configuration says about request rates.
type haproxy struct {
	in       *Import
	defaults map[string]*haProxy // by name, for the proxies that begin with from
	proxies  []*haProxy
	tables   map[string]*haTable
	limits   []*haLimit
	turns    int             // of all limits
	counted  map[string]bool // the proxies that limit
}

// haProxy is a frontend, a backend or both.
type haProxy struct {
	Place
	kind, name string
	tcp        bool
	acls       map[string][]haLine
	rules      []haLine // tcp-request before http-request, each in the order of the file
	backends   []haLine // use_backend and default_backend
}

// haTable is a stick table with a rate of requests.
type haTable struct {
	haLine
	period  time.Duration // of http_req_rate; 0 without it
	expire  time.Duration
	hasRate bool
}

// haSections are the words that begin a section.
var haSections = setOf(`global defaults frontend backend listen peers resolvers userlist mailers cache program ring http-errors fcgi-app
	log-forward log-profile crt-store traces acme`)

// readHAProxy imports limits of http_req_rate: a stick table, a track-sc and a rule that denies.
func readHAProxy(in *Import, d *disk) error {
	h := &haproxy{in: in, defaults: map[string]*haProxy{}, tables: map[string]*haTable{}, counted: map[string]bool{}}
	for _, file := range in.Files {
		text, err := d.read(file)
		if err != nil {
			return err
		}
		lines, err := haLines(file, text)
		if err != nil {
			return err
		}
		if err := h.sections(lines); err != nil {
			return err
		}
	}

	for _, p := range h.proxies {
		h.limitsOf(p)
	}
	h.policies()
	return nil
}

// sections sorts the lines by the section in which they stand.
func (h *haproxy) sections(lines []haLine) error {
	kind := ""
	var p *haProxy
	for _, l := range lines {
		first := l.words[0]
		switch {
		case haSections[first]:
			kind = first
			p = h.open(l)

		// Lines of a condition are read whatever it is: nothing of the file is then missed.
		case strings.HasPrefix(first, "."):
			h.in.leave(l.Place, l.text(), "a condition of the configuration: the lines of all its branches are read")

		case kind == "":
			return &Error{l.Place, "no configuration of HAProxy: " + shown(first) + " stands in no section"}
		case p != nil:
			h.line(p, l)
		case kind == "peers" && first == "table":
			h.table(l.word(1), haLine{l.Place, append([]string{"stick-table"}, l.words[min(2, len(l.words)):]...)})
		}
	}
	return nil
}

// open begins a section. Only proxies have rules.
func (h *haproxy) open(l haLine) *haProxy {
	p := &haProxy{Place: l.Place, kind: l.words[0], name: l.word(1), acls: map[string][]haLine{}}
	if i := slices.Index(l.words, "from"); i > 0 {
		if base := h.defaults[l.word(i+1)]; base != nil {
			p.tcp, p.rules = base.tcp, slices.Clone(base.rules)
			for name, lines := range base.acls {
				p.acls[name] = slices.Clone(lines)
			}
		}
	} else if base := h.defaults[""]; base != nil {
		p.tcp = base.tcp
	}

	switch p.kind {
	case "defaults":
		if p.name == "from" {
			p.name = ""
		}
		h.defaults[p.name] = p
		if p.name != "" {
			h.defaults[""] = p // a proxy without from takes the last defaults
		}
	case "frontend", "backend", "listen":
		if len(h.proxies) >= mostLocations {
			h.in.leave(l.Place, l.text(), "more than %d proxies: import a smaller configuration", mostLocations)
			return nil
		}
		h.proxies = append(h.proxies, p)
	default:
		return nil
	}
	return p
}

// haHarmless are directives of proxies that do not limit requests.
var haHarmless = setOf(`bind server server-template default-server option no timeout balance log log-format log-format-sd log-tag log-steps
	stats errorfile errorfiles errorloc errorloc302 errorloc303 error-log-format http-response http-after-response cookie redirect
	compression monitor-uri monitor retries retry-on filter capture description id disabled enabled hash-type hash-balance-factor http-check
	http-reuse http-error http-send-name-header load-server-state-from-file unique-id-format unique-id-header tcp-response tcp-check
	use-server use-fcgi-app stick source email-alert declare backlog max-keep-alive-queue persist external-check bind-process guid
	ignore-persist force-persist clitcpka-cnt clitcpka-idle clitcpka-intvl srvtcpka-cnt srvtcpka-idle srvtcpka-intvl transparent
	dispatch max-session-srv-conns quic-initial`)

// haReasons are directives that limit something else than requests.
var haReasons = map[string]string{
	"maxconn":    "limits connections, not requests",
	"fullconn":   "limits connections, not requests",
	"rate-limit": "limits connections, not requests",
	"grace":      "delays the end of the program",
}

// line reads a line of a proxy.
func (h *haproxy) line(p *haProxy, l haLine) {
	switch first := l.words[0]; {
	case first == "mode":
		p.tcp = l.word(1) == "tcp"
	case first == "acl":
		p.acls[l.word(1)] = append(p.acls[l.word(1)], haLine{l.Place, l.words[min(2, len(l.words)):]})
	case first == "stick-table":
		h.table(p.name, l)

	case first == "use_backend" || first == "default_backend":
		p.backends = append(p.backends, l)
	case first == "http-request":
		p.rules = append(p.rules, l)
	case first == "tcp-request":
		// These rules come first, wherever they stand.
		i := slices.IndexFunc(p.rules, func(r haLine) bool { return r.words[0] == "http-request" })
		if i < 0 {
			i = len(p.rules)
		}
		p.rules = slices.Insert(p.rules, i, l)
	case haReasons[first] != "":
		h.in.leave(l.Place, l.text(), "%s", haReasons[first])
	case !haHarmless[first]:
		h.in.leave(l.Place, l.text(), "unknown to the importer: if it limits requests, or decides which are limited, no policy has that")
	}
}

// table reads a stick table.
func (h *haproxy) table(name string, l haLine) {
	// The words of a table are pairs of a name and a value, in any order.
	t := &haTable{haLine: l}
	for i := 1; i+1 < len(l.words); i++ {
		switch l.words[i] {
		case "expire":
			t.expire, _ = haTime(l.words[i+1])

		// Of all that a table can store, only the rate of requests is a limiter's.
		case "store":
			for what := range strings.SplitSeq(l.words[i+1], ",") {
				period, found := strings.CutPrefix(what, "http_req_rate(")
				if found {
					t.period, t.hasRate = haTime(strings.TrimSuffix(period, ")"))
				}
			}
		}
	}

	h.tables[name] = t
}

// haUnits are the units of times, from the longest name: without one it is a millisecond.
var haUnits = []struct {
	name string
	unit time.Duration
}{
	{"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

// haTime reads a time.
func haTime(text string) (time.Duration, bool) {
	unit := time.Millisecond
	for _, u := range haUnits {
		if number, found := strings.CutSuffix(text, u.name); found {
			text, unit = number, u.unit
			break
		}
	}
	n, ok := (&value{text: text}).whole()
	return time.Duration(n) * unit, ok && n > 0 && n < mostSeconds && unit*time.Duration(n)/unit == time.Duration(n)
}
