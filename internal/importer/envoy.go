package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// envoyUnits are the windows of envoyproxy/ratelimit: a month has 30 days and a year 365 (src/utils/utilities.go).
var envoyUnits = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	"week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// envoyDescriptor is a descriptor with those around it.
type envoyDescriptor struct {
	when  expr   // that a request has the entries so far, and no entry of a more specific sibling
	key   []expr // their values
	names []string
}

// readEnvoy imports the descriptors of envoyproxy/ratelimit. The values of entries come from the actions of Envoy's routes, which
// these files do not have.
func readEnvoy(in *Import, d *disk) error {
	domains := map[string]bool{}
	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}

		// Several files of one domain are one configuration, as envoyproxy/ratelimit reads them.
		for _, v := range documents {
			if err := envoyOther(v); err != nil {
				return err
			}
			in.unknown(v, "the field", "domain", "descriptors")
			if domains[v.str("domain")] = true; len(domains) == 2 {
				in.leave(v.Place, "domain "+v.str("domain"), "a policy file has one: put each domain into a file of its own")
			}
			envoyLevel(in, v.get("descriptors"), envoyDescriptor{when: yes})
		}
	}
	return nil
}

// envoyOther refuses what Envoy limits by itself: a bucket in each process that a timer fills, which no limiter here is.
func envoyOther(v *value) error {
	if k := v.get("kind"); k != nil && v.get("apiVersion") != nil {
		return &Error{k.Place, "kind " + shown(k.text) + " is no configuration of envoyproxy/ratelimit: Envoy's local limits are buckets of " +
			"each process, which a timer fills, so no policy decides alike; the nearest is token_bucket with limit tokens_per_fill, " +
			"window fill_interval and burst max_tokens"}
	}
	if v.get("descriptors") == nil {
		return &Error{v.Place, "no configuration of envoyproxy/ratelimit: it has no domain and descriptors"}
	}
	return nil
}

// envoyLevel makes policies of the descriptors of one level. A request descends to the entry with its value, else to a wildcard, else
// to the entry without a value (GetLimit in src/config/config_impl.go), and its last entry has the limit.
func envoyLevel(in *Import, list *value, around envoyDescriptor) {
	for _, v := range list.items() {
		in.unknown(v, "the field", "key", "value", "rate_limit", "descriptors", "shadow_mode", "detailed_metric", "metadata", "quota_mode",
			"share_threshold", "value_to_metric")
		name := v.str("key")
		if name == "" {
			in.leave(v.Place, "a descriptor", "it has no key")
			continue
		}

		sent := in.sent(v.Place, "ratelimit", name)
		d := envoyDescriptor{
			when:  and(around.when, envoyMatches(list, v, sent)),
			key:   append(slices.Clone(around.key), sent),
			names: append(slices.Clone(around.names), name),
		}
		if text := v.str("value"); text != "" {
			d.names = append(d.names, strings.TrimSuffix(text, "*"))
		}
		envoyLimit(in, v, d)
		envoyLevel(in, v.get("descriptors"), d)
	}
}

// envoyMatches returns the condition that a descriptor is the one of its level that a value leads to.
func envoyMatches(list, v *value, sent expr) expr {
	when := envoyValue(v, sent)

	// Siblings of the same key that are looked at before this one take their values away.
	var exact []string
	for _, other := range list.items() {
		if other == v || other.str("key") != v.str("key") || !envoyBefore(list, other, v) {
			continue
		}
		if text := other.str("value"); !strings.HasSuffix(text, "*") {
			exact = append(exact, text)
		} else {
			when = and(when, not(envoyValue(other, sent)))
		}
	}

	if len(exact) > 0 {
		when = and(when, not(oneOf(sent, exact)))
	}
	return when
}

// envoyValue returns the condition of one descriptor.
func envoyValue(v *value, sent expr) expr {
	text := v.str("value")
	switch {
	case text == "":
		return composed(relation, sent.text, ` != ""`)
	case strings.HasSuffix(text, "*"):
		return hasPrefix(sent, strings.TrimSuffix(text, "*"))
	}
	return equals(sent, literal(text))
}

// envoyBefore reports whether a request that fits two descriptors takes the first one: a value before a wildcard before none, and
// of two wildcards the first of the file.
func envoyBefore(list, a, b *value) bool {
	rank := func(v *value) int {
		text := v.str("value")
		switch {
		case text == "":
			return 2
		case strings.HasSuffix(text, "*"):
			return 1
		}
		return 0
	}

	if rank(a) != rank(b) {
		return rank(a) < rank(b) && !(rank(b) == 0)
	}
	return rank(a) == 1 && slices.Index(list.list, a) < slices.Index(list.list, b)
}

// envoyLimit makes a policy of a descriptor's limit.
func envoyLimit(in *Import, v *value, d envoyDescriptor) {
	limit := v.get("rate_limit")
	if limit == nil || limit.on("unlimited") {
		return // the conditions of its siblings leave its value out
	}
	in.unknown(limit, "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier")

	text := limit.str("requests_per_unit")
	origin := fmt.Sprintf("%s: %s per %s", strings.Join(d.names, "/"), cmp.Or(text, "0"), limit.str("unit"))
	window := envoyUnits[strings.ToLower(limit.str("unit"))]
	n, ok := limit.get("requests_per_unit").whole()
	if text == "" {
		n, ok = 0, true
	}
	multiplier := int64(1)
	if m := limit.get("unit_multiplier"); m != nil {
		var fine bool
		multiplier, fine = m.whole()
		ok = ok && fine && multiplier > 0 && multiplier < 1_000_000
	}
	if !ok || window == 0 {
		in.leave(limit.Place, origin, "no number of requests, or no unit")
		return
	}

	switch {
	case v.on("shadow_mode"):
		in.leave(limit.Place, origin, "shadow_mode: ratelimit counts and denies nothing, and a policy would deny: try it as a candidate, "+
			"fixed_window:%d/%s", n, algorithms.FormatWindow(window))
		return
	case v.on("quota_mode"):
		in.leave(limit.Place, origin, "quota_mode: ratelimit tells Envoy that a quota is used up, and denies nothing by itself")
		return
	}
	in.add(Policy{
		Name: strings.Join(d.names, "-"), Place: limit.Place, Origin: origin, Differs: envoyDiffers(in, v, limit, d),
		when: d.when, key: d.key,
		side: side{algorithm: "fixed_window", limit: n, window: window * time.Duration(multiplier), countDenied: true},
	})
}

// envoyDiffers names what a limit says beyond its numbers.
func envoyDiffers(in *Import, v, limit *value, d envoyDescriptor) (differs []string) {
	if replaces := limit.get("replaces"); len(replaces.items()) > 0 {
		in.leave(replaces.Place, strings.Join(d.names, "/")+" replaces",
			"a request that has both descriptors is charged by the replaced limit, too")
	}
	if v.on("share_threshold") {
		differs = append(differs, "share_threshold: all values of the wildcard share one count there, and have one each here")
	}
	return differs
}
