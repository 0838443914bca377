package importer

import (
	"fmt"
	"slices"
	"strings"
)

// sent returns the variable that stands for a value that a peer is sent under a name. The configuration does not say what it is, so
// its expression comes from Options.Map. Without one it is the header of that name, and that is said.
func (in *Import) sent(at Place, peer, name string) expr {
	v := variable{name: variableName(name)}
	if i := slices.IndexFunc(in.variables, func(other variable) bool { return other.name == v.name }); i >= 0 {
		return expr{"variables." + v.name, atom}
	}

	switch known, mapped := in.mapped[name], wellKnown[name]; {
	case known != "":
		v.value, v.comment = expr{known, choice}, fmt.Sprintf("--map %s", name)
	case mapped.text != "":
		v.value, v.comment = mapped, fmt.Sprintf("what %s is sent as %s; another expression is given by --map", peer, name)
	default:
		v.value = headerValue(strings.ReplaceAll(name, "_", "-"))
		v.comment = fmt.Sprintf(
			"TODO: %s is a value that %s is sent, and its configuration does not tell how it is made; by --map %s=EXPRESSION",
			name, peer, name)
		in.leave(at, name, "%s is sent it, and the configuration does not say what it is: the policy takes the header of that name; "+
			"give its expression by --map %s=EXPRESSION", peer, name)
	}
	in.variables = append(in.variables, v)
	return expr{"variables." + v.name, atom}
}

// UnusedError is returned for an expression of a name that no part of the configuration is sent.
type UnusedError struct{ Name string }

func (e *UnusedError) Error() string {
	return "no part of the configuration is sent a value of that name"
}

// isSent reports whether some part of the configuration is sent a value of that name.
func (in *Import) isSent(name string) bool {
	return slices.ContainsFunc(in.variables, func(v variable) bool { return v.name == variableName(name) })
}

// descriptors reports whether policies read what shadowlimit-envoy is sent. An expression for any of it says that the policies
// are for a service that sees requests themselves.
func (in *Import) descriptors() bool { return len(in.mapped) == 0 }

// sentToEnvoy returns the variable of an entry of the descriptors that shadowlimit-envoy is sent.
func (in *Import) sentToEnvoy(entry string) expr {
	v := variable{name: variableName(entry), value: expr{fmt.Sprintf("request.descriptors[?%s].orValue(\"\")", literal(entry).text), atom}}
	if len(in.variables) == 0 {
		v.comment = "as shadowlimit-envoy is sent it; for a service that sees requests themselves, give --map KEY=EXPRESSION"
	}

	// Two keys may have one name as variables: user-id and user_id.
	for taken := true; taken; {
		i := slices.IndexFunc(in.variables, func(other variable) bool { return other.name == v.name })
		if i >= 0 && in.variables[i].value == v.value {
			return expr{"variables." + v.name, atom}
		}
		if taken = i >= 0; taken {
			v.name += "_"
		}
	}
	in.variables = append(in.variables, v)
	return expr{"variables." + v.name, atom}
}

// wellKnown are names that Envoy's own actions, and Kuadrant, give to values that are sent.
var wellKnown = map[string]expr{
	"remote_address": requestIP,
	"req.method":     {"request.method", atom},
	"req_method":     {"request.method", atom},
	"method":         {"request.method", atom},
	"path":           requestPath,
	"req.path":       requestPath,
	"req_path":       requestPath,
	"host":           requestHost,
}

// variableName makes a name of a variable from a text.
func variableName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, text)
	return "sent_" + name[:min(len(name), 60)]
}
