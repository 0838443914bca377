package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/shadowlimit/shadowlimit/policies"
)

// routes name the route of a request by its path, as a service's router does. Every segment is looked up by its own name first,
// so that the most specific template wins.
type routes struct {
	root      routeNode
	matched   int64
	unmatched int64
	example   string // the first path that no template matches
}

type routeNode struct {
	named    map[string]*routeNode // by a segment as it is written
	any      *routeNode            // {id}
	template string                // that ends here; "": none
	rest     string                // the template that takes all further segments; "": none
}

// maxRoutes bounds the templates, and with them the work for a path.
const maxRoutes = 10_000

// mostTemplates bounds a file of templates in bytes; policies.ReadFile reads no more than one beyond it.
const mostTemplates = 1 << 20

const routeHint = "write a template such as /orders/{id}, or @FILE for a file with one a line"

// parseRoutes reads templates; @FILE, or the name of a file, stands for the templates in it.
func parseRoutes(values []string) (*routes, error) {
	if len(values) == 0 {
		return nil, nil
	}

	r := &routes{}
	count := 0
	for _, value := range values {
		list, err := templatesOf(value)
		if err != nil {
			return nil, err
		}
		if count += len(list); count > maxRoutes {
			return nil, usagef(routeHint, "--route: more than %d templates", maxRoutes)
		}
		for _, template := range list {
			if err := r.add(template); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// templatesOf returns one template, or those of a file without its blank lines and remarks.
func templatesOf(value string) (list []string, err error) {
	name, isFile := strings.CutPrefix(value, "@")
	if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
		isFile = true
	}
	if !isFile {
		return []string{value}, nil
	}

	text, err := policies.ReadFile(name)
	if err != nil {
		return nil, usagef(routeHint, "--route %s: %v", value, reason(err))
	}
	if len(text) > mostTemplates {
		return nil, usagef(routeHint, "--route %s: the file has more than %d bytes", value, mostTemplates)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list, nil
}

// add notes a template. A method before it is left out, as request.route has none.
func (r *routes) add(template string) error {
	if _, path, found := strings.Cut(template, " "); found {
		template = strings.TrimSpace(path)
	}
	if !strings.HasPrefix(template, "/") {
		return usagef(routeHint, "--route %s: a template begins with /", template)
	}

	node := &r.root
	segments := strings.Split(template[1:], "/")
	for i, segment := range segments {
		switch {
		case segment == "*" || strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "...}"):
			if i+1 < len(segments) {
				return usagef(routeHint, "--route %s: %s stands for the rest of a path: nothing may follow", template, segment)
			}
			node.rest = template
			return nil
		case isParameter(segment):
			if node.any == nil {
				node.any = &routeNode{}
			}
			node = node.any
		case strings.ContainsAny(segment, "{}*"):
			return usagef(routeHint, "--route %s: %s: a parameter is a whole segment, such as {id}", template, segment)
		default:
			if node.named == nil {
				node.named = map[string]*routeNode{}
			}
			if node.named[segment] == nil {
				node.named[segment] = &routeNode{}
			}
			node = node.named[segment]
		}
	}
	node.template = template
	return nil
}

// isParameter reports whether a segment is {id}, or :id as some routers write it.
func isParameter(segment string) bool {
	if len(segment) > 1 && segment[0] == ':' {
		return true
	}
	inner, opened := strings.CutPrefix(segment, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	return opened && closed && inner != "" && !strings.ContainsAny(inner, "{}*:")
}

// of returns the route of a path, "" if no template matches.
func (r *routes) of(path string) string {
	if route := r.find(path); route != "" {
		r.matched++
		return route
	}
	if r.unmatched++; r.unmatched == 1 {
		r.example = path
	}
	return ""
}

// find is of without counting, so it may be called concurrently. Of no templates it finds none.
func (r *routes) find(path string) string {
	if r == nil || !strings.HasPrefix(path, "/") {
		return ""
	}
	return r.root.match(path[1:])
}

func (n *routeNode) match(path string) string {
	segment, rest, more := strings.Cut(path, "/")

	// A segment that is written out goes before a parameter.
	for _, next := range []*routeNode{n.named[segment], n.any} {
		// A parameter is never empty.
		if next == nil || next == n.any && segment == "" {
			continue
		}
		if !more {
			if next.template != "" {
				return next.template
			}
			continue
		}
		if route := next.match(rest); route != "" {
			return route
		}
	}
	return n.rest
}

// warning says how many paths have no route, "" if all have one.
func (r *routes) warning() string {
	if r == nil || r.unmatched == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d paths match no --route, such as %.80q: their route is empty", r.unmatched, r.matched+r.unmatched, r.example)
}
