package importer

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nginx collects what a configuration says about limit_req.
type nginx struct {
	in     *Import
	made   map[string]*directive // what makes a variable, by its name
	zones  map[string]*nginxZone
	limits []*nginxLimit
}

// nginxZone is a limit_req_zone.
type nginxZone struct {
	*directive
	name    string
	rate    int64 // thousandths of a request a second
	key     string
	present string // the variable that must have a value; "": the key always has one
	bad     string // why its key is no plain one; "": it is one
	used    bool
}

// nginxLimit is a limit_req with the same zone, burst and delays, wherever it stands: its state is one.
type nginxLimit struct {
	*directive
	zone    *nginxZone
	burst   int64
	nodelay bool
	where   []string
	differs []string
}

// readNginx imports limit_req (ngx_http_limit_req_module.c).
func readNginx(in *Import, d *disk) error {
	n := &nginx{in: in, made: map[string]*directive{}, zones: map[string]*nginxZone{}}
	var all []*directive
	for _, file := range in.Files {
		p := &nginxParser{disk: d, in: in, root: filepath.Dir(file)}
		list, err := p.file(file)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}

	// Variables and zones hold wherever they stand, so they come first.
	n.variables(all)
	if err := n.declare(all); err != nil {
		return err
	}
	n.walk(all, nil)
	n.policies()
	return nil
}

// nginxBlocks are the blocks in which limit_req may stand.
var nginxBlocks = setOf("http server location")

func setOf(names string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}

// nginxMakers are directives that make a variable, with the place of its name among their words; -1 is the last one.
var nginxMakers = map[string]int{"map": -1, "geo": -1, "split_clients": -1, "set": 0, "js_set": 0, "perl_set": 0, "auth_request_set": 0}

func (n *nginx) variables(list []*directive) {
	for _, d := range list {
		if at, makes := nginxMakers[d.name]; makes && len(d.args) > 0 {
			if at < 0 {
				at = len(d.args) - 1
			}
			n.made[strings.TrimPrefix(d.args[at], "$")] = d
			continue
		}
		n.variables(d.block)
	}
}

// nginxByAddress are directives that make $remote_addr another one than the connection's.
var nginxByAddress = setOf("set_real_ip_from real_ip_header")

const byAddress = "the client's address is another one afterwards: give httplimit.Config.ClientIP the same proxies"

func (n *nginx) declare(list []*directive) error {
	for _, d := range list {
		switch {
		case d.name == "limit_req_zone":
			if err := n.zone(d); err != nil {
				return err
			}
		case nginxBlocks[d.name]:
			if err := n.declare(d.block); err != nil {
				return err
			}
		}
	}
	return nil
}

// zone reads limit_req_zone KEY zone=NAME:SIZE rate=RATE.
func (n *nginx) zone(d *directive) error {
	z := &nginxZone{directive: d, rate: 1000}
	for i, arg := range d.args {
		name, value, found := strings.Cut(arg, "=")
		switch {
		case i == 0:
			z.key, z.present, z.bad = n.key(arg)
		case found && name == "zone":
			z.name, _, _ = strings.Cut(value, ":")
		case found && name == "rate":
			if z.rate = nginxRate(value); z.rate == 0 {
				return &Error{d.Place, "invalid rate " + shown(value)}
			}
		case arg != "sync":
			return &Error{d.Place, "unknown parameter " + shown(arg)}
		}
	}

	if other := n.zones[z.name]; other != nil {
		return &Error{d.Place, "zone " + shown(z.name) + " is there already, at " + other.Place.String()}
	}
	n.zones[z.name] = z
	return nil
}

// nginxRate returns a rate in thousandths of a request a second, rounded down as nginx does; 0 for none.
func nginxRate(text string) int64 {
	number, scale := text, int64(1)
	if rest, found := strings.CutSuffix(text, "r/m"); found {
		number, scale = rest, 60
	} else {
		number = strings.TrimSuffix(text, "r/s")
	}

	r, err := strconv.ParseInt(number, 10, 64)
	if err != nil || r < 1 || r > mostRate {
		return 0
	}
	return r * 1000 / scale
}

// nginxVariable is a key of one variable.
var nginxVariable = regexp.MustCompile(`^\$(?:\{(\w+)\}|(\w+))$`)

// nginxKeys are the variables of nginx that are fields of a request for policies, too.
var nginxKeys = map[string]string{
	"binary_remote_addr": requestIP, "remote_addr": requestIP, "host": requestHost, "remote_user": requestUser,
}

// key returns the expression of a zone's key, and the variable that may be empty: nginx does not limit an empty key.
func (n *nginx) key(text string) (key, present, bad string) {
	if text != "" && !strings.Contains(text, "$") {
		return strconv.Quote(text), "", ""
	}
	match := nginxVariable.FindStringSubmatch(text)
	if match == nil {
		return "", "", "its key is made of several parts"
	}

	name := match[1] + match[2]
	header, isHeader := strings.CutPrefix(name, "http_")
	argument, isArgument := strings.CutPrefix(name, "arg_")
	made := n.made[name]
	switch {
	case made != nil && made.name == "geo":
		return "", "", "its key $" + name + " is made by geo at " + made.Place.String() +
			", whose values are texts and no variables, one bucket for each"
	case made != nil:
		return "", "", "its key $" + name + " is made by " + made.name + " at " + made.Place.String() + ""
	case nginxKeys[name] == requestUser:
		return requestUser, name, ""
	case nginxKeys[name] != "":
		return nginxKeys[name], "", ""
	case isHeader && header != "host":
		return headerKey(strings.ReplaceAll(header, "_", "-")), name, ""
	case isArgument:
		return entryOf("request.query", argument), name, ""
	}
	return "", "", "its key $" + name + " is no plain field of a request"
}

// walk reads the limits of blocks. path is what is around them.
func (n *nginx) walk(list []*directive, path []*directive) {
	several, where := 0, ""
	for _, d := range list {
		if d.name == "limit_req" {
			several++
		}
	}
	if several > 0 {
		where = nginxWhere(list, path)
	}
	for _, d := range list {
		switch {
		case d.name == "limit_req":
			n.limit(d, where, several > 1)
		case d.name == "limit_req_dry_run" && slices.Equal(d.args, []string{"on"}):
			n.in.leave(d.Place, d.text(), "nginx only counts in this block, and a policy denies")
		case d.name == "limit_conn":
			n.in.leave(d.Place, d.text(), "limits connections, not requests")
		case nginxByAddress[d.name]:
			n.in.leave(d.Place, d.text(), byAddress)
		case nginxBlocks[d.name]:
			n.walk(d.block, append(slices.Clone(path), d))
		}
	}
}

// limit reads limit_req zone=NAME [burst=N] [nodelay | delay=N].
func (n *nginx) limit(d *directive, where string, several bool) {
	l := &nginxLimit{directive: d}
	var zone string
	var delay int64
	for _, arg := range d.args {
		name, value, _ := strings.Cut(arg, "=")
		number, err := strconv.ParseInt(value, 10, 64)
		bad := err != nil || number < 0 || number > mostRate
		switch {
		case name == "zone":
			zone = value
		case name == "burst" && !bad:
			l.burst = number
		case name == "delay" && !bad:
			delay = number
		case arg == "nodelay":
			l.nodelay = true
		default:
			n.in.leave(d.Place, d.text(), "nginx takes no %s here", arg)
			return
		}
	}

	l.zone = n.zones[zone]
	if l.zone == nil {
		n.in.leave(d.Place, d.text(), "no limit_req_zone %s in these files: name the file that has it, too", zone)
		return
	}
	l.zone.used = true
	if l.nodelay = l.nodelay || delay >= l.burst; delay > 0 && !l.nodelay {
		l.differs = append(l.differs, "nginx delays only what is above delay=N, and the policy all that waits")
	}
	if several {
		l.differs = append(l.differs, "nginx charges none of the limit_req of one block when one of them refuses")
	}
	n.share(l, fmt.Sprintf("%s (%s)", where, d.Place))
}

// share adds a place to the limit that has the same state, or notes another limit.
func (n *nginx) share(l *nginxLimit, where string) {
	state := ""
	for _, other := range n.limits {
		if other.zone != l.zone {
			continue
		}
		if other.burst == l.burst && other.nodelay == l.nodelay {
			other.where, other.differs = append(other.where, where), append(other.differs, l.differs...)
			return
		}
		state = cmp.Or(state, fmt.Sprintf("nginx keeps one state for this limit and that of %s, and policies have one each", other.Place))
	}
	if state != "" {
		l.differs = append(l.differs, state)
	}
	if len(n.limits) < mostPolicies {
		l.where = []string{where}
		n.limits = append(n.limits, l)
		return
	}
	n.in.leave(l.Place, l.text(), "more than %d limits: import a smaller configuration", mostPolicies)
}

// nginxWhere says which block limits stand in.
func nginxWhere(block, path []*directive) string {
	var list []string
	for _, around := range path {
		text := around.text()
		for _, inner := range around.block {
			if around.name == "server" && (inner.name == "server_name" || inner.name == "listen") && len(text) < mostText {
				text += " " + inner.text()
			}
		}
		if around.name != "http" {
			list = append(list, text)
		}
	}

	where := cmp.Or(strings.Join(list, ", "), "http")
	if slices.ContainsFunc(block, func(inner *directive) bool { return nginxBlocks[inner.name] }) {
		where += ", and blocks in it without a limit_req of their own"
	}
	return where
}

// policies makes a policy of each limit.
func (n *nginx) policies() {
	for _, l := range n.limits {
		limit, window := l.zone.budget()
		algorithm := "leaky_bucket"
		if l.nodelay {
			algorithm = "token_bucket"
		}
		where := l.where
		if l.zone.present != "" {
			where = append([]string{"$" + l.zone.present + " is not empty: nginx does not limit an empty key"}, where...)
		}
		slices.Sort(l.differs)
		n.in.add(Policy{
			Name: l.zone.name, Place: l.Place, Origin: fmt.Sprintf("%s; %s at %s", l.text(), l.zone.text(), l.zone.Place),
			Where: where, Differs: slices.Compact(l.differs), key: []string{l.zone.key}, bad: l.zone.bad,
			// nginx does not count the first request as a part of the burst.
			side: side{algorithm: algorithm, limit: limit, window: window, burst: l.burst + 1},
		})
	}

	for _, z := range n.zones {
		if !z.used {
			n.in.leave(z.Place, z.text(), "no limit_req in these files uses this zone")
		}
	}
	slices.SortStableFunc(n.in.LeftOut, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What))
	})
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
