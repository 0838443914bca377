package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// object is one level of a JSON object, with its values as written.
type object map[string]json.RawMessage

var errObject = errors.New("not a JSON object")

// jsonParser reads lines that are JSON objects.
func jsonParser(_ *lineReader, cfg Config, _ layout, clock *clock) (parser, error) {
	read := newNamed(cfg, clock)
	return func(line []byte) (Event, error) {
		o := unwrapped(line)
		if o == nil {
			return Event{}, errObject
		}
		return read.event(o)
	}, nil
}

// unwrapped reads an object, nil if the line is none. Exports put a log's own object into another one: what is in it counts as
// the line's, before what stands around it.
func unwrapped(line []byte) (o object) {
	if json.Unmarshal(line, &o) != nil || o == nil {
		return nil
	}
	for _, w := range wrappers {
		if raw := o[w.field]; len(raw) > 0 && raw[0] == '{' && (w.beside == "" || o[w.beside] != nil) {
			_ = json.Unmarshal(raw, &o) // adds to o; it is valid, as a part of a valid line
		}
	}
	return o
}

// wrappers are the fields with the object of a log in the lines of an export. Where others may have a field of the name, it is
// known by another one that the export has beside it.
var wrappers = []struct{ field, beside string }{
	{"_source", ""},       // Elasticsearch
	{"jsonPayload", ""},   // Google Cloud
	{"result", "preview"}, // Splunk
}

// put hands the fields of a request to k, those of nested objects under names with dots. A name that has its dots in the line
// comes first, and so wins.
func (o object) put(k *known, prefix string) {
	var nested []string
	for name, raw := range o {
		if len(raw) > 0 && raw[0] == '{' {
			if knownParents[prefix+name] {
				nested = append(nested, name)
			}
			continue
		}

		name = prefix + name
		if u := k.uses.of(name); u.any() {
			if value, ok := textOf(raw); ok {
				k.put(u, name, value)
			}
		}
	}

	slices.Sort(nested)
	for _, name := range nested {
		var inner object
		if json.Unmarshal(o[name], &inner) == nil {
			inner.put(k, prefix+name+".")
		}
	}
}

func (o object) names() []string { return slices.Sorted(maps.Keys(o)) }

// has reports whether the object has the field and it is not null.
func (o object) has(name string) bool {
	raw, ok := o.lookup(name)
	return ok && string(raw) != "null"
}

// lookup finds a field by its name. If there is none, it takes the dots of the name as
// a path into nested objects.
func (o object) lookup(name string) (json.RawMessage, bool) {
	if raw, ok := o[name]; ok {
		return raw, true
	}

	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return nil, false
	}

	var next object
	if raw, ok := o[outer]; !ok || json.Unmarshal(raw, &next) != nil {
		return nil, false
	}

	return next.lookup(inner)
}

// text returns a string, a list of strings joined by commas, as a header has them, or a number or boolean as
// written.
func (o object) text(name string) (string, bool) {
	raw, ok := o.lookup(name)
	if !ok {
		return "", false
	}
	return textOf(raw)
}

// textOf is the text of a value. Objects, other lists and null have none; each is known by its first byte.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || bytes.IndexByte([]byte("{n"), raw[0]) >= 0 {
		return "", false
	}
	if raw[0] == '[' {
		var list []string
		err := json.Unmarshal(raw, &list)
		return strings.Join(list, ", "), err == nil && len(list) > 0
	}
	if raw[0] != '"' {
		return string(raw), true
	}

	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// under prefers names with dots to nested objects, as lookup does: names with dots come
// second and overwrite.
func (o object) under(name string) map[string]string {
	found := map[string]string{}

	var inner object
	if raw, ok := o.lookup(name); ok && json.Unmarshal(raw, &inner) == nil {
		for field := range inner {
			if value, ok := inner.text(field); ok {
				found[field] = value
			}
		}
	}

	for field := range o {
		if short, ok := strings.CutPrefix(field, name+"."); ok {
			if value, ok := o.text(field); ok {
				found[short] = value
			}
		}
	}

	return found
}
