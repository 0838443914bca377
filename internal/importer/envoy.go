package importer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// envoyUnits are the windows of envoyproxy/ratelimit: a month has 30 days and a year 365 (src/utils/utilities.go).
var envoyUnits = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	"week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// envoy reads descriptors of envoyproxy/ratelimit.
type envoy struct {
	in   *Import
	left int               // descriptors that may still be read
	sent map[string]string // the names of variables by what they are sent as
}

// envoyPlace is a descriptor with those around it.
type envoyPlace struct {
	domain  string
	entries []string // the keys, as shadowlimit-envoy names them
	key     []string // the variables of their values
	terms   []string // of the condition that a request has these values, and none of a more specific sibling
	names   []string
}

// readEnvoy imports the descriptors of envoyproxy/ratelimit for shadowlimit-envoy, as loadDescriptors and GetLimit of
// src/config/config_impl.go read them, and src/limiter/cache_key.go counts them.
func readEnvoy(in *Import, d *disk) error {
	e := &envoy{in: in, left: mostItems, sent: map[string]string{}}
	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}
		for _, v := range documents {
			if v.get("apiVersion") != nil {
				if err := envoyGateway(in, v); err != nil {
					return err
				}
				continue
			}
			if v.get("descriptors") == nil {
				return &Error{v.Place, "no configuration of envoyproxy/ratelimit: it has no domain and descriptors"}
			}
			in.unknown(v, "the field", "domain", "descriptors")
			if err := e.level(v.get("descriptors"), envoyPlace{domain: v.str("domain")}); err != nil {
				return err
			}
		}
	}
	return nil
}

// level makes policies of the descriptors of one level. A request descends to the entry with its value, else to a wildcard, else
// to the entry without a value, and its last entry has the limit.
func (e *envoy) level(list *value, around envoyPlace) error {
	var entries []envoyEntry
	for _, v := range list.items() {
		entries = append(entries, envoyEntry{v.str("key"), v.str("value")})
	}
	for i, v := range list.items() {
		if e.left--; e.left < 0 {
			return &Error{v.Place, fmt.Sprintf("more than %d descriptors", mostItems)}
		}
		e.in.unknown(v, "the field", "key", "value", "rate_limit", "descriptors", "shadow_mode", "detailed_metric", "metadata", "quota_mode",
			"share_threshold", "value_to_metric")
		own := entries[i]
		switch {
		case own.key == "":
			e.in.leave(v.Place, "a descriptor", "it has no key")
			continue
		case strings.Contains(own.key, "*"):
			return &Error{v.get("key").Place, "the key " + shown(own.key) + ": ratelimit takes it for a pattern of keys, and no policy has one"}
		case slices.Index(entries, own) < i:
			return &Error{v.Place, "the descriptor " + shown(own.key+" "+own.value) + " is there already"}
		case v.on("share_threshold") && own.rank() != wildcard:
			return &Error{v.get("share_threshold").Place, "share_threshold without a * in the value"}
		}

		place := e.inside(around, entries, i, v.on("share_threshold"))
		if length := len(strings.Join(place.terms, "")); length > mostCondition {
			e.in.leave(v.Place, strings.Join(place.names, "/"), "its condition is too long")
			continue
		}
		e.limit(v, place)
		if err := e.level(v.get("descriptors"), place); err != nil {
			return err
		}
	}
	return nil
}

// mostCondition bounds a condition while it is put together. Policies take 4,096 bytes; a longer one is refused there.
const mostCondition = 8 << 10

func (e *envoy) inside(around envoyPlace, level []envoyEntry, i int, share bool) envoyPlace {
	own := level[i]
	name := own.key
	for n := 2; slices.Contains(around.entries, name); n++ {
		name = fmt.Sprintf("%s#%d", own.key, n) // as shadowlimit-envoy numbers a key that a descriptor repeats
	}
	sent := e.variable(name)
	p := envoyPlace{
		domain:  around.domain,
		entries: append(slices.Clone(around.entries), name),
		key:     append(slices.Clone(around.key), sent),
		terms:   slices.Clone(around.terms),
		names:   append(slices.Clone(around.names), own.key),
	}
	if share {
		p.key[len(p.key)-1] = strconv.Quote(own.value) // one count for all values that match
	}
	if own.value != "" {
		p.names = append(p.names, strings.TrimRight(own.value, "*"))
		p.terms = append(p.terms, own.matches(sent))
	}

	// Siblings of the same key that are looked at before this one take their values away.
	length := 0
	for k, other := range level {
		if k == i || other.key != own.key || length > mostCondition {
			continue
		}
		term := ""
		switch isWildcard := own.rank() == wildcard && other.rank() == wildcard; {
		case other.rank() < own.rank():
			term = "!(" + other.matches(sent) + ")"
		// A value that is the text of a wildcard, star and all, is found as that text before any wildcard is looked at.
		case isWildcard && k < i && other.takes(own.value):
			term = "(" + own.equals(sent) + " || !(" + other.matches(sent) + "))"
		case isWildcard && k < i:
			term = "!(" + other.matches(sent) + ")"
		case isWildcard && own.takes(other.value):
			term = "!(" + other.equals(sent) + ")"
		default:
			continue
		}
		p.terms = append(p.terms, term)
		length += len(term)
	}
	return p
}

// envoyEntry is what a request must have for a descriptor.
type envoyEntry struct{ key, value string }

// matches returns the condition of an entry with a value.
func (e envoyEntry) matches(sent string) string {
	if e.rank() == exact {
		return e.equals(sent)
	}
	if prefix := strings.TrimRight(e.value, "*"); !strings.Contains(prefix, "*") {
		return sent + ".startsWith(" + strconv.Quote(prefix) + ")"
	}
	return sent + ".matches(" + strconv.Quote(e.pattern()) + ")"
}

func (e envoyEntry) equals(sent string) string { return sent + " == " + strconv.Quote(e.value) }

// pattern is the regular expression of a value in which each * is any text.
func (e envoyEntry) pattern() string {
	return "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(e.value), `\*`, ".*") + "$"
}

// takes reports whether the entry, a wildcard, takes a value.
func (e envoyEntry) takes(value string) bool {
	re, err := regexp.Compile(e.pattern())
	return err == nil && re.MatchString(value)
}

// Ranks of the entries of a key: a request takes a value before a wildcard before none, and of two wildcards the first of the file.
const (
	exact = iota
	wildcard
	anything
)

func (e envoyEntry) rank() int {
	switch {
	case e.value == "":
		return anything
	case strings.Contains(e.value, "*"):
		return wildcard
	}
	return exact
}

// variable returns the variable of an entry of the descriptors that shadowlimit-envoy is sent.
func (e *envoy) variable(entry string) string {
	if name, known := e.sent[entry]; known {
		return name
	}
	name := "sent_" + strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, entry[:min(len(entry), 60)])

	// Two keys may have one name as variables: user-id and user_id.
	for slices.ContainsFunc(e.in.variables, func(v variable) bool { return v.name == name }) {
		name += "_"
	}
	e.in.variables = append(e.in.variables, variable{name, entryOf("request.descriptors", entry)})
	e.sent[entry] = "variables." + name
	return e.sent[entry]
}

// when returns the condition that a descriptor has these keys in this order and no others, as ratelimit knows a limit for nothing
// else, and these values.
func (p *envoyPlace) when() string {
	var keys []string
	for _, name := range p.entries {
		keys = append(keys, strings.NewReplacer("%", "%25", "/", "%2F").Replace(name))
	}
	terms := []string{"request.domain == " + strconv.Quote(p.domain), "request.route == " + strconv.Quote(strings.Join(keys, "/"))}
	return strings.Join(append(terms, p.terms...), " && ")
}

// limit makes a policy of a descriptor's limit.
func (e *envoy) limit(v *value, p envoyPlace) {
	limit := v.get("rate_limit")
	if limit == nil || limit.kind == none || limit.on("unlimited") {
		return // the conditions of its siblings leave its value out
	}
	e.in.unknown(limit, "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier")

	text := limit.str("requests_per_unit")
	origin := fmt.Sprintf("%s: %s per %s", strings.Join(p.names, "/"), cmp.Or(text, "0"), limit.str("unit"))
	window := envoyUnits[strings.ToLower(limit.str("unit"))]
	n, ok := limit.get("requests_per_unit").whole()
	multiplier := int64(1)
	if m := limit.get("unit_multiplier"); m != nil {
		var fine bool
		multiplier, fine = m.whole()
		ok = ok && fine && multiplier > 0 && multiplier < 1_000_000
	}
	switch {
	case text == "":
		e.in.leave(limit.Place, origin, "no requests_per_unit, which ratelimit takes for 0: it denies every request")
		return
	case !ok || window == 0:
		e.in.leave(limit.Place, origin, "no number of requests, or no unit")
		return
	case v.on("shadow_mode"):
		e.in.leave(limit.Place, origin, "shadow_mode: ratelimit counts and denies nothing, and a policy would deny: try it as a candidate, "+
			"fixed_window:%d/%s", n, algorithms.FormatWindow(window))
		return
	case v.on("quota_mode"):
		e.in.leave(limit.Place, origin, "quota_mode: ratelimit denies a request only if all of its quotas are used up; where it has one, this is a limit like others")
		return
	}

	if replaces := limit.get("replaces"); len(replaces.items()) > 0 {
		e.in.leave(replaces.Place, strings.Join(p.names, "/")+" replaces",
			"a request that has both descriptors is charged by the replaced limit, too")
	}
	e.in.add(Policy{
		Name: strings.Join(p.names, "-"), Place: limit.Place, Origin: origin, when: p.when(), key: p.key,
		side: side{algorithm: "fixed_window", limit: n, window: window * time.Duration(multiplier)},
	})
}
