package policies

import (
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// request reads a request's node, by the same rules as one on the command line. It
// returns nil after noting a problem.
func (s *suite) request(n *yaml.Node) *Request {
	if n.Kind != yaml.MappingNode {
		s.fail(n, "request: want a mapping, such as { method: GET }")
		return nil
	}

	r, err := requestOf(n)
	if err != nil {
		message := withoutPackage(err)
		s.fail(fieldOf(n, message), "%s", message)
		return nil
	}
	return r
}

// requestOf takes a node through JSON, the form that ParseRequest knows: a request has one reader, for files and for command lines.
func requestOf(n *yaml.Node) (*Request, error) {
	var v map[string]any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return ParseRequest(text)
}

// wrongField is how a message about a request begins that names one of its fields. The messages are those of ParseRequest, which
// reads JSON and knows no lines: only the names lead back to the nodes of the file.
var wrongField = regexp.MustCompile(`^request: (unknown field "([^"]*)"|([a-z]+)[.:])`)

// fieldOf returns the node of the field that a message is about: the name of one that requests do not have, the value of any other. It is
// the whole request where the message names none.
func fieldOf(n *yaml.Node, message string) *yaml.Node {
	m := wrongField.FindStringSubmatch(message)
	if m == nil {
		return n
	}

	// The name of an unknown field is the mistake, and of a known field its value.
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch name := n.Content[i].Value; {
		case name == m[2] && strings.Contains(m[1], "unknown"):
			return n.Content[i]
		case name == m[3] && name != "":
			return target(n.Content[i+1])
		}
	}
	return n
}
