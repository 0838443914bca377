package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// haproxy collects what a configuration says about rates of requests.
type haproxy struct {
	in      *Import
	proxies []*haProxy
	tables  map[string]*haTable
	limits  []*haLimit
}

// haProxy is a frontend, a backend, both, or their defaults.
type haProxy struct {
	haLine
	acls   map[string][]haLine
	rules  []haLine // in the order in which HAProxy asks them
	tracks []haTrack
}

// haTable is a stick table.
type haTable struct {
	haLine
	name    string
	kind    string        // of its keys
	period  time.Duration // of http_req_rate
	expire  time.Duration
	hasRate bool
}

// haTrack is a rule track-sc.
type haTrack struct {
	haLine
	at             int // among the rules of its proxy
	counter, table string
	fetch          string // what is counted
}

// haLimit is a rule that denies above a rate. Rules of one table, one limit and one key have one state.
type haLimit struct {
	haLine
	table  *haTable
	track  haTrack
	limit  int64
	counts bool // what it denies
	where  []string
}

// haSections are the words that begin a section.
var haSections = setOf(`global defaults frontend backend listen peers resolvers userlist mailers cache program ring http-errors fcgi-app
	log-forward log-profile crt-store traces acme`)

// readHAProxy imports limits of http_req_rate: a stick table, a track-sc and a rule that denies.
func readHAProxy(in *Import, d *disk) error {
	h := &haproxy{in: in, tables: map[string]*haTable{}}
	for _, file := range in.Files {
		text, err := d.script(file)
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
	for _, l := range h.limits {
		h.policy(l)
	}
	return nil
}

// sections sorts the lines by the section in which they stand.
func (h *haproxy) sections(lines []haLine) error {
	kind, name := "", ""
	var p *haProxy
	for _, l := range lines {
		first := l.words[0]
		switch {
		case haSections[first]:
			kind, name, p = first, l.word(1), nil
			if kind == "defaults" || kind == "frontend" || kind == "backend" || kind == "listen" {
				p = &haProxy{haLine: l, acls: map[string][]haLine{}}
				h.proxies = append(h.proxies, p)
			}
		case strings.HasPrefix(first, "."):
			h.in.leave(l.Place, l.text(), "a condition of the configuration: the lines of all its branches are read")
		case kind == "":
			return &Error{l.Place, "no configuration of HAProxy: " + shown(first) + " stands in no section"}
		case kind == "peers" && first == "table":
			if err := h.table(name+"/"+l.word(1), l); err != nil {
				return err
			}
		case p == nil:
		case first == "acl":
			if p.acls[l.word(1)] = append(p.acls[l.word(1)], l); len(p.acls[l.word(1)]) > mostItems {
				return &Error{l.Place, fmt.Sprintf("more than %d lines of one acl", mostItems)}
			}
		case first == "stick-table":
			if err := h.table(name, l); err != nil {
				return err
			}
		case first == "http-request" || first == "tcp-request" || first == "use_backend":
			if p.rules = append(p.rules, l); len(p.rules) > mostItems {
				return &Error{l.Place, fmt.Sprintf("more than %d rules of one section", mostItems)}
			}
		case first == "rate-limit":
			h.in.leave(l.Place, l.text(), "limits connections, not requests")
		}
	}
	return nil
}

// table reads a stick table: pairs of a name and a value, in any order.
func (h *haproxy) table(name string, l haLine) error {
	t := &haTable{haLine: l, name: name}
	for i := 1; i+1 < len(l.words); i++ {
		switch l.words[i] {
		case "type":
			t.kind = l.words[i+1]
		case "expire":
			t.expire, _ = haTime(l.words[i+1])
		case "store":
			for what := range strings.SplitSeq(l.words[i+1], ",") {
				if period, found := strings.CutPrefix(what, "http_req_rate("); found {
					t.period, t.hasRate = haTime(strings.TrimSuffix(period, ")"))
				}
			}
		}
	}
	if other := h.tables[name]; other != nil {
		return &Error{l.Place, "the stick-table of " + shown(name) + " is there already, at " + other.Place.String()}
	}
	h.tables[name] = t
	return nil
}

// haUnits are the units of times, from the longest name: without one it is a millisecond.
var haUnits = []struct {
	name string
	unit time.Duration
}{
	{"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

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

// parts returns the action of a rule, its arguments, and its condition from if or unless on.
func (l haLine) parts() (action string, arguments, condition []string) {
	switch l.words[0] {
	case "use_backend":
		action, arguments = "use_backend", l.words[1:]
	case "tcp-request":
		action, arguments = l.word(2), l.words[min(3, len(l.words)):]
	default:
		action, arguments = l.word(1), l.words[min(2, len(l.words)):]
	}
	i := slices.IndexFunc(arguments, func(word string) bool { return word == "if" || word == "unless" })
	if i < 0 {
		return action, arguments, nil
	}
	return action, arguments[:i], arguments[i:]
}

// stage orders rules as HAProxy asks them, wherever they stand.
func (l haLine) stage() int {
	switch l.words[0] {
	case "tcp-request":
		return slices.Index([]string{"connection", "session", "content"}, l.word(1))
	case "http-request":
		return 3
	}
	return 4
}

// haDenials are actions that refuse a request.
var haDenials = setOf("deny tarpit reject silent-drop return")

func (h *haproxy) limitsOf(p *haProxy) {
	slices.SortStableFunc(p.rules, func(a, b haLine) int { return a.stage() - b.stage() })
	for at, rule := range p.rules {
		action, arguments, _ := rule.parts()
		counter, isTrack := strings.CutPrefix(action, "track-sc")
		switch {
		case isTrack && len(arguments) > 0:
			t := haTrack{haLine: rule, at: at, counter: counter, table: p.word(1), fetch: arguments[0]}
			if i := slices.Index(arguments, "table"); i >= 0 && i+1 < len(arguments) {
				t.table = arguments[i+1]
			}
			p.tracks = append(p.tracks, t)
		case action == "set-src":
			h.in.leave(rule.Place, rule.text(), byAddress)
		}
	}

	for at, rule := range p.rules {
		action, _, condition := rule.parts()
		c := p.condition(condition)
		bad := ""
		switch {
		case len(c.rates) == 0 && !(c.counts && haDenials[action]):
			continue
		case len(c.rates) == 0:
			bad = "limits something else than the rate of requests"
		case !haDenials[action]:
			bad = "a rate decides here about something else than a denial"
		case rule.word(1) == "connection" || rule.word(1) == "session":
			bad = "it is asked once a connection, and not for each request"
		case len(c.rates) > 1:
			bad = "several rates in one condition: no policy has that"
		case c.rates[0].bad != "":
			bad = c.rates[0].bad
		default:
			bad = h.limit(p, at, c)
		}
		if bad != "" {
			h.in.leave(rule.Place, rule.text(), "%s", bad)
		}
	}
}

// haCondition is what a condition says about counters.
type haCondition struct {
	rates  []haRate
	counts bool     // some counter decides
	acls   []string // the lines of what it names
}

// haRate is a comparison of http_req_rate: true above a number of requests.
type haRate struct {
	counter string // of track-sc; "" for src_http_req_rate
	table   string // "": that of the counter, or the proxy's
	above   int64
	bad     string // why it is none that a policy has
}

// haCounter is a fetch of what a table counts.
var haCounter = regexp.MustCompile(`^(?:sc\d*|src)_\w*(?:rate|cnt|cur|gpc|gpt)|,table_`)

// condition reads a condition, and the ACLs that it names.
func (p *haProxy) condition(words []string) (c haCondition) {
	negated := false
	for i := 1; i < len(words); i++ {
		word := words[i]
		if stripped := strings.TrimLeft(word, "!"); stripped != word {
			negated = negated != ((len(word)-len(stripped))%2 == 1)
			if word = stripped; word == "" {
				continue // the sign stands alone, before its term
			}
		}

		lines := p.acls[word]
		if word == "{" {
			end := slices.Index(words[i:], "}")
			if end < 0 {
				end = len(words) - i
			}
			lines = []haLine{{words: append([]string{"acl", ""}, words[i+1:i+end]...)}}
			i += end
		}
		for _, l := range lines {
			if l.word(1) != "" && len(c.acls) <= mostWhere {
				c.acls = append(c.acls, fmt.Sprintf("%s (%s)", l.text(), l.Place))
			}
			fetch := l.word(2)
			c.counts = c.counts || haCounter.MatchString(fetch)
			if strings.Contains(fetch, "http_req_rate") && len(c.rates) < 2 {
				c.rates = append(c.rates, rateOf(fetch, l.words[3:], negated != (words[0] == "unless")))
			}
		}
		negated = false
	}
	return c
}

// rateOf reads a comparison such as sc_http_req_rate(0) gt 20, sc0_http_req_rate ge 20, and src_http_req_rate(table) gt 20.
func rateOf(text string, operands []string, negated bool) (r haRate) {
	fetch, arguments, _ := strings.Cut(text, "(")
	r.table = strings.TrimSuffix(arguments, ")")
	switch {
	case fetch == "sc_http_req_rate":
		r.counter, r.table, _ = strings.Cut(r.table, ",")
	case fetch == "src_http_req_rate":
	case strings.HasPrefix(fetch, "sc") && strings.HasSuffix(fetch, "_http_req_rate"):
		r.counter = strings.TrimSuffix(strings.TrimPrefix(fetch, "sc"), "_http_req_rate")
	default:
		r.bad = text + " is no rate that a policy has"
		return r
	}

	// Flags do not change a comparison of numbers.
	operands = slices.DeleteFunc(slices.Clone(operands), func(word string) bool { return word == "-m" || word == "int" || word == "--" })
	if len(operands) != 2 || strings.Contains(text, "),") {
		r.bad = "want one comparison, such as gt 20, of " + text
		return r
	}
	n, err := strconv.ParseInt(operands[1], 10, 64)
	if err != nil || n < 0 || n > mostRate {
		r.bad = "no number of requests: " + operands[1]
		return r
	}

	operator := operands[0]
	if opposite := map[string]string{"gt": "le", "ge": "lt", "le": "gt", "lt": "ge"}; negated {
		operator = opposite[operator]
	}
	switch operator {
	case "gt":
		r.above = n
	case "ge":
		r.above = n - 1 // rates are whole numbers
	default:
		r.bad = "does not deny above a rate"
	}
	if r.above < 0 {
		r.bad = "denies always"
	}
	return r
}

// limit makes a limit of a rule, for each counter that its rate may mean.
func (h *haproxy) limit(p *haProxy, at int, c haCondition) (bad string) {
	rate, rule := c.rates[0], p.rules[at]
	_, _, condition := rule.parts()
	var tracks []haTrack
	for _, t := range p.tracks {
		byCounter := rate.counter != "" && t.counter == rate.counter && (rate.table == "" || rate.table == t.table) && t.at < at
		bySource := rate.counter == "" && t.fetch == "src" && (t.table == rate.table || rate.table == "" && t.table == p.word(1))
		if (byCounter || bySource) && len(tracks) <= mostWhere {
			tracks = append(tracks, t)
		}
	}
	switch {
	case len(tracks) == 0 && rate.counter != "":
		return "no track-sc" + rate.counter + " before it in this section: what it counts is unclear"
	case len(tracks) == 0:
		return "no track-sc of src in this section counts in its table: what it counts is unclear"
	case len(tracks) > mostWhere:
		return fmt.Sprintf("more than %d rules count for it", mostWhere)
	}

	counts := tracks[0].at < at
	for _, t := range tracks {
		bad, table := "", h.tables[t.table]
		switch {
		case (t.at < at) != counts:
			bad = "some requests are counted before it and others after it"
		case table == nil:
			bad = "no stick-table " + t.table + " in these files: name the file that has it, too"
		case !table.hasRate:
			bad = "its stick-table at " + table.Place.String() + " stores no http_req_rate"
		}
		if bad != "" {
			return bad
		}

		// A rule before the counter sees the requests that were let through, and not this one.
		l := &haLimit{haLine: rule, table: table, track: t, limit: rate.above, counts: counts}
		if !counts {
			l.limit++
		}
		l.where = append([]string{
			fmt.Sprintf("%s: %s (%s)", p.text(), strings.Join(condition, " "), rule.Place),
			fmt.Sprintf("counted by %s (%s)", t.text(), t.Place),
		}, c.acls...)
		l.where = append(l.where, p.condition(t.condition()).acls...)
		h.share(l)
	}
	return ""
}

func (t haTrack) condition() []string {
	_, _, condition := t.parts()
	return condition
}

// key returns the expression of what is counted by, if it is a plain one.
func (t haTrack) key() (key, bad string) {
	fetch, argument, _ := strings.Cut(t.fetch, "(")
	argument = strings.TrimSuffix(argument, ")")
	plain := argument != "" && !strings.ContainsAny(argument, ",()")
	switch {
	case t.fetch == "src":
		return requestIP, ""
	case plain && (fetch == "hdr" || fetch == "req.hdr" || fetch == "req.fhdr"):
		return headerKey(argument), ""
	case plain && (fetch == "url_param" || fetch == "urlp"):
		return entryOf("request.query", argument), ""
	}
	return "", fmt.Sprintf("its key %s, at %s, is no plain field of a request", t.fetch, t.Place)
}

// share notes a limit, or adds its requests to the one that has the same state.
func (h *haproxy) share(l *haLimit) {
	for _, other := range h.limits {
		if other.table == l.table && other.limit == l.limit && other.counts == l.counts && other.track.fetch == l.track.fetch {
			if len(other.where) <= mostWhere {
				other.where = append(other.where, l.where...)
			}
			return
		}
	}
	if len(h.limits) >= mostPolicies {
		h.in.leave(l.Place, l.text(), "more than %d limits: import a smaller configuration", mostPolicies)
		return
	}
	h.limits = append(h.limits, l)
}

// policy makes a policy of a limit: HAProxy's rate is the count of a window and the rest of the one before it.
func (h *haproxy) policy(l *haLimit) {
	key, bad := l.track.key()
	p := Policy{
		Name: l.table.name, Place: l.Place, Origin: l.text() + "; " + l.table.text() + " at " + l.table.Place.String(), Where: l.where,
		key: []string{key}, bad: bad, side: side{algorithm: "sliding_window_counter", limit: l.limit, window: l.table.period},
	}
	switch {
	case key == requestIP && l.table.kind == "ip":
		p.Where = append([]string{"the client has an IPv4 address: a stick-table of type ip has no others"}, p.Where...)
	case key != requestIP:
		p.Where = append([]string{"the request has such a field: HAProxy does not count one without"}, p.Where...)
	}
	if l.counts {
		p.Differs = append(p.Differs, "HAProxy counts a request that it denies, too")
	}
	if l.table.expire > 0 && l.table.expire < 2*l.table.period {
		p.Differs = append(p.Differs, fmt.Sprintf("expire %s is less than two periods: HAProxy forgets a client before", l.table.expire.Round(time.Millisecond)))
	}
	h.in.add(p)
}

// haLine is a line of HAProxy in words.
type haLine struct {
	Place
	words []string
}

func (l *haLine) text() string { return strings.Join(l.words, " ") }

// word returns a word, "" behind the last one.
func (l *haLine) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

// haLines takes a file apart. Quotes and backslashes keep spaces in a word (parse_line in src/tools.c).
func haLines(file, text string) (list []haLine, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, bad := haWords(strings.TrimRight(line, "\r\n"))
		if bad != "" {
			return nil, &Error{Place{file, number}, bad}
		}

		// Lines of a comment alone are none. A file is hostile, so their number is bounded.
		if len(words) > 0 {
			list = append(list, haLine{Place{file, number}, words})
		}
		if len(list) > mostDirectives {
			return nil, &Error{Place{file, number}, fmt.Sprintf("more than %d lines", mostDirectives)}
		}
	}
	return list, nil
}

// haWords takes a line apart.
func haWords(line string) (words []string, bad string) {
	var b strings.Builder
	inside, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			if inside {
				words = append(words, b.String())
			}
			b.Reset()
			inside = false
			continue
		case quote == 0 && c == '#':
			i = len(line)
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote, inside = c, true
			continue
		case quote == c:
			quote = 0
			continue
		case c == '\\' && quote != '\'':
			// A regular expression keeps a backslash, unless a sign of the configuration follows.
			if i++; i == len(line) {
				return nil, "a backslash ends the line"
			}
			if strings.IndexByte(" #\\\"'$", line[i]) < 0 {
				b.WriteByte('\\')
			}
			c = line[i]
		}
		b.WriteByte(c)
		inside = true
	}

	if quote != 0 {
		return nil, "the quote is not closed"
	}
	if inside {
		words = append(words, b.String())
	}
	return words, ""
}
