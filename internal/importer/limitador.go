package importer

import (
	"cmp"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// readLimitador imports the limits of Limitador: a list of them, or limits in a Limitador of Kubernetes.
func readLimitador(in *Import, d *disk) error {
	namespaces := map[string]*limitadorNamespace{}
	var order []*limitadorNamespace
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
				name := l.str("namespace")
				if namespaces[name] == nil {
					namespaces[name] = &limitadorNamespace{name: name, first: l.Place}
					order = append(order, namespaces[name])
				}
				if at := limitadorLimit(in, l); at >= 0 {
					namespaces[name].places = append(namespaces[name].places, at)
				}
			}
		}
	}

	for i, n := range order {
		n.several(in)
		if i > 0 {
			in.leave(n.first, "namespace "+n.name, "a policy file has one: its limits hold for all requests, unless their conditions differ")
		}
	}
	return nil
}

// limitadorNamespace are limits that a request is checked against together.
type limitadorNamespace struct {
	name   string
	first  Place
	places []int // of its policies
}

// several makes a group of the limits with one key: Limitador charges none of the limits of a request when one refuses. Each keeps its
// condition, so it does not matter whether one request has them all.
func (n *limitadorNamespace) several(in *Import) {
	bad := in.byKey(n.name+"-limits", algorithms.AllOrNothing, n.places)
	if bad != "" {
		in.leave(in.Policies[n.places[1]].Place, "the limits of namespace "+n.name, "Limitador charges none of the limits of a request when "+
			"one refuses: %s, so as policies each is charged that does not refuse by itself", bad)
	}
}

// limitadorLimits returns the limits of a document.
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

// limitadorLimit makes a policy of a limit, and returns its place, -1 if it is left out. Its window begins with the first request that
// finds none.
func limitadorLimit(in *Import, l *value) (at int) {
	in.unknown(l, "the field", "id", "namespace", "max_value", "seconds", "name", "conditions", "variables")
	origin := "max_value: " + l.str("max_value") + ", seconds: " + l.str("seconds")
	most, ok := l.get("max_value").whole()
	seconds, fine := l.get("seconds").whole()
	if !ok || !fine || seconds == 0 || seconds > mostSeconds {
		in.leave(l.Place, origin, "no number of requests, or of seconds")
		return -1
	}

	when := yes
	for _, c := range l.get("conditions").items() {
		condition, bad := in.descriptorExpression(c)
		if bad != "" {
			in.leave(c.Place, origin, "its condition %s: %s", c.text, bad)
			return -1
		}
		when = and(when, condition)
	}
	var key []expr
	for _, v := range l.get("variables").items() {
		part, bad := in.descriptorExpression(v)
		if bad != "" {
			in.leave(v.Place, origin, "its variable %s: %s", v.text, bad)
			return -1
		}
		key = append(key, part)
	}
	if len(key) == 0 {
		key = []expr{literal("all")}
	}

	return in.add(Policy{
		Name: cmp.Or(l.str("name"), l.str("namespace")), Place: l.Place, Origin: origin, when: when, key: key,
		side: side{algorithm: "fixed_window_anchored", limit: most, window: time.Duration(seconds) * time.Second},
	})
}

// descriptorExpression takes an expression of Limitador, which is CEL, and puts variables in the place of what it is sent:
// descriptors[0]["name"], descriptors[0].name, and plain names. Texts stay as they are.
func (in *Import) descriptorExpression(v *value) (e expr, bad string) {
	if len(v.text) > mostExpression {
		return expr{}, "it is too long"
	}

	var b strings.Builder
	for rest := v.text; rest != ""; {
		c := rest[0]
		switch {
		case c == '"' || c == '\'':
			end := endOfText(rest)
			if end < 0 {
				return expr{}, "a quote is not closed"
			}
			b.WriteString(rest[:end])
			rest = rest[end:]
		case isNameStart(c):
			name := leadingName(rest)
			sent, length := sentName(rest, name)
			switch {
			case sent != "":
				b.WriteString(in.sent(v.Place, "Limitador", sent).text)
			default:
				b.WriteString(name)
				length = len(name)
			}
			rest = rest[length:]
		default:
			b.WriteByte(c)
			rest = rest[1:]
		}
	}
	return expr{strings.TrimSpace(b.String()), choice}, ""
}

// endOfText returns where a text in quotes ends, -1 if it does not.
func endOfText(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return -1
}

func isNameStart(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// leadingName returns the name that a text begins with, with the parts behind its dots.
func leadingName(s string) string {
	end := 0
	for end < len(s) && (isNameStart(s[end]) || s[end] >= '0' && s[end] <= '9' || s[end] == '.') {
		end++
	}
	return s[:end]
}

// celWords are names that stand for themselves.
var celWords = setOf("true false null in has size int uint double string bool bytes timestamp duration type matches")

// sentName returns what a name at the beginning of a text is sent as, and the length of that; "" if the name stands for itself.
func sentName(s, name string) (sent string, length int) {
	if name != "descriptors" {
		// The last part of a call is its function.
		if strings.HasPrefix(s[len(name):], "(") {
			name = name[:max(0, strings.LastIndexByte(name, '.'))]
		}
		if celWords[name] {
			return "", 0
		}
		return name, len(name)
	}

	// Of several descriptors only the first is one of HTTP requests, as Envoy and Kuadrant send them.
	rest, found := strings.CutPrefix(s, "descriptors[0]")
	if !found {
		return "", 0
	}
	if field, found := strings.CutPrefix(rest, "."); found {
		field = leadingName(field)
		return field, len("descriptors[0].") + len(field)
	}
	if len(rest) > 2 && rest[0] == '[' && (rest[1] == '"' || rest[1] == '\'') {
		if end := endOfText(rest[1:]); end > 2 && strings.HasPrefix(rest[1+end:], "]") {
			return rest[2:end], len("descriptors[0]") + 1 + end + 1
		}
	}
	return "", 0
}
