package importer

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Generation is the line of a new policy file that says how its number is filled.
const Generation = "generation: 1   # grows with each release: let CI write its build number, or git log -1 --format=%ct\n"

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
