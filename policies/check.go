package policies

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Check looks at a promotion section with knowledge that this package does not have:
// which numbers the gate can reach. The section has the fields that it inherits from
// the file's. Its slices belong to the set: a check must not change them. A check may be
// called from several goroutines at once.
type Check func(Promotion) []Finding

// Finding is what a Check says of fields of a section.
type Finding struct {
	// Severity is SeverityError or SeverityWarning.
	Severity string
	// Fields are the names of the fields that make it so, such as "soak". The finding
	// is shown at the first of them that the section names itself, else at the first
	// that the file's section names. If neither names any, as for a default, it is shown
	// at the start of the section.
	Fields  []string
	Message string
}

// section is a promotion section of a file, the file's own or a policy's.
type section struct {
	promotion Promotion
	at        position
	fields    map[string]position // that it names
	inherited map[string]position // that the file's section names
}

// position is a place in a file. Sections keep these instead of nodes, which would
// keep the whole tree of the file.
type position struct{ line, column int }

// positionOf returns where a node stands in the file.
func positionOf(n *yaml.Node) position { return position{n.Line, n.Column} }

// newSection remembers where the fields of a section stand. file is the file's
// section, nil for itself.
func newSection(p Promotion, n *yaml.Node, file *section) *section {
	s := &section{promotion: p, at: positionOf(n), fields: map[string]position{}}
	for name, value := range placesOf(n) {
		s.fields[name] = positionOf(value)
	}
	if file != nil {
		s.inherited = file.fields
	}
	return s
}

// check returns the findings of a check as problems.
func (s *section) check(check Check) (list []Problem) {
	for _, f := range check(s.promotion) {
		at := s.positionOf(f.Fields)
		list = append(list, Problem{f.Severity, at.line, at.column, f.Message})
	}
	return list
}

// positionOf returns where a finding about fields is shown.
func (s *section) positionOf(fields []string) position {
	for _, known := range []map[string]position{s.fields, s.inherited} {
		for _, name := range fields {
			if at, ok := known[name]; ok {
				return at
			}
		}
	}
	return s.at
}

// Check lets a check look at a set that was loaded without it, and returns what it
// finds beyond the set's warnings, in the order of the places. The set stays as it is,
// even if a finding is an error: it is for the caller to refuse the set.
func (s *Set) Check(check Check) []Problem {
	found := &Problems{}

	// A warning that loading has given already is not given twice.
	for _, section := range s.text.sections {
		for _, p := range section.check(check) {
			if !slices.Contains(s.Warnings, p) {
				found.addOnce(p)
			}
		}
	}
	found.sort()
	return found.List
}
