// Package importer reads the configuration of another rate limiter and writes a draft of a policy file: its limits, each with its
// place. Read is its only entrance; each peer has a file of its own.
//
// Which requests a limit is for is said in the peer's own language, and no part of it is translated: such a policy has
// "when: false", and the peer's words beside it. Only the descriptors of envoyproxy/ratelimit are data, and become conditions.
//
// A limit whose numbers or key are not plain is left out, with its place and the reason, in LeftOut. A configuration is input of
// unknown origin: size, depth and number of everything in it are bounded, and each file that comes out of Read is one that package
// policies accepts.
package importer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Place is a line of a configuration.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// LeftOut is a limit that no policy has, or a part of a configuration that changes what limits do.
type LeftOut struct {
	Place
	What string `json:"what"` // as the configuration has it
	Why  string `json:"why"`  // and what to do about it
}

func (l LeftOut) String() string { return fmt.Sprintf("%s: %s: %s", l.Place, l.What, l.Why) }

// Policy is one imported limit.
type Policy struct {
	Name string `json:"name"`
	Place
	Origin        string   `json:"origin"`            // the text at Place
	Where         []string `json:"where,omitempty"`   // which requests the peer limits, in its own words
	Authoritative string   `json:"authoritative"`     // in the short form
	Differs       []string `json:"differs,omitempty"` // in which the policy decides otherwise

	when string // CEL; "": false
	key  []string
	bad  string // why it has no plain key; "": it has one
	side side
}

func (p *Policy) write(b *strings.Builder) {
	fmt.Fprintf(b, "  # %s: %s\n", p.Place, p.Origin)
	for _, d := range p.Differs {
		fmt.Fprintf(b, "  # differs: %s\n", shown(d))
	}

	fmt.Fprintf(b, "  - name: %s\n", scalar(p.Name))
	for _, where := range p.Where {
		fmt.Fprintf(b, "    # where: %s\n", where)
	}
	if p.when == "" {
		b.WriteString("    when: false\n")
	} else {
		fmt.Fprintf(b, "    when: %s\n", scalar(p.when))
	}

	var key []string
	for _, part := range p.key {
		key = append(key, scalar(part))
	}
	if len(key) == 1 {
		fmt.Fprintf(b, "    key: %s\n", key[0])
	} else {
		fmt.Fprintf(b, "    key: [%s]\n", strings.Join(key, ", "))
	}

	fmt.Fprintf(b, "    authoritative: { algorithm: %s, limit: %d, window: %s", p.side.algorithm, p.side.limit,
		algorithms.FormatWindow(p.side.window))
	if p.side.burst > 0 {
		fmt.Fprintf(b, ", burst: %d", p.side.burst)
	}
	b.WriteString(" }\n")
}

// side is a limiter in the words of a policy file.
type side struct {
	algorithm string
	limit     int64
	window    time.Duration
	burst     int64 // of buckets
}

// String returns the limiter in the short form of replay.
func (s side) String() string {
	text := fmt.Sprintf("%s:%d/%s", s.algorithm, s.limit, algorithms.FormatWindow(s.window))
	if s.burst > 0 {
		text += fmt.Sprintf(":burst=%d", s.burst)
	}
	return text
}

// Import is what came of a configuration.
type Import struct {
	Peer     string    `json:"peer"`
	Files    []string  `json:"files"`
	Policies []Policy  `json:"policies"`
	LeftOut  []LeftOut `json:"left_out"`
	File     string    `json:"policy_file"` // its text; "" without a policy

	name      string // of the policy file
	variables []variable
}

// variable is a named expression of the policy file.
type variable struct{ name, value string }

// Error is a configuration that is refused as a whole.
type Error struct {
	Place
	Why string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Place, e.Why) }

// Bounds of reading. The largest real configurations have some hundred kilobytes and some hundred limits.
const (
	mostBytes    = 1 << 20  // of a file
	mostRead     = 16 << 20 // of all files of an import
	mostFiles    = 256
	mostIncludes = 16   // one inside the other
	mostDepth    = 64   // of blocks and values
	mostItems    = 2000 // descriptors, routes, lines of an ACL
	mostPolicies = 500
	mostLeftOut  = 2000
	mostWhere    = 20  // texts beside one policy
	mostText     = 300 // characters of a configuration in a message
	mostRate     = 1_000_000_000
	mostSeconds  = 100 * 366 * 24 * 3600 // of a window
)

// readers are the peers, by their names on the command line.
var readers = map[string]func(*Import, *disk) error{
	"envoy":     readEnvoy,
	"haproxy":   readHAProxy,
	"kong":      readKong,
	"limitador": readLimitador,
	"traefik":   readTraefik,
	"nginx":     readNginx,
}

// Peers returns the names of the peers, sorted.
func Peers() []string { return slices.Sorted(maps.Keys(readers)) }

// ErrNothing is the error of a configuration without a limit that becomes a policy. The Import beside it says why.
var ErrNothing = errors.New("no limit becomes a policy")

// Read imports files of a peer, which belong together. name is that of the policy file; "" is the peer's. The error is an *Error where
// a file is refused with its place; without any policy it is ErrNothing, and the Import names all that is left out.
func Read(peer string, files []string, name string) (*Import, error) {
	return readFrom(newDisk(), peer, files, name)
}

func readFrom(d *disk, peer string, files []string, name string) (*Import, error) {
	read := readers[peer]
	if read == nil {
		why, remedy := NoImporter(peer)
		return nil, fmt.Errorf("%s: %s", why, remedy)
	}

	in := &Import{Peer: peer, Files: files, Policies: []Policy{}, LeftOut: []LeftOut{}, name: cmp.Or(name, peer)}
	if err := read(in, d); err != nil {
		return nil, err
	}
	return in, in.finish()
}

// leave notes a part that is left out. A hostile configuration cannot make the list grow without an end.
func (in *Import) leave(at Place, what, why string, args ...any) {
	if len(in.LeftOut) > mostLeftOut {
		return
	}
	if len(in.LeftOut) == mostLeftOut {
		what, why, args = "the rest", "more than %d parts are left out: import a smaller configuration", []any{mostLeftOut}
	}

	l := LeftOut{Place: at, What: cmp.Or(shown(what), "an empty text"), Why: shown(fmt.Sprintf(why, args...))}
	if !slices.Contains(in.LeftOut, l) {
		in.LeftOut = append(in.LeftOut, l)
	}
}

// add notes a policy under a name of its own, or leaves it out.
func (in *Import) add(p Policy) {
	switch {
	case p.bad != "":
		in.leave(p.Place, p.Origin, "%s: write this policy by hand, with %s", p.bad, p.side)
		return
	case len(in.Policies) >= mostPolicies:
		in.leave(p.Place, p.Origin, "more than %d limits: import a smaller configuration", mostPolicies)
		return
	}

	base := validName(p.Name)
	p.Name = base
	taken := func(other Policy) bool { return other.Name == p.Name }
	for n := 2; slices.ContainsFunc(in.Policies, taken); n++ {
		p.Name = fmt.Sprintf("%s-%d", base, n)
	}

	where := p.Where
	p.Origin, p.Where, p.Authoritative = shown(p.Origin), nil, p.side.String()
	for i, text := range where {
		if i == mostWhere {
			p.Where = append(p.Where, "and more: see the configuration")
			break
		}
		if text = shown(text); !slices.Contains(p.Where, text) {
			p.Where = append(p.Where, text)
		}
	}
	in.Policies = append(in.Policies, p)
}

// unknown names the fields of a limit that an importer does not know.
func (in *Import) unknown(v *value, what string, known ...string) {
	for _, f := range v.entries() {
		same := func(name string) bool { return strings.EqualFold(name, f.key) }
		if !slices.ContainsFunc(known, same) {
			in.leave(f.at, what+" "+f.key, "unknown to the importer: no policy has what it does")
		}
	}
}

// finish writes the policy file and reads it again as a service would. A policy that package policies refuses, because its numbers
// or its condition are too large, is left out with that reason: each round leaves out at least one.
func (in *Import) finish() error {
	for len(in.Policies) > 0 {
		text, lines := in.write()
		_, err := policies.Load("the imported file", []byte(text))
		if err == nil {
			in.File = text
			return nil
		}

		var problems *policies.Problems
		if !errors.As(err, &problems) {
			return err
		}
		if err := in.withdraw(problems, lines); err != nil {
			return err
		}
	}

	// Where parts are left out, the list of them says why.
	if len(in.LeftOut) == 0 {
		return fmt.Errorf("the configuration has none that is known: %w", ErrNothing)
	}
	return ErrNothing
}

// withdraw takes the policies with problems back.
func (in *Import) withdraw(problems *policies.Problems, lines []int) error {
	refused := map[int]bool{}
	for _, problem := range problems.List {
		if problem.Severity != policies.SeverityError {
			continue
		}

		// A problem belongs to the last policy that begins before it; one before all policies is in what they share.
		i, exact := slices.BinarySearch(lines, problem.Line)
		if !exact {
			i--
		}
		if i < 0 {
			return &Error{Place{in.Files[0], 1}, "the policy file would be refused: " + shown(problem.Message)}
		}
		if p := in.Policies[i]; !refused[i] {
			in.leave(p.Place, p.Origin, "no policy can have it: %s", shown(problem.Message))
		}
		refused[i] = true
	}

	if len(refused) == 0 {
		return &Error{Place{in.Files[0], 1}, "the policy file would be refused: " + problems.Error()}
	}
	var kept []Policy
	for i, p := range in.Policies {
		if !refused[i] {
			kept = append(kept, p)
		}
	}
	in.Policies = kept
	return nil
}

// Off is how many policies are switched off until their when is written.
func (in *Import) Off() int64 {
	n := int64(0)
	for _, p := range in.Policies {
		if p.when == "" {
			n++
		}
	}
	return n
}

// write returns the policy file. lines says of each policy on which line it begins.
func (in *Import) write() (text string, lines []int) {
	var b strings.Builder
	in.writeHead(&b)
	fmt.Fprintf(&b, "version: 1\nname: %s\n%s", scalar(validName(in.name)), Generation)
	if len(in.variables) > 0 {
		b.WriteString("variables:\n")
	}
	for _, v := range in.variables {
		fmt.Fprintf(&b, "  %s: %s\n", v.name, scalar(v.value))
	}

	b.WriteString("policies:\n")
	for i := range in.Policies {
		if i > 0 {
			b.WriteByte('\n')
		}
		lines = append(lines, strings.Count(b.String(), "\n")+1)
		in.Policies[i].write(&b)
	}
	return b.String(), lines
}

// writeHead says where the file comes from, and what it lacks.
func (in *Import) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "# Limits of %s, by shadowlimit import %s.\n", shown(strings.Join(in.Files, ", ")), in.Peer)
	if in.Off() > 0 {
		fmt.Fprintf(b, switchedOff, in.Peer, refusals[in.Peer])
	}
	if in.Peer != "envoy" || len(in.variables) > 0 {
		b.WriteString("#\n" + notes[in.Peer])
	}

	if len(in.LeftOut) > 0 {
		b.WriteString("#\n# Left out, or to be known:\n")
	}
	for _, l := range in.LeftOut {
		fmt.Fprintf(b, "#   %s\n", l)
	}
}

// validName makes a name of a policy from a text of a configuration.
func validName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.') {
			return r
		}
		return '-'
	}, text)

	name = strings.Trim(name, "-.")
	if len(name) > 48 {
		name = name[:48]
	}
	return cmp.Or(name, "limit")
}

// shown returns a text of a configuration as one short line: it stands in comments of a file, whose structure it must not change.
func shown(text string) string {
	text = humanize.Visible(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > mostText {
		return string(r[:mostText]) + "..."
	}
	return text
}

// The plain keys.
const (
	requestIP   = "request.ip"
	requestHost = "request.host"
	requestUser = "request.user"
)

func headerKey(name string) string { return entryOf("request.headers", strings.ToLower(name)) }

// entryOf is the expression of an entry of a map, "" where it is absent. The escapes of Go are a part of CEL's.
func entryOf(of, name string) string { return of + "[?" + strconv.Quote(name) + `].orValue("")` }
