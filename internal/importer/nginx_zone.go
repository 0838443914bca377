package importer

import (
	"strconv"
	"strings"
	"time"
)

// nginxZone is a limit_req_zone.
type nginxZone struct {
	Place
	name string
	key  []expr
	set  expr  // the condition under which the key is not empty, without which nginx does not limit
	rate int64 // thousandths of a request a second
	text string
	bad  string // why it cannot be carried over; "": it can
}

// nginxLimit is a limit_req with the same zone and the same burst, wherever it stands.
type nginxLimit struct {
	zone    *nginxZone
	burst   int64
	nodelay bool
	places  []Place
	text    string
	differs []string
	policy  int // its place in the import; below 0: it has none
}

// mostRate bounds the requests of a rate, and of a burst. Package policies has bounds of its own.
const mostRate = 1_000_000_000

// zone reads limit_req_zone KEY zone=NAME:SIZE rate=RATE.
func (n *nginx) zone(d *directive) {
	z := &nginxZone{Place: d.Place, text: d.text(), rate: 1000, set: yes}
	var key string
	for i, arg := range d.args {
		name, value, found := strings.Cut(arg, "=")
		switch {
		case i == 0:
			key = arg
		case found && name == "zone":
			z.name, _, _ = strings.Cut(value, ":")
		case found && name == "rate":
			z.rate, z.bad = nginxRate(value)
		case arg == "sync":
			n.in.leave(d.Place, arg, "the instances of a fleet share the state in Redis anyway")
		default:
			n.in.leave(d.Place, arg, "unknown parameter of limit_req_zone")
		}
	}

	if z.bad == "" {
		z.key, z.set, z.bad = n.key(key)
	}
	if z.bad != "" {
		n.in.leave(d.Place, d.text(), "%s", z.bad)
	}
	n.zones[z.name] = z
}

// nginxRate returns a rate in thousandths of a request a second, rounded down as nginx does.
func nginxRate(text string) (rate int64, bad string) {
	number, scale := text, int64(1)
	if rest, found := strings.CutSuffix(text, "r/m"); found {
		number, scale = rest, 60
	} else {
		number = strings.TrimSuffix(text, "r/s")
	}

	r, err := strconv.ParseInt(number, 10, 64)
	if err != nil || r < 1 || r > mostRate {
		return 0, "invalid rate " + text
	}
	return r * 1000 / scale, ""
}

// budget returns a rate as requests in a window: whole numbers of seconds, and otherwise thousandths as they are.
func (z *nginxZone) budget() (limit int64, window time.Duration) {
	switch {
	case z.rate%1000 == 0:
		return z.rate / 1000, time.Second
	case 1000%z.rate == 0:
		return 1, time.Duration(1000/z.rate) * time.Second
	}
	return z.rate, 1000 * time.Second
}

// limit reads limit_req zone=NAME [burst=N] [nodelay | delay=N]. It returns nil for one that is left out.
func (n *nginx) limit(d *directive) *nginxLimit {
	var zone string
	var burst, delay int64
	nodelay := false
	for _, arg := range d.args {
		name, value, _ := strings.Cut(arg, "=")
		number, err := strconv.ParseInt(value, 10, 64)
		bad := err != nil || number < 0 || number > mostRate
		switch {
		case name == "zone":
			zone = value
		case name == "burst" && !bad:
			burst = number
		case name == "delay" && !bad:
			delay = number
		case arg == "nodelay":
			nodelay = true
		default:
			n.in.leave(d.Place, d.text(), "nginx takes no %s here", arg)
			return nil
		}
	}

	z := n.zones[zone]
	if z == nil {
		n.in.leave(d.Place, d.text(), "no limit_req_zone %s in these files: name the file that has it, too", zone)
		return nil
	}
	if z.bad != "" {
		n.in.leave(d.Place, d.text(), "its zone is left out: %s", z.bad)
		return nil
	}
	return n.shared(d, &nginxLimit{zone: z, burst: burst, nodelay: nodelay || delay >= burst}, delay)
}

// shared returns the one limit of a zone and a burst. Requests that nginx delays and such that it does not have the same state.
func (n *nginx) shared(d *directive, l *nginxLimit, delay int64) *nginxLimit {
	if delay > 0 && !l.nodelay {
		l.differs = append(l.differs, "the delays: nginx delays only what is above delay=N, and the policy all that waits")
	}

	for _, other := range n.limits {
		if other.zone != l.zone {
			continue
		}
		if other.burst != l.burst {
			n.in.leave(d.Place, d.text(), "zone %s has another burst at %s: nginx keeps one state for both, and the policies one each",
				l.zone.name, other.places[0])
			continue
		}
		if other.nodelay != l.nodelay && len(other.differs) == 0 {
			other.nodelay = true
			other.differs = append(other.differs, "the delays: nginx delays requests in some of the locations, and the policy in none")
		}
		other.places = append(other.places, d.Place)
		return other
	}

	l.places, l.text, l.policy = []Place{d.Place}, d.text(), -1
	n.limits = append(n.limits, l)
	return l
}
