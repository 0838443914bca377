package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// haLimit is one limit of a stick table. Proxies that share the table share it.
type haLimit struct {
	table  string
	key    []expr
	limit  int64
	counts bool // denied requests, too
	when   expr
	asked  expr // the condition of the counter's own rule
	turns  []haTurn
	place  Place
	text   string
}

// haTrack is a rule track-sc that is in force.
type haTrack struct {
	haLine
	counter, table string
	key            []expr
	when           expr
	asked          expr // the condition that the rule has
	at             int  // its place among the rules of the proxy
}

// haWay is the way of a request through the rules of a proxy.
type haWay struct {
	*haproxy
	proxy  *haProxy
	at     int // the place of the rule that is followed
	tracks []haTrack
	passed expr // the condition under which no rule so far has ended the way
}

// limitsOf follows the rules of a proxy in their order.
func (h *haproxy) limitsOf(p *haProxy) {
	w := &haWay{haproxy: h, proxy: p, passed: h.reaches(p)}
	for i, rule := range p.rules {
		w.at = i
		action, rest := rule.word(1), rule.words[min(2, len(rule.words)):]
		if rule.words[0] == "tcp-request" {
			action, rest = rule.word(2), rule.words[min(3, len(rule.words)):]
		}
		arguments, condition := haCondition(rest)

		counter, isTrack := strings.CutPrefix(action, "track-sc")
		switch {
		case isTrack:
			w.track(rule, counter, arguments, condition)
		case haEnds[action]:
			w.end(rule, action, condition)
		case haChanges[action] != "":
			h.in.leave(rule.Place, rule.text(), "%s", haChanges[action])
		case !haActions[action]:
			h.in.leave(rule.Place, rule.text(),
				"unknown to the importer: if it limits requests, or decides which are limited, no policy has that")
		}
	}
}

// haEnds are actions after which no further rule of the proxy is asked.
var haEnds = setOf("deny tarpit reject silent-drop return redirect auth allow use-service")

// haActions are actions that do not decide about a request.
var haActions = setOf(`add-header add-acl del-acl del-header replace-header replace-value set-header set-log-level set-var set-
	var-fmt unset-var cache-use capture disable-l7-retry do-resolve early-hint inspect-delay expect-proxy
	expect-netscaler-cip normalize-uri set-bc-mark set-bc-tos set-fc-mark set-fc-tos set-mark set-nice set-
	priority-class set-priority-offset set-timeout set-tos strict-mode wait-for-body wait-for-handshake add-
	headers-bin del-headers-bin set-headers-bin set-map del-map set-query set-bandwidth-limit accept set-
	retries switch-mode send-spoe-group pause`)

const pathChanges = "the path is another one afterwards: policies go by the path that was asked for"

// haChanges are actions that change what later rules see.
var haChanges = map[string]string{
	"set-path": pathChanges, "set-pathq": pathChanges, "set-uri": pathChanges, "replace-path": pathChanges, "replace-pathq": pathChanges,
	"replace-uri": pathChanges,
	"set-src":     byAddress, "set-src-port": byAddress,
	"set-method": "the method is another one afterwards: policies go by the one that was sent",
}

// haCondition parts the words of a rule: its arguments, and the condition from if or unless on.
func haCondition(words []string) (arguments, condition []string) {
	i := slices.IndexFunc(words, func(word string) bool { return word == "if" || word == "unless" })
	if i < 0 {
		return words, nil
	}
	return words[:i], words[i:]
}

// track notes a counter. A counter that tracks already keeps its key.
func (w *haWay) track(rule haLine, counter string, arguments, condition []string) {
	when, bad := w.plainCondition(condition)
	if len(arguments) == 0 {
		bad = "it has no key"
	}
	if bad != "" {
		w.in.leave(rule.Place, rule.text(), "%s", bad)
		return
	}

	asked, table := when, w.tableOf(arguments)
	key, differs, bad := haKey(arguments[0])
	if bad != "" {
		w.in.leave(rule.Place, rule.text(), "%s", bad)
		return
	}
	if differs != "" {
		w.in.leave(rule.Place, rule.text(), "%s", differs)
	}
	for _, part := range key {
		if !neverEmpty(part) && part.text[0] != '"' && !strings.HasPrefix(part.text, "ipGroup") {
			when = and(when, composed(relation, part.in(atom), ` != ""`)) // a missing value is not tracked
		}
	}
	for _, t := range w.tracks {
		if t.counter == counter {
			when = and(when, not(t.when))
		}
	}
	w.tracks = append(w.tracks, haTrack{rule, counter, table, key, and(w.passed, when), asked, w.at})
}

// tableOf returns the table that a rule names, or the table of the proxy.
func (w *haWay) tableOf(arguments []string) string {
	if i := slices.Index(arguments, "table"); i >= 0 && i+1 < len(arguments) {
		return arguments[i+1]
	}
	return w.proxy.name
}

// end follows a rule that ends the way of some requests. With a rate in its condition it is a limit.
func (w *haWay) end(rule haLine, action string, condition []string) {
	list, bad := w.alternatives(condition)
	if bad != "" {
		w.in.leave(rule.Place, rule.text(), "%s", bad)
		return
	}

	ends := no
	for _, c := range list {
		switch {
		case len(c.rates) == 0:
			ends = or(ends, c.rest)
		case action == "allow" || action == "redirect" || action == "auth" || action == "use-service":
			w.in.leave(rule.Place, rule.text(), "a rate decides here about something else than a denial")
		case len(c.rates) > 1:
			w.in.leave(rule.Place, rule.text(), "denies where two rates are exceeded at once: no policy has that")
		default:
			w.limit(rule, c)
		}
	}
	w.passed = and(w.passed, not(ends))
}

// limit makes a limit of a rule that denies above a rate, for each counter that the rule may mean.
func (w *haWay) limit(rule haLine, c haAlternative) {
	rate, found := c.rates[0], false
	for _, t := range w.tracks {
		byCounter := rate.counter != "" && t.counter == rate.counter && (rate.table == "" || rate.table == t.table)
		if byCounter || rate.source && t.table == rate.table {
			w.limitOf(rule, c, &haLimit{
				table: t.table, key: t.key, limit: rate.above, counts: true, when: t.when, asked: t.asked, turns: []haTurn{{w.proxy, t.at, w.at}},
			}, rate.bad)
			found = true
		}
	}
	if found {
		return
	}

	// A rule before the counter sees the requests that were let through, and not this one.
	l, bad := &haLimit{limit: rate.above + 1}, rate.bad
	if bad == "" {
		bad = w.trackedLater(rate, l)
	}
	w.limitOf(rule, c, l, bad)
}

// limitOf keeps a limit of a rule, or says why it is left out.
func (w *haWay) limitOf(rule haLine, c haAlternative, l *haLimit, bad string) {
	l.place, l.text = rule.Place, rule.text()
	table := w.tables[l.table]
	switch {
	case bad != "":
	case table == nil:
		bad = "no stick-table " + l.table + " in these files: name the file that has it, too"
	case !table.hasRate:
		bad = "its stick-table stores no http_req_rate"
	}
	if bad != "" {
		w.in.leave(rule.Place, rule.text(), "%s", bad)
		return
	}

	w.narrow(l, c.rest)
	w.counted[w.proxy.name] = true
	w.share(l)
}

// trackedLater finds the rule that counts what a limit has let through.
func (w *haWay) trackedLater(rate *haRate, l *haLimit) (bad string) {
	if !rate.source {
		return "no track-sc" + rate.counter + " comes before it, so it denies nothing"
	}
	for at, later := range w.proxy.rules {
		i := slices.IndexFunc(later.words, func(word string) bool { return strings.HasPrefix(word, "track-sc") })
		if i < 0 || at <= w.at || later.word(i+1) != "src" {
			continue
		}

		arguments, condition := haCondition(later.words[i+1:])
		table := w.tableOf(arguments)
		when, bad := w.plainCondition(condition)
		if table == rate.table && bad == "" {
			l.table, l.key, l.when, l.asked = table, []expr{requestIP}, and(w.passed, when), when
			l.turns = []haTurn{{w.proxy, at, w.at}}
			return ""
		}
	}
	return "no track-sc of src in this proxy counts in table " + rate.table
}

// narrow adds what else the rule asks for. Requests that are counted and never denied need a sentence: only where the condition is one of
// the key itself, no key has both kinds.
func (w *haWay) narrow(l *haLimit, rest expr) {
	if rest == yes || rest == l.when || rest == l.asked {
		return
	}
	ofKey := len(l.key) == 1 && l.key[0] == requestIP && !strings.Contains(strings.ReplaceAll(rest.text, "request.ip", ""), "request.")
	if !ofKey {
		w.in.leave(l.place, l.text, "HAProxy counts all requests that it tracks, and the policy those that the rule can deny")
	}
	l.when = and(l.when, rest)
}

// share notes a limit, or adds its requests to the same limit of another proxy.
func (w *haWay) share(l *haLimit) {
	// Each turn is compared with each other one.
	if w.turns++; w.turns > mostTurns {
		w.in.leave(l.place, l.text, "more than %d limits: import a smaller configuration", mostTurns)
		return
	}

	for _, other := range w.limits {
		if other.table == l.table && other.limit == l.limit && other.counts == l.counts && slices.Equal(other.key, l.key) {
			other.when, other.turns = or(other.when, l.when), append(other.turns, l.turns...)
			return
		}
	}
	w.limits = append(w.limits, l)
}

// policies makes the policies.
func (h *haproxy) policies() {
	for _, list := range h.dependent() {
		h.together(list)
	}

	// A proxy is reached by its port.
	if len(h.counted) > 1 {
		for _, p := range h.proxies {
			if h.counted[p.name] && p.kind != "backend" {
				h.in.leave(p.Place, p.kind+" "+p.name, "a policy sees no port: the limits of each proxy hold for the requests of all")
			}
		}
	}
}

// policy makes a policy of a limit. HAProxy rounds a rate down to a whole request, so it admits up to, but not, one request more than
// the limit. Its clock has milliseconds: in parts of a request as many as the period has milliseconds, that is a whole number. For
// numbers that no algorithm takes it is left out what that changes.
func (h *haproxy) policy(l *haLimit) Policy {
	table := h.tables[l.table]
	p := Policy{
		Name: l.table, Place: l.place, Origin: l.text + "; " + table.text() + " at " + table.Place.String(), when: l.when, key: l.key,
		side: side{algorithm: "sliding_window_counter", limit: l.limit, window: table.period, countDenied: l.counts, phase: "first"},
	}
	more := p.side
	more.limit++
	units := table.period.Milliseconds()
	if units == 0 || table.period%time.Millisecond != 0 || !more.times(units).sound() {
		p.Differs = append(p.Differs, "a rate is rounded down: HAProxy may admit one request more")
	} else if l.limit > 0 {
		p.side = more.times(units)
		p.side.limit--
		p.cost = units
	}

	if table.expire > 0 && table.expire < 2*table.period {
		expire := table.expire.Round(time.Millisecond)
		p.Differs = append(p.Differs, fmt.Sprintf("expire %s is less than two periods: HAProxy forgets a client before", expire))
	}
	return p
}
