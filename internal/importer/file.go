package importer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

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

// plain are the texts that YAML reads as they are, also inside brackets. Any other text is quoted.
var plain = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_./-]*$`)

// words are plain texts that YAML reads as something else than text.
var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// scalar writes a text so that YAML reads the same text.
func scalar(text string) string {
	if plain.MatchString(text) && !slices.Contains(words, strings.ToLower(text)) {
		return text
	}

	// A text with a line break or a control character is one line of JSON, which is YAML.
	for _, r := range text {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff {
			return strconv.QuoteToASCII(text)
		}
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Generation is the line of a new policy file that says how its number is filled.
const Generation = "generation: 1   # grows with each release: let CI write its build number, or git log -1 --format=%ct\n"

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

// switchedOff says why a policy matches nothing, and what to do about it.
const switchedOff = `#
# Every policy is SWITCHED OFF by "when: false" until you write its when. Which requests a limit is
# for is said in %[1]s's own language, which is not translated: it stands beside each policy as
# "where". What %[1]s really does is in its access log. With a candidate in the policy,
#   shadowlimit replay --config FILE --observed 'response.status == %[2]d' ACCESS_LOG
# says how often the policy and the log decide alike.
`

// refusals are the statuses with which the peers deny, unless their configuration says otherwise.
var refusals = map[string]int{"envoy": 429, "haproxy": 403, "kong": 429, "limitador": 429, "nginx": 503, "traefik": 429}

// notes are what is true of all limits of a peer.
var notes = map[string]string{
	"envoy": `# For shadowlimit-envoy, which is sent the descriptors that a condition names. One of several hits
# that is denied is counted by ratelimit, and not here.
`,
	"haproxy": `# HAProxy denies with status 403 unless a rule says otherwise. Rules before a limit (allow, deny,
# return) keep requests from it. Its windows begin with a client's first request and its rates are
# rounded down; here windows begin at multiples of their length, and parts of requests count.
`,
	"kong": `# Kong runs no plugin where no route matches, and of several plugins of one name only the most
# specific one. It charges none of the limits of one plugin when one of them refuses; policies are
# charged each by itself.
`,
	"limitador": `# Keys are entries of a descriptor, as shadowlimit-envoy is sent it. Limitador charges none of the
# limits of a request when one of them refuses; policies are charged each by itself.
`,
	"nginx": `# nginx refuses with status 503 unless limit_req_status says otherwise. Locations also get what
# try_files, index, rewrite and error_page send there.
`,
	"traefik": `# Traefik also admits a request that would have to wait for at most half of the time of one
# (and at most 0.5 s).
`,
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
