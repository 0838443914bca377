package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// object is one level of a JSON object, with its values as written.
type object map[string]json.RawMessage

// jsonParser reads lines that are JSON objects.
func jsonParser(fields Fields, requests bool) parser {
	times, key, cost := fields.times(), fields.key(), fields.cost()
	return func(line []byte) (Event, error) {
		var o object
		if err := json.Unmarshal(line, &o); err != nil || o == nil {
			return Event{}, errors.New("not a JSON object")
		}

		at, err := o.time(times)
		if err != nil {
			return Event{}, err
		}

		// With requests the key comes from a policy, so the line needs none.
		k, ok := o.text(key)
		if !ok && !requests {
			return Event{}, fmt.Errorf("no field %q that is a string or a number", key)
		}

		n, err := o.cost(cost)
		event := Event{At: at, Key: []byte(k), Cost: n}
		if requests {
			event.source = o
		}

		return event, err
	}
}

func (o object) time(names []string) (int64, error) {
	for _, name := range names {
		if !o.has(name) {
			continue
		}
		text, ok := o.text(name)
		if !ok {
			return 0, fmt.Errorf("field %q is not a time", name)
		}
		return parseTime(text, scaleOf(name))
	}

	return 0, fmt.Errorf("no field %q that is a time", names[0])
}

func (o object) cost(name string) (int64, error) {
	if !o.has(name) {
		return 1, nil
	}
	text, ok := o.text(name)
	if !ok {
		return 0, fmt.Errorf("field %q is not a cost", name)
	}
	return parseCost(text)
}

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

// text returns a string, or a number or boolean as written. Objects, lists and null
// have no text; each is known by its first byte.
func (o object) text(name string) (string, bool) {
	raw, ok := o.lookup(name)
	if !ok || len(raw) == 0 || bytes.IndexByte([]byte("{[n"), raw[0]) >= 0 {
		return "", false
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
	if raw, ok := o[name]; ok && json.Unmarshal(raw, &inner) == nil {
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
