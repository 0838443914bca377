package importer

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// nginxVariables are the variables of nginx that a policy sees, too.
var nginxVariables = map[string]expr{
	"binary_remote_addr": requestIP,
	"remote_addr":        requestIP,
	"host":               requestHost,
	"http_host":          requestHost,
	"uri":                requestPath,
	"document_uri":       requestPath,
	"request_method":     {"request.method", atom},
	"remote_user":        {"request.user", atom},
}

// nginxPart finds a variable in a text.
var nginxPart = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// parts takes a text apart into literals and variables. bad says why it cannot be carried over.
func (n *nginx) parts(text string) (list []expr, variables int, bad string) {
	at := 0
	for _, m := range nginxPart.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			list = append(list, literal(text[at:m[0]]))
		}
		at = m[1]

		name := nginxPart.FindStringSubmatch(text[m[0]:m[1]])
		value, bad := n.variable(name[1] + name[2])
		if bad != "" {
			return nil, 0, bad
		}
		list, variables = append(list, value), variables+1
	}
	if at < len(text) {
		list = append(list, literal(text[at:]))
	}
	return list, variables, ""
}

// key returns the parts of a zone's key, and the condition under which it is not empty: nginx does not limit an empty key.
func (n *nginx) key(text string) (key []expr, set expr, bad string) {
	key, variables, bad := n.parts(text)
	if bad != "" || len(key) == 0 {
		return nil, no, bad
	}

	set = no
	if variables < len(key) {
		set = yes
	}
	for _, part := range key {
		if neverEmpty(part) {
			set = yes
		}
		set = or(set, composed(relation, part.in(atom), ` != ""`))
	}
	if len(key) > 16 {
		return nil, no, "a key has at most 16 parts"
	}
	return key, set, ""
}

// neverEmpty reports whether each request has a value. A choice is one of names of servers here.
func neverEmpty(e expr) bool {
	if e.level == choice && !strings.Contains(e.text, `""`) {
		return true
	}
	return e.text == "request.ip" || e.text == "request.path" || e.text == "request.method" || e.text == "request.host"
}

// variable returns the expression of a variable.
func (n *nginx) variable(name string) (value expr, bad string) {
	if e, made := n.made[name]; made {
		return e, ""
	}
	if e, known := nginxVariables[name]; known {
		return e, ""
	}
	if header, found := strings.CutPrefix(name, "http_"); found {
		return headerValue(strings.ReplaceAll(header, "_", "-")), ""
	}
	if argument, found := strings.CutPrefix(name, "arg_"); found {
		return expr{"request.query[?" + literal(argument).text + `].orValue("")`, atom}, ""
	}
	if name == "server_name" {
		return n.byServer(), ""
	}

	// A map may use the variables of others, and a wrong one itself.
	d := n.variables[name]
	switch {
	case d == nil:
		return expr{}, "$" + name + " is no variable that a policy sees: replace it by one of a request"
	case slices.Contains(n.making, name) || len(n.making) > mostIncludes:
		return expr{}, "$" + name + " is made of itself, or of too many others"
	case d.name != "map" && d.name != "geo":
		return expr{}, "$" + name + " is set by " + d.name + " at " + d.Place.String() + ", which no policy has"
	}
	n.making = append(n.making, name)
	defer func() { n.making = n.making[:len(n.making)-1] }()

	if d.name == "map" {
		value, bad = n.mapValue(d)
	} else {
		value, bad = n.geoValue(d)
	}
	if bad != "" {
		return expr{}, "$" + name + ": " + bad
	}
	return n.named(name, value, d), ""
}

// named makes a variable of the policy file.
func (n *nginx) named(name string, value expr, d *directive) expr {
	n.in.variables = append(n.in.variables, variable{"v_" + name, value, d.Place.String() + ": " + d.text()})
	n.made[name] = expr{"variables.v_" + name, atom}
	return n.made[name]
}

// byServer is $server_name: the first name of the server that nginx takes.
func (n *nginx) byServer() expr {
	// A zone stands in front of the servers, and is read before them.
	if len(n.servers) == 0 {
		for _, d := range n.http {
			if d.name == "server" {
				n.servers = append(n.servers, nameServer(d))
			}
		}
		defer func() { n.servers = nil }()
	}

	if len(n.servers) == 0 {
		return literal("")
	}
	return n.byHost(func(s *nginxServer) expr { return literal(s.name()) })
}

func headerValue(name string) expr {
	return expr{"request.headers[?" + literal(strings.ToLower(name)).text + `].orValue("")`, atom}
}

// mostChoices bounds the entries of a map that become conditions. More of them become a table.
const mostChoices = 4

// mapValue returns the value of a map: the entry of the text, the first regular expression that matches, and else the default.
func (n *nginx) mapValue(d *directive) (value expr, bad string) {
	source, bad := n.text(d.args[0])
	if bad != "" {
		return expr{}, bad
	}

	otherwise := literal("")
	var exact [][2]string
	var texts, patterns []branch
	for _, e := range d.block {
		then, bad := n.entryValue(e)
		switch {
		case bad != "":
			return expr{}, bad
		case e.name == "default":
			otherwise = then
		case e.name == "volatile":
		case e.name == "hostnames":
			return expr{}, "a map with hostnames"
		case strings.HasPrefix(e.name, "~"):
			pattern := strings.TrimPrefix(e.name, "~")
			if rest, found := strings.CutPrefix(pattern, "*"); found {
				pattern = "(?i)" + rest
			}
			when := matches(source, pattern)
			if when == no {
				return expr{}, "no regular expression of RE2 at " + e.Place.String()
			}
			patterns = append(patterns, branch{when, then})
		default:
			key := strings.ToLower(strings.TrimPrefix(e.name, `\`))
			exact = append(exact, [2]string{key, e.args[0]})
			texts = append(texts, branch{equals(lowered(source, key), literal(key)), then})
		}
	}

	// A table is read at once, and a condition for each entry would make the file long.
	constant := !slices.ContainsFunc(exact, func(e [2]string) bool { return strings.Contains(e[1], "$") })
	rest := choose(patterns, otherwise)
	if len(exact) <= mostChoices || !constant {
		return choose(texts, rest), ""
	}
	name := "t_" + strings.TrimPrefix(d.args[len(d.args)-1], "$")
	n.in.tables = append(n.in.tables, table{name, unique(exact)})
	return expr{"data." + name + "[?" + source.call("lowerAscii").text + "].orValue(" + rest.text + ")", atom}, ""
}

// lowered returns a value as a map compares it. A key without letters is the same in any case, and costs less.
func lowered(value expr, key string) expr {
	if strings.ToUpper(key) == key {
		return value
	}
	return value.call("lowerAscii")
}

// unique keeps the first entry of each key, as YAML has each key once.
func unique(entries [][2]string) (list [][2]string) {
	seen := map[string]bool{}
	for _, e := range entries {
		if !seen[e[0]] {
			list = append(list, e)
		}
		seen[e[0]] = true
	}
	return list
}

// entryValue returns the value of an entry of a map or of a geo.
func (n *nginx) entryValue(e *directive) (then expr, bad string) {
	if len(e.args) != 1 || e.block != nil {
		if e.name == "volatile" || e.name == "hostnames" || e.name == "ranges" {
			return expr{}, ""
		}
		return expr{}, "no entry at " + e.Place.String()
	}
	return n.text(e.args[0])
}

// text returns the value of a text with variables.
func (n *nginx) text(text string) (value expr, bad string) {
	parts, _, bad := n.parts(text)
	if bad != "" {
		return expr{}, bad
	}
	if len(parts) == 0 {
		return literal(""), ""
	}

	value = parts[0]
	for _, part := range parts[1:] {
		value = composed(relation, value.in(relation), " + ", part.in(atom))
	}
	return value, ""
}

// geoValue returns the value of a geo: the longest network's with the address, and else the default.
func (n *nginx) geoValue(d *directive) (value expr, bad string) {
	source := requestIP
	if len(d.args) > 1 {
		if source, bad = n.text(d.args[0]); bad != "" {
			return expr{}, bad
		}
	}

	otherwise := literal("")
	type network struct {
		prefix netip.Prefix
		then   expr
	}
	var networks []network
	for _, e := range d.block {
		then, bad := n.entryValue(e)
		if bad != "" {
			return expr{}, bad
		}
		if e.name == "default" {
			otherwise = then
			continue
		}
		prefix, ok := prefixOf(e.name)
		if !ok {
			return expr{}, e.name + " at " + e.Place.String() + " is no network"
		}
		networks = append(networks, network{prefix, then})
	}

	slices.SortStableFunc(networks, func(a, b network) int { return b.prefix.Bits() - a.prefix.Bits() })
	var branches []branch
	for _, w := range networks {
		branches = append(branches, branch{inNetwork(source, w.prefix), w.then})
	}
	return choose(branches, otherwise), ""
}
