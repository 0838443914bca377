package importer

import (
	"cmp"
	"regexp"
	"strconv"
	"time"
)

// readLimitador imports the limits of Limitador: a list of them, or limits in a Limitador of Kubernetes.
func readLimitador(in *Import, d *disk) error {
	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}
		for _, v := range documents {
			limits, err := limitadorLimits(v)
			if err != nil {
				return err
			}
			for _, l := range limits {
				limitadorLimit(in, l)
			}
		}
	}
	return nil
}

func limitadorLimits(v *value) ([]*value, error) {
	if v.kind == listKind {
		for _, l := range v.list {
			if l.get("max_value") == nil {
				return nil, &Error{l.Place, "no limit of Limitador: it has no max_value"}
			}
		}
		return v.list, nil
	}

	if v.str("kind") == "Limitador" {
		return v.get("spec", "limits").items(), nil
	}

	return nil, &Error{v.Place, "no limits of Limitador: want a list of limits with namespace, max_value and seconds"}
}

// limitadorLimit makes a policy of a limit. Its window begins with the first request that finds none.
func limitadorLimit(in *Import, l *value) {
	in.unknown(l, "the field", "id", "namespace", "max_value", "seconds", "name", "conditions", "variables")
	origin := "max_value: " + l.str("max_value") + ", seconds: " + l.str("seconds")
	most, ok := l.get("max_value").whole()
	seconds, fine := l.get("seconds").whole()
	if !ok || !fine || seconds == 0 || seconds > mostSeconds {
		in.leave(l.Place, origin, "no number of requests, or of seconds")
		return
	}

	p := Policy{
		Name: cmp.Or(l.str("name"), l.str("namespace")), Place: l.Place, Origin: origin,
		Where: []string{"namespace " + l.str("namespace")},
		side:  side{algorithm: "fixed_window_anchored", limit: most, window: time.Duration(seconds) * time.Second},
	}
	for _, c := range l.get("conditions").texts() {
		p.Where = append(p.Where, "condition "+c)
	}
	for _, v := range l.get("variables").texts() {
		entry := limitadorVariable.FindStringSubmatch(v)
		if entry == nil {
			p.bad = "its variable " + v + " is not one field of a descriptor"
			break
		}
		p.key = append(p.key, entryOf("request.descriptors", entry[1]+entry[2]+entry[3]))
	}
	if len(p.key) == 0 {
		p.key = []string{strconv.Quote("all")}
	}
	in.add(p)
}

// limitadorVariable is one field of what Limitador is sent: descriptors[0]["a.b"], descriptors[0].a, or the older a.b.
var limitadorVariable = regexp.MustCompile(`^(?:descriptors\[0\]\[(?:"([\w.:-]+)"|'([\w.:-]+)')\]|(?:descriptors\[0\]\.)?([A-Za-z_][\w.]*))$`)
