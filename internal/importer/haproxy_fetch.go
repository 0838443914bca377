package importer

import (
	"slices"
	"strconv"
	"strings"
)

var requestMethod = expr{"request.method", atom}

// haFetch returns the expression of a sample fetch with its converters, and what differs.
func haFetch(text string) (value expr, differs, bad string) {
	fetch, converters, _ := strings.Cut(haCut(text), "\x00")
	name, argument, _ := strings.Cut(fetch, "(")
	argument = strings.Trim(strings.TrimSuffix(argument, ")"), `"' `)

	switch name {
	case "src":
		value = requestIP
	case "path", "pathq":
		value = requestPath
		if name == "pathq" {
			return value, "", "pathq has the query: no policy sees it as one text"
		}
	case "method":
		value = requestMethod
	case "hdr", "req.hdr", "req.fhdr", "req_hdr":
		if argument, _, _ = strings.Cut(argument, ","); argument == "" {
			return value, "", name + " without the name of a header"
		}
		if value = headerValue(argument); strings.EqualFold(argument, "host") {
			value = requestHost
		}
	case "hdr_ip", "req.hdr_ip":
		value, differs = requestIP, "the client's address is taken from a header there: "+byAddress
	case "url_param", "urlp":
		argument, _, _ = strings.Cut(argument, ",")
		value = expr{"request.query[?" + literal(argument).text + `].orValue("")`, atom}
	case "always_true", "int", "str":
		value = literal(argument)
	default:
		return value, "", fetch + " is nothing that a policy sees"
	}
	return haConverted(value, differs, converters)
}

// haCut parts a sample fetch from its converters, by the first comma outside of parentheses.
func haCut(text string) string {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				return text[:i] + "\x00" + text[i+1:]
			}
		}
	}

	return text
}

// haConverted applies converters to a value.
func haConverted(value expr, differs, converters string) (expr, string, string) {
	for converters != "" {
		var one string
		one, converters, _ = strings.Cut(haCut(converters), "\x00")
		name, argument, _ := strings.Cut(strings.TrimSuffix(one, ")"), "(")
		switch {
		case name == "lower":
			value = value.call("lowerAscii")
		case name == "ipmask" && value == requestIP:
			four, six, found := strings.Cut(argument, ",")
			bits4, err4 := strconv.Atoi(strings.TrimSpace(four))
			bits6, err6 := 128, error(nil)
			if found {
				bits6, err6 = strconv.Atoi(strings.TrimSpace(six))
			}

			if err4 != nil || err6 != nil || bits4 < 0 || bits4 > 32 || bits6 < 0 || bits6 > 128 {
				return value, "", "the mask " + argument + " has no lengths"
			}
			value = groupOf(value, bits4, bits6)
		default:
			return value, "", "the converter " + name + " is none that a policy has"
		}
	}
	return value, differs, ""
}

// haKey returns the key of a counter.
func haKey(text string) (key []expr, differs, bad string) {
	switch text {
	case "base32+src", "url32+src":
		return []expr{requestHost, requestPath, requestIP}, "it counts by a hash of host, path and address, and the policy by themselves", ""
	case "base32", "base":
		return []expr{requestHost, requestPath}, "", ""
	}
	value, differs, bad := haFetch(text)
	return []expr{value}, differs, bad
}

// haMethods are the ways of comparing that stand in the name of a fetch.
var haMethods = []string{"beg", "end", "sub", "reg", "dir", "dom", "len"}

// haMatch returns the condition of an ACL line.
func haMatch(words []string) (expr, string) {
	fetch, patterns := words[0], words[1:]
	method, folded := "str", false

	// path_beg and hdr_end(host) say in their name how they compare.
	head, arguments, _ := strings.Cut(fetch, "(")
	for _, m := range haMethods {
		if base, found := strings.CutSuffix(head, "_"+m); found {
			method = m
			fetch = base
			if arguments != "" {
				fetch += "(" + arguments
			}
		}
	}
	for len(patterns) > 0 && strings.HasPrefix(patterns[0], "-") {
		flag := patterns[0]
		patterns = patterns[1:]
		switch {
		case flag == "-i":
			folded = true
		case flag == "-m" && len(patterns) > 0:
			method, patterns = patterns[0], patterns[1:]
		case flag == "--":
		default:
			return no, "the flag " + flag + " of an acl: its texts are not in the configuration"
		}
		if flag == "--" {
			break
		}
	}

	value, _, bad := haFetch(fetch)
	if bad != "" {
		return no, bad
	}
	if value == requestIP {
		return haNetworks(patterns)
	}
	if folded && method != "reg" && method != "found" {
		value = value.call("lowerAscii")
		patterns = slices.Clone(patterns)
		for i := range patterns {
			patterns[i] = strings.ToLower(patterns[i])
		}
	}
	return haCompared(value, method, patterns, folded)
}

// haNetworks returns the condition that the address is in one of some networks.
func haNetworks(patterns []string) (expr, string) {
	when := no
	for _, pattern := range patterns {
		prefix, ok := prefixOf(pattern)
		if !ok {
			return no, pattern + " is no network"
		}
		when = or(when, inNetwork(requestIP, prefix))
	}

	if len(patterns) == 0 {
		return no, "an acl without networks"
	}
	return when, ""
}

// haCompared returns the condition that a value compares with one of some texts.
func haCompared(value expr, method string, patterns []string, folded bool) (expr, string) {
	if method == "found" {
		return composed(relation, value.in(atom), ` != ""`), ""
	}
	if len(patterns) == 0 {
		return no, "an acl without a text"
	}

	when := no
	for _, pattern := range patterns {
		var one expr
		switch method {
		case "str":
			return oneOf(value, patterns), ""
		case "beg":
			one = hasPrefix(value, pattern)
		case "end":
			one = value.call("endsWith", literal(pattern).text)
		case "sub":
			one = value.call("contains", literal(pattern).text)
		case "reg":
			if folded {
				pattern = "(?i)" + pattern
			}
			if one = matches(value, pattern); one == no {
				return no, pattern + " is no regular expression of RE2"
			}
		default:
			return no, "comparing by " + method + " is nothing that a policy does"
		}
		when = or(when, one)
	}
	return when, ""
}
