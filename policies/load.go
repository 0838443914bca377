package policies

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// fileVersion is the one version of the file format that Load reads.
const fileVersion = "1"

// maxPolicies bounds the policies of a file, whose names become metric labels. Each
// request asks each of them whether it matches.
const maxPolicies = 1000

// LoadFile reads a policy file. The error is a *Problems if the file could be read, and
// otherwise wraps the one of [ReadFile]. The set is nil on an error: half of a file is
// never used. Checks are those of Load.
func LoadFile(name string, checks ...Check) (*Set, error) {
	text, err := ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("policies: load: %w", err)
	}
	return Load(name, text, checks...)
}

// maxFileBytes bounds a policy file, so that the tree of a wrong or hostile file stays
// small. 1,000 policies of 1 KiB each fit.
const maxFileBytes = 1 << 20

// ReadFile returns the text of a policy file, or of another small one that a program begins with. Only a regular file is read, because a device has no end, and a
// pipe may have no writer. Of a file of more than 1 MiB the text ends one byte behind that, and Load refuses it.
func ReadFile(name string) ([]byte, error) {
	// The open file is asked, and not its name, which may be another file by then. A pipe without a writer would block the open.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// Load reads a policy file's text; name appears in messages. The error is a
// *Problems. Checks look at its promotion sections: their errors are errors of the
// file, their warnings are among the set's.
func Load(name string, text []byte, checks ...Check) (*Set, error) {
	r := &reader{Problems{File: name}}
	c, err := newCompiler(r)
	if err != nil {
		return nil, fmt.Errorf("policies: load %s: %w", name, err)
	}

	// After an error reading goes on: an author wants all problems of a file at once.
	l := &loader{compiler: c, linter: &linter{&r.Problems}, checks: checks, set: &Set{}}
	root := r.parse(text)
	if root != nil {
		l.root(root)
	}
	r.sort()
	if r.Failed() {
		return nil, &r.Problems
	}

	// The file has no errors: the rest of the list are warnings.
	l.set.Warnings, l.set.text.problems = r.List, &r.Problems
	l.set.text.fields = fieldsOf(root)
	l.set.Adapts = l.set.adapts(adaptive.LatencyP99, adaptive.ErrorRate, adaptive.Saturation)
	l.set.AdaptsByErrors = l.set.adapts(adaptive.ErrorRate)
	l.set.Settles = slices.ContainsFunc(l.set.Policies, (*Policy).Settles)
	l.set.ReadsRoutes = l.set.reads("request.route")
	l.set.reading = readingOf(l.set)
	l.set.selections = selectionsOf(l.set.Policies)
	return l.set, nil
}

// loader takes a file through its compiler and its linter, in the order in which
// its sections need each other.
type loader struct {
	*compiler
	linter *linter
	checks []Check
	set    *Set
	base   Promotion // of the file, from which each policy's starts
	file   *section  // the one of base, nil if the file has none
}

// root reads the file's own fields. What expressions may refer to comes before the
// policies, wherever it stands in the file.
func (l *loader) root(n *yaml.Node) {
	var version string // needed by the reader of the field alone: there is one version
	sections := map[string]*yaml.Node{}
	later := func(name string) field {
		return field{read: func(n *yaml.Node) { sections[name] = n }, required: name == "policies"}
	}
	l.mapping(n, "the file", map[string]field{
		"version":    {read: l.choice("version", &version, fileVersion), required: true},
		"name":       {read: l.name("name", &l.set.Name), required: true},
		"generation": {read: l.count("generation", &l.set.Generation, 1)},
		// A share of all of the wait would make most clients wait needlessly long, so 100% is refused as elsewhere.
		"retry_jitter": {read: l.fraction("retry_jitter", &l.set.RetryJitter)},
		"data":         later("data"),
		"variables":    later("variables"),
		"policies":     later("policies"),
		"promotion":    later("promotion"),
		"together":     later("together"),
	})

	readData(l.compiler, sections["data"])
	readVariables(l.compiler, sections["variables"])
	if n := sections["promotion"]; n != nil {
		readPromotion(l.compiler, &l.base)(n)
		l.file = l.section(l.base, n)
	}
	if n := sections["policies"]; n != nil {
		l.policies(n)
	}
	if n := sections["together"]; n != nil {
		readTogether(l, n)
	}
	if !l.Failed() {
		l.linter.file(l.set, placesOf(n)["name"])
	}
}

// policies reads the list of policies. Two of one name would share state and metrics.
func (l *loader) policies(n *yaml.Node) {
	items := l.items(n, "policies")

	if len(items) > maxPolicies {
		l.fail(n, "policies: %d of them: at most %d", len(items), maxPolicies)
		return
	}
	if n.Kind == yaml.SequenceNode && len(items) == 0 {
		l.fail(n, "policies: want at least one")
	}

	seen := map[string]int{}
	for _, item := range items {
		p := l.policy(item)
		l.set.Policies = append(l.set.Policies, p)
		if seen[p.Name] > 0 && p.Name != "" {
			l.fail(item, "two policies are named %q: rename one; the first is in line %d", p.Name, seen[p.Name])
			continue
		}
		seen[p.Name] = item.Line
	}
}

// policy reads a policy and lets the linter look at it. Warnings about half a file would often be wrong, so the linter is
// silent once there is an error.
func (l *loader) policy(n *yaml.Node) *Policy {
	p := readPolicy(l.compiler, n, l.base)

	fields := placesOf(n)
	if !l.Failed() {
		l.linter.policy(p, fields)
	}
	if n := fields["promotion"]; n != nil {
		l.section(p.Promotion, n)
	}
	return p
}

// section keeps a promotion section for later checks, and looks at it now.
func (l *loader) section(p Promotion, n *yaml.Node) *section {
	s := newSection(p, n, l.file)
	l.set.text.sections = append(l.set.text.sections, s)

	for _, check := range l.checks {
		for _, problem := range s.check(check) {
			l.addOnce(problem)
		}
	}
	return s
}

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
