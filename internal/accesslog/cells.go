package accesslog

import (
	"slices"
	"strings"
)

// header has the names of a table's columns.
type header struct {
	names []string
	uses  []use // of each column
}

// newHeader looks the names up once, and not for each line. text returns the first column of a name, so later ones of the
// same name are of no use.
func newHeader(names []string) *header {
	h := &header{names, make([]use, len(names))}
	for i, name := range names {
		if slices.Index(names, name) == i {
			h.uses[i] = useOf(name)
		}
	}
	return h
}

// cells are the values of a line under the names of its header. An empty one is a value that the line lacks.
type cells struct {
	header *header
	values []string
}

func (l cells) text(name string) (string, bool) {
	i := slices.Index(l.header.names, name)
	if i < 0 || i >= len(l.values) || l.values[i] == "" {
		return "", false
	}
	return l.values[i], true
}

func (l cells) names() []string { return l.header.names }

func (l cells) has(name string) bool {
	_, ok := l.text(name)
	return ok
}

func (l cells) put(k *known, _ string) {
	for i, u := range l.header.uses {
		if i < len(l.values) && u.any() {
			k.put(u, l.header.names[i], l.values[i])
		}
	}
}

func (l cells) under(name string) map[string]string {
	found := map[string]string{}
	for i, field := range l.header.names {
		inner, ok := strings.CutPrefix(field, name+".")
		if !ok || i >= len(l.values) || l.values[i] == "" {
			continue
		}

		// text returns the first column of a name, so under must, too.
		if _, twice := found[inner]; !twice {
			found[inner] = l.values[i]
		}
	}
	return found
}
