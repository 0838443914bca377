package importer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Place is a line of a configuration.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// LeftOut is a part of a configuration that the policies do not have.
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
	Authoritative string   `json:"authoritative"`     // in the short form
	Group         *Group   `json:"group,omitempty"`   // nil: the policy is charged by itself
	Differs       []string `json:"differs,omitempty"` // in which the policy decides or acts otherwise

	when expr
	key  []expr
	cost int64 // 0: one
	side side
}

// side is a limiter in the words of a policy file.
type side struct {
	algorithm   string
	limit       int64
	window      time.Duration
	calendar    algorithms.Calendar // in the place of the window
	burst       int64               // of buckets
	forget      time.Duration       // of buckets
	countDenied bool
	phase       string // of windows; "": the epoch
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
	tables    []table
	mapped    map[string]string // the expressions of Options.Map
}

// variable is a named expression of the policy file.
type variable struct {
	name    string
	value   expr
	comment string
}

// table is a constant table of the policy file.
type table struct {
	name    string
	entries [][2]string
}

// Options say what a configuration does not.
type Options struct {
	Name string            // of the policy file; "": the peer's
	Map  map[string]string // expressions for what the peer is sent, by the peer's name of it
}

// Error is a configuration that is refused as a whole.
type Error struct {
	Place
	Why string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Place, e.Why) }

// Bounds of reading. The largest real configurations have some hundred kilobytes and some hundred limits.
const (
	mostBytes    = 16 << 20 // of all files
	mostFiles    = 256
	mostIncludes = 16 // one inside the other
	mostDepth    = 64 // of blocks and values
	mostPolicies = 500
	mostLeftOut  = 2000
	mostText     = 300 // characters of a configuration in a message
)

// readers are the peers, by their names on the command line.
var readers = map[string]func(*Import, *disk) error{
	"envoy":     readDescriptors,
	"haproxy":   readHAProxy,
	"kong":      readKong,
	"limitador": readLimitador,
	"traefik":   readTraefik,
	"nginx":     readNginx,
}

// Peers returns the names of the peers, sorted.
func Peers() []string { return slices.Sorted(maps.Keys(readers)) }

// ErrNothing is the error of a configuration without a limit that can be carried over. The Import beside it says why.
var ErrNothing = errors.New("no limit can be carried over")

// Read imports files of a peer, which belong together. The error is an *Error where a file is refused with its place; without any
// policy it is ErrNothing, and the Import names all that is left out.
func Read(peer string, files []string, o Options) (*Import, error) {
	return readFrom(newDisk(), peer, files, o)
}

func readFrom(d *disk, peer string, files []string, o Options) (*Import, error) {
	read := readers[peer]
	if read == nil {
		return nil, fmt.Errorf("no importer for %q: %s", peer, humanize.Remedy(peer, Peers()))
	}

	in := &Import{Peer: peer, Files: files, Policies: []Policy{}, LeftOut: []LeftOut{}, name: o.Name, mapped: o.Map}
	if in.name == "" {
		in.name = peer
	}
	if err := read(in, d); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(in.mapped)) {
		if !in.isSent(name) {
			return nil, &UnusedError{name}
		}
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

// add notes a policy under a name of its own, and returns its place in the list; -1 for one that is left out.
func (in *Import) add(p Policy) (at int) {
	if len(in.Policies) >= mostPolicies {
		in.leave(p.Place, p.Origin, "more than %d limits: import a smaller configuration", mostPolicies)
		return -1
	}

	p.Origin, p.Name = shown(p.Origin), in.unused(p.Name)
	in.Policies = append(in.Policies, p)
	return len(in.Policies) - 1
}

// validName makes a name of a policy, or of a table, from a text of a configuration.
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
	if name == "" {
		return "limit"
	}
	return name
}

// shown returns a text of a configuration as one short line: it stands in comments of a file, whose structure it must not change.
func shown(text string) string {
	text = humanize.Visible(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > mostText {
		return string(r[:mostText]) + "..."
	}
	return text
}
