package accesslog

import "strings"

// textLine has the fields of a line whose format knows their places, by the names of a request.
type textLine map[string]string

func (l textLine) text(name string) (string, bool) {
	v, ok := l[name]
	return v, ok
}

func (l textLine) under(name string) map[string]string {
	found := map[string]string{}
	for field, value := range l {
		if inner, ok := strings.CutPrefix(field, name+"."); ok {
			found[inner] = value
		}
	}
	return found
}

// put sets a field that the line has. Servers write a minus for one that a request lacks.
func (l textLine) put(name, value string) {
	if value != "" && value != "-" {
		l[name] = value
	}
}

// request takes a request line apart: GET /path?query HTTP/1.1. A request that is no HTTP, such as a TLS hello on a plain
// port, has no two words.
func (l textLine) request(line string) {
	parts := strings.Fields(line)
	if len(parts) < 2 {
		return
	}

	l.put("method", parts[0])
	host, path, query := target(parts[1])
	l.put("host", host)
	l.put("path", path)
	l.put("query", query)
}

// target takes the target of a request apart: a path with its query, or an absolute URL.
func target(text string) (host, path, query string) {
	if scheme, rest, found := strings.Cut(text, "://"); found && !strings.ContainsAny(scheme, "/?") {
		host, text = rest, "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			host, text = rest[:i], rest[i:]
		}
	}
	path, query, _ = strings.Cut(text, "?")
	return host, path, query
}
