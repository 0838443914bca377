package importer

import (
	"slices"
	"strconv"
	"strings"
)

// haAlternative is a part of a condition between two "or": rates that are exceeded, and what else holds.
type haAlternative struct {
	rates []*haRate
	rest  expr
}

// haRate is a comparison of http_req_rate: true above a number of requests.
type haRate struct {
	counter string // of track-sc; "" for src_http_req_rate
	source  bool
	table   string
	above   int64
	bad     string // why it is none that a policy has
}

// mostAlternatives bounds those of one condition: ACLs of several lines multiply.
const mostAlternatives = 64

// plainCondition returns a condition without rates.
func (w *haWay) plainCondition(words []string) (when expr, bad string) {
	list, bad := w.alternatives(words)
	when = no
	for _, c := range list {
		if len(c.rates) > 0 {
			return no, "a rate in the condition of a counter: no policy has that"
		}
		when = or(when, c.rest)
	}
	return when, bad
}

// alternatives reads a condition: if or unless, and terms, of which those side by side must hold together.
func (w *haWay) alternatives(words []string) (list []haAlternative, bad string) {
	if len(words) == 0 {
		return []haAlternative{{rest: yes}}, ""
	}

	current := []haAlternative{{rest: yes}}
	for i := 1; i < len(words); i++ {
		word := words[i]
		if word == "||" || word == "or" {
			list, current = append(list, current...), []haAlternative{{rest: yes}}
			continue
		}
		negated := false
		for word == "!" || strings.HasPrefix(word, "!") {
			negated = !negated
			if word = word[1:]; word == "" && i+1 < len(words) {
				i++
				word = words[i]
			}
		}

		lines := w.proxy.acls[word]
		if word == "{" {
			end := slices.Index(words[i:], "}")
			if end < 0 {
				return nil, "a } is missing"
			}
			lines = []haLine{{words: words[i+1 : i+end]}}
			i += end
		}
		terms, bad := w.terms(word, lines, negated)
		if bad != "" {
			return nil, bad
		}
		if current = haBoth(current, terms); len(current)+len(list) > mostAlternatives {
			return nil, "its condition has too many alternatives"
		}
	}
	list = append(list, current...)
	if words[0] == "unless" {
		return haNegated(list)
	}
	return list, ""
}

// haBoth returns the alternatives of which one of each list holds.
func haBoth(a, b []haAlternative) (list []haAlternative) {
	for _, one := range a {
		for _, other := range b {
			list = append(list, haAlternative{slices.Concat(one.rates, other.rates), and(one.rest, other.rest)})
		}
	}
	return list
}

// haNegated returns the opposite of a list of alternatives, where that is one that policies can have.
func haNegated(list []haAlternative) ([]haAlternative, string) {
	when := no
	for _, c := range list {
		if len(c.rates) == 0 {
			when = or(when, c.rest)
			continue
		}

		if len(list) > 1 || len(c.rates) > 1 || c.rest != yes {
			return nil, "the opposite of a condition with a rate: write it with if"
		}
		return []haAlternative{{rates: []*haRate{c.rates[0].opposite()}, rest: yes}}, ""
	}

	return []haAlternative{{rest: not(when)}}, ""
}

// haKnownACLs are the ACLs that HAProxy defines.
var haKnownACLs = map[string]expr{
	"TRUE": yes, "FALSE": no, "HTTP": yes,
	"METH_GET":  oneOf(requestMethod, []string{"GET", "HEAD"}),
	"METH_POST": equals(requestMethod, literal("POST")), "METH_PUT": equals(requestMethod, literal("PUT")),
	"METH_DELETE": equals(requestMethod, literal("DELETE")), "METH_HEAD": equals(requestMethod, literal("HEAD")),
	"METH_OPTIONS": equals(requestMethod, literal("OPTIONS")), "METH_CONNECT": equals(requestMethod, literal("CONNECT")),
	"LOCALHOST": equals(groupOf(requestIP, 8, 128), literal("127.0.0.0/8")),
}

// terms reads an ACL, of which each line is an alternative.
func (w *haWay) terms(name string, lines []haLine, negated bool) (list []haAlternative, bad string) {
	if known, found := haKnownACLs[name]; found && len(lines) == 0 {
		list = []haAlternative{{rest: known}}
	}
	plain := no
	for _, l := range lines {
		one, bad := w.term(l)
		if bad != "" {
			return nil, bad
		}
		if len(one.rates) == 0 {
			plain = or(plain, one.rest)
		} else {
			list = append(list, one)
		}
	}
	if plain != no {
		list = append(list, haAlternative{rest: plain})
	}

	if len(list) == 0 {
		return nil, "no acl " + name
	}
	if negated {
		return haNegated(list)
	}
	return list, ""
}

// term reads one line of an ACL: the part of the request, flags, and texts to compare it with.
func (w *haWay) term(l haLine) (haAlternative, string) {
	if len(l.words) == 0 {
		return haAlternative{}, "an acl without a condition"
	}
	if strings.Contains(l.words[0], "http_req_rate") {
		rate, bad := w.rate(l)
		return haAlternative{[]*haRate{rate}, yes}, bad
	}
	e, bad := haMatch(l.words)
	return haAlternative{rest: e}, bad
}

// rate reads a comparison such as sc_http_req_rate(0) gt 20, sc0_http_req_rate ge 20, and src_http_req_rate(table) gt 20.
func (w *haWay) rate(l haLine) (*haRate, string) {
	fetch, arguments, _ := strings.Cut(l.words[0], "(")
	rate := &haRate{table: strings.TrimSuffix(arguments, ")")}
	switch {
	case fetch == "sc_http_req_rate":
		rate.counter, rate.table, _ = strings.Cut(rate.table, ",")
	case fetch == "src_http_req_rate":
		rate.source = true
		if rate.table == "" {
			rate.table = w.proxy.name
		}
	case strings.HasPrefix(fetch, "sc") && strings.HasSuffix(fetch, "_http_req_rate"):
		rate.counter = strings.TrimSuffix(strings.TrimPrefix(fetch, "sc"), "_http_req_rate")
	default:
		return nil, l.words[0] + " is no rate that a policy has"
	}

	// Flags do not change a comparison of numbers.
	operands := slices.DeleteFunc(slices.Clone(l.words[1:]), func(word string) bool { return word == "-m" || word == "int" || word == "--" })
	if len(operands) != 2 || strings.Contains(l.words[0], "),") {
		return nil, "want one comparison, such as gt 20, of " + l.words[0]
	}
	n, err := strconv.ParseInt(operands[1], 10, 64)
	if err != nil || n < 0 || n > mostRate {
		return nil, "no number of requests: " + operands[1]
	}
	return rate.compared(operands[0], n)
}

// compared notes above which number a rate is. Rates are whole numbers.
func (r *haRate) compared(operator string, n int64) (*haRate, string) {
	switch operator {
	case "gt":
		r.above = n
	case "ge":
		r.above = n - 1
	case "le":
		r.above, r.bad = n, "denies below a rate"
	case "lt":
		r.above, r.bad = n-1, "denies below a rate"
	default:
		return nil, "a rate that is " + operator + ": no policy has that"
	}

	// Every rate is above a negative number.
	if r.above < 0 {
		return nil, "denies always"
	}
	return r, ""
}

// opposite returns the comparison that holds where this one does not.
func (r *haRate) opposite() *haRate {
	o := *r
	o.bad = "denies below a rate"
	if r.bad != "" {
		o.bad = ""
	}
	return &o
}

// reaches returns the condition under which a request comes to a proxy: to a backend, by the rules of the frontends.
func (h *haproxy) reaches(p *haProxy) expr {
	if p.kind != "backend" || len(p.rules) == 0 {
		return yes
	}

	when, led := no, false
	for _, frontend := range h.proxies {
		w := &haWay{haproxy: h, proxy: frontend}
		var branches []branch
		for _, l := range frontend.backends {
			then := no
			if l.word(1) == p.name {
				then, led = yes, true
			}
			arguments, condition := haCondition(l.words[1:])
			holds, bad := w.plainCondition(condition)
			if len(arguments) == 0 || strings.Contains(arguments[0], "%") {
				bad = "the backend's name is made for each request"
			}
			if bad != "" {
				h.in.leave(l.Place, l.text(), "%s: the line counts as not there", bad)
				continue
			}
			branches = append(branches, branch{holds, then})
		}
		when = or(when, choose(branches, no))
	}
	if !led {
		h.in.leave(p.Place, "backend "+p.name, "no frontend in these files leads to it: its limits hold for all requests")
		return yes
	}
	return when
}
