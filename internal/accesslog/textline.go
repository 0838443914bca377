package accesslog

import "strings"

// textLine has the fields of a line whose format knows their places, by the names of a request. There are about ten, so a
// list is read faster than a map is made. A parser has one textLine, which it fills for each line.
type textLine []textField

type textField struct{ name, value string }

func (l *textLine) text(name string) (string, bool) {
	for _, f := range *l {
		if f.name == name {
			return f.value, true
		}
	}
	return "", false
}

func (l *textLine) under(name string) map[string]string {
	found := map[string]string{}
	for _, f := range *l {
		if inner, ok := strings.CutPrefix(f.name, name+"."); ok {
			found[inner] = f.value
		}
	}
	return found
}

// set sets a field. One that the line has already gets the new value.
func (l *textLine) set(name, value string) {
	for i := range *l {
		if (*l)[i].name == name {
			(*l)[i].value = value
			return
		}
	}
	*l = append(*l, textField{name, value})
}

// put sets a field that the line has. Servers write a minus for one that a request lacks.
func (l *textLine) put(name, value string) {
	if value != "" && value != "-" {
		l.set(name, value)
	}
}

// request takes a request line apart: GET /path?query HTTP/1.1. A request that is no HTTP, such as a TLS hello on a plain
// port, has no two words.
func (l *textLine) request(line string) {
	method, rest := cutSpaces(line)
	address, _ := cutSpaces(rest)
	if address == "" {
		return
	}

	l.put("method", method)
	host, path, query := target(address)
	l.put("host", host)
	l.put("path", path)
	l.put("query", query)
}

// cutSpaces cuts a text behind its first word. Words are apart by spaces.
func cutSpaces(text string) (word, rest string) {
	word, rest, _ = strings.Cut(strings.TrimLeft(text, " "), " ")
	return word, rest
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
