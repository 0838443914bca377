package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

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

// write returns the policy file. line says of each policy on which line it begins.
func (in *Import) write() (text string, lines []int) {
	var b strings.Builder
	in.writeHead(&b)
	fmt.Fprintf(&b, "version: 1\nname: %s\n", scalar(validName(in.name)))
	in.writeNamed(&b)

	b.WriteString("policies:\n")
	begun := map[*Group]bool{nil: false}
	for i := range in.Policies {
		p := &in.Policies[i]
		lines = append(lines, strings.Count(b.String(), "\n")+1)
		p.write(&b, begun[p.Group])
		begun[p.Group] = p.Group != nil
	}
	return b.String(), lines
}

// writeHead says where the file comes from, and what it lacks.
func (in *Import) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "# From %s, by shadowlimit import %s. Each authoritative side decides as the line above it does. A policy\n",
		shown(strings.Join(in.Files, ", ")), in.Peer)
	b.WriteString("# without a candidate is a plain limiter: add one to compare it with.\n")

	if len(in.LeftOut) > 0 {
		b.WriteString("#\n# Not carried over:\n")
	}
	for _, l := range in.LeftOut {
		fmt.Fprintf(b, "#   %s\n", l)
	}
}

// writeNamed writes the tables and the variables that expressions name.
func (in *Import) writeNamed(b *strings.Builder) {
	if len(in.tables) > 0 {
		b.WriteString("data:\n")
	}
	for _, t := range in.tables {
		fmt.Fprintf(b, "  %s:\n", scalar(t.name))
		for _, e := range t.entries {
			fmt.Fprintf(b, "    %s: %s\n", strconv.QuoteToASCII(e[0]), strconv.QuoteToASCII(e[1]))
		}
	}

	if len(in.variables) > 0 {
		b.WriteString("variables:\n")
	}
	for _, v := range in.variables {
		if v.comment != "" {
			fmt.Fprintf(b, "  # %s\n", shown(v.comment))
		}
		fmt.Fprintf(b, "  %s: %s\n", v.name, scalar(v.value.text))
	}
}

// write writes a policy. A member of a group that an earlier one has begun has its key and its cost.
func (p *Policy) write(b *strings.Builder, begun bool) {
	fmt.Fprintf(b, "  # %s: %s\n", p.Place, p.Origin)
	for _, d := range p.Differs {
		fmt.Fprintf(b, "  # differs: %s\n", shown(d))
	}

	fmt.Fprintf(b, "  - name: %s\n", scalar(p.Name))
	switch {
	case p.Group != nil && begun:
		fmt.Fprintf(b, "    group: { name: %s }\n", scalar(p.Group.Name))
	case p.Group != nil:
		fmt.Fprintf(b, "    group: { name: %s, charge: %s }\n", scalar(p.Group.Name), p.Group.Charge)
	}
	if p.when != yes {
		fmt.Fprintf(b, "    when: %s\n", scalar(p.when.text))
	}
	if !begun {
		p.writeKey(b)
	}
	fmt.Fprintf(b, "    authoritative: %s\n", p.side.yaml())
}

// writeKey writes what the members of a group have once.
func (p *Policy) writeKey(b *strings.Builder) {
	if len(p.key) == 1 {
		fmt.Fprintf(b, "    key: %s\n", scalar(p.key[0].text))
	} else {
		var list []string
		for _, e := range p.key {
			list = append(list, scalar(e.text))
		}
		fmt.Fprintf(b, "    key: [%s]\n", strings.Join(list, ", "))
	}

	if p.cost > 1 {
		fmt.Fprintf(b, "    cost: %d\n", p.cost)
	}
}

func (s side) yaml() string {
	window := algorithms.Limit{Window: s.window, Options: algorithms.Options{Calendar: s.calendar}}.Period()
	text := fmt.Sprintf("{ algorithm: %s, limit: %d, window: %s", s.algorithm, s.limit, window)

	// Only those options are written that the origin has: the file is read by people.
	if s.burst > 0 {
		text += fmt.Sprintf(", burst: %d", s.burst)
	}
	if s.forget > 0 {
		text += ", forget: " + algorithms.FormatWindow(s.forget)
	}
	if s.countDenied {
		text += ", count_denied: true"
	}
	if s.phase != "" {
		text += ", phase: " + s.phase
	}

	return text + " }"
}
