package importer

import (
	"fmt"
	"slices"
	"strings"
)

// shape is a place among the descriptors of envoyproxy/ratelimit, as shadowlimit-envoy gives descriptors to policies.
type shape struct {
	envoyDescriptor
	domain  string
	entries []string // the keys so far
}

// readDescriptors imports the descriptors of envoyproxy/ratelimit for shadowlimit-envoy, unless Options.Map says what a key is in
// a request.
func readDescriptors(in *Import, d *disk) error {
	if !in.descriptors() {
		return readEnvoy(in, d)
	}

	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}
		for _, v := range documents {
			if err := envoyOther(v); err != nil {
				return err
			}
			in.unknown(v, "the field", "domain", "descriptors")
			shapedLevel(in, v.get("descriptors"), shape{domain: v.str("domain"), envoyDescriptor: envoyDescriptor{when: yes}})
		}
	}
	return nil
}

// shapedLevel is envoyLevel for descriptors whose keys are known: a value may be empty then.
func shapedLevel(in *Import, list *value, around shape) {
	for _, v := range list.items() {
		in.unknown(v, "the field", "key", "value", "rate_limit", "descriptors", "shadow_mode", "detailed_metric", "metadata", "quota_mode",
			"share_threshold", "value_to_metric")
		if v.str("key") == "" {
			in.leave(v.Place, "a descriptor", "it has no key")
			continue
		}

		s := around.with(in, list, v)
		limited := s.envoyDescriptor
		limited.when = and(s.condition(), s.when)
		envoyLimit(in, v, limited)
		shapedLevel(in, v.get("descriptors"), s)
	}
}

// with returns the place of one of the descriptors of a level.
func (s shape) with(in *Import, list, v *value) shape {
	entry := s.entry(v.str("key"))
	sent := in.sentToEnvoy(entry)
	names := append(slices.Clone(s.names), v.str("key"))
	if text := v.str("value"); text != "" {
		names = append(names, strings.TrimSuffix(text, "*"))
	}

	return shape{
		domain:  s.domain,
		entries: append(slices.Clone(s.entries), entry),
		envoyDescriptor: envoyDescriptor{
			when:  and(s.when, shapedMatches(list, v, sent)),
			key:   append(slices.Clone(s.key), sent),
			names: names,
		},
	}
}

// shapedMatches returns the condition that a descriptor is the one of its level that a value leads to.
func shapedMatches(list, v *value, sent expr) expr {
	when := yes
	if v.str("value") != "" {
		when = envoyValue(v, sent)
	}
	for _, other := range list.items() {
		if other != v && other.str("key") == v.str("key") && envoyBefore(list, other, v) {
			when = and(when, not(envoyValue(other, sent)))
		}
	}
	return when
}

// entry returns the name of one more key: shadowlimit-envoy numbers a key that a descriptor repeats.
func (s shape) entry(key string) string {
	name := key
	for n := 2; slices.Contains(s.entries, name); n++ {
		name = fmt.Sprintf("%s#%d", key, n)
	}
	return name
}

// condition returns the condition that a descriptor has these keys in this order and no others: ratelimit knows a limit for
// nothing else (GetLimit in src/config/config_impl.go).
func (s shape) condition() expr {
	var keys []string
	for _, name := range s.entries {
		keys = append(keys, strings.NewReplacer("%", "%25", "/", "%2F").Replace(name))
	}
	return and(equals(expr{"request.domain", atom}, literal(s.domain)),
		equals(expr{"request.route", atom}, literal(strings.Join(keys, "/"))))
}
