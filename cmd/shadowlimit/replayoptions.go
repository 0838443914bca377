package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// replayOptions are the checked flags of replay.
type replayOptions struct {
	logs          []string
	sides         [2]algorithms.Side
	reader        accesslog.Config
	config        string
	policy        string                     // "": every one of the file
	sweep         []axis                     // the numbers of the candidate to try; nil: none
	models        map[string]algorithms.Side // in the place of custom limiters of the file, by their names
	observed      *observed                  // nil: the log is not asked what its limiter did
	fromLog       bool                       // what it did is the authoritative, in the place of --from
	key           *policies.KeyExpression    // nil: the log's field
	routes        *routes                    // nil: the log's
	store, redis  string
	decisionsFile string
	htmlFile      string
	gate          gate.Config
	requirePass   bool
	broken        []string // logs that could not be read to their end
	format        format
}

const replayHint = "see: shadowlimit replay --help"

// conflict is a combination of flags and arguments that replay refuses.
type conflict struct {
	applies func(*cli.Context) bool
	message string
	hint    string // "" is the command's help
}

// writesItsInput reports whether an output is a log, or the policy file.
func writesItsInput(c *cli.Context) bool {
	for _, flag := range []string{"html", "decisions"} {
		written, err := os.Stat(c.String(flag))
		if err != nil {
			continue
		}
		for _, name := range append(c.Args().Slice(), c.String("config")) {
			if read, err := os.Stat(name); err == nil && os.SameFile(written, read) {
				return true
			}
		}
	}
	return false
}

// logConflicts are those of flags that every command has which reads a log.
var logConflicts = []conflict{
	{
		func(c *cli.Context) bool { return c.IsSet("key") && c.IsSet("key-field") },
		"--key and --key-field: want one of them", "",
	},
	{
		func(c *cli.Context) bool {
			onlyIP := !slices.ContainsFunc(c.StringSlice("map"), func(m string) bool { return !strings.HasPrefix(m, "request.ip=") })
			return c.IsSet("map") && !hasExpressions(c) && (!onlyIP || c.IsSet("key-field"))
		},
		"--map fills the request that expressions read: it has no effect without --config or --key", "",
	},
	{
		func(c *cli.Context) bool {
			mapsIP := slices.ContainsFunc(c.StringSlice("map"), func(m string) bool { return strings.HasPrefix(m, "request.ip=") })
			return c.IsSet("trusted-proxies") && (mapsIP || c.IsSet("key-field"))
		},
		"--trusted-proxies finds the client, which --key-field and --map request.ip name", "give one of them",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("route") && !hasExpressions(c) },
		"--route names the route that expressions read: it has no effect without --config or --key", "",
	},
	{
		func(c *cli.Context) bool {
			return c.IsSet("html") && slices.Contains([]string{"", "-"}, c.String("html"))
		},
		"--html: want a file", "name a file; standard output has the report",
	},
}

// replayConflicts are those of replay. The first that applies is reported.
var replayConflicts = []conflict{
	{
		func(c *cli.Context) bool { return hasConfig(c) && (c.IsSet("from") || c.IsSet("to")) },
		"--config has the limiters: leave out --from and --to", "",
	},
	{
		func(c *cli.Context) bool { return hasConfig(c) && c.IsSet("key") },
		"--config has the keys: leave out --key", "",
	},
	{
		func(c *cli.Context) bool { return hasConfig(c) && (c.IsSet("key-field") || c.IsSet("cost-field")) },
		"--config has the keys and the costs: --key-field and --cost-field have no effect",
		"leave them out; --map fills the fields of the request that the policies read",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("policy") && !hasConfig(c) },
		"--policy names a policy of a file: give --config", "",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("as") && !hasConfig(c) },
		"--as is a model of a custom limiter, which a policy file has: give --config", "",
	},
	{
		func(c *cli.Context) bool { return c.String("decisions") == "-" },
		"--decisions -: want a file", "name a file; standard output has the report",
	},
	{
		func(c *cli.Context) bool { return hasConfig(c) && c.String("decisions") != "" },
		"--decisions is for one policy: use it with --from and --to", "",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("sweep") && c.String("decisions") != "" },
		"--decisions is for one candidate: leave out --sweep", "",
	},
	{
		func(c *cli.Context) bool { return c.String("html") != "" && c.String("html") == c.String("decisions") },
		"--html and --decisions: want two files", "",
	},
	{
		writesItsInput,
		"--html or --decisions is a file that replay reads, and would be lost", "name another file",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("sweep") && c.Bool("require-pass") },
		"--require-pass asks about one candidate: leave out --sweep", "replay the candidate of your choice alone",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("sweep") && c.String("store") != "memory" },
		"--sweep judges in memory: leave out --store", "",
	},
	{
		func(c *cli.Context) bool {
			return given(c, "redis") && c.String("store") == "memory"
		},
		"--redis has no effect without --store redis", "add --store redis, or leave out --redis: the limiters are in memory then",
	},
	{
		func(c *cli.Context) bool {
			return !hasConfig(c) && (c.String("from") == "" && !c.IsSet("observed") || c.String("to") == "")
		},
		"replay needs both --from and --to, or --config", shortFormHint,
	},
	{
		func(c *cli.Context) bool { return !c.Args().Present() },
		"replay needs a log", "name log files, or - for standard input",
	},
}

func hasConfig(c *cli.Context) bool { return c.String("config") != "" }

func replayOptionsOf(c *cli.Context) (*replayOptions, error) {
	for _, one := range slices.Concat(logConflicts, replayConflicts) {
		if one.applies(c) {
			return nil, usageError{one.message, cmp.Or(one.hint, replayHint)}
		}
	}

	// Values are read in a fixed order, so that the same command line always gets the same error.
	o := &replayOptions{
		logs: c.Args().Slice(), config: c.String("config"), store: c.String("store"), redis: c.String("redis"),
		decisionsFile: c.String("decisions"), htmlFile: c.String("html"), requirePass: c.Bool("require-pass"),
		policy: c.String("policy"),
	}
	for _, parse := range []func(*cli.Context) error{
		o.parseForms, o.parseStore, o.parseGate, o.parseSides, o.parseModels, o.parseKey, o.parseSweep, o.parseObserved,
	} {
		if err := parse(c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// parseLogs reads the flags that say how logs are read.
func (o *replayOptions) parseLogs(c *cli.Context) (err error) {
	// Only expressions look at more of a line than its time, key and cost.
	o.reader = accesslog.Config{
		Fields:   accesslog.Fields{Time: c.String("time-field"), Key: c.String("key-field"), Cost: c.String("cost-field")},
		Requests: hasExpressions(c),
	}
	if o.reader.Format, err = accesslog.ParseFormat(c.String("format")); err != nil {
		return usagef(replayHint, "--format: %v", err)
	}
	if o.reader.Map, err = parseMap(c.StringSlice("map")); err != nil {
		return err
	}
	if o.routes, err = parseRoutes(c.StringSlice("route")); err != nil {
		return err
	}

	if err := o.parseProxies(c.StringSlice("trusted-proxies")); err != nil {
		return err
	}

	if name := c.String("time-zone"); name != "" {
		// "Local" is what this machine has, which says nothing about the log.
		if o.reader.Zone, err = time.LoadLocation(name); err != nil || name == "Local" {
			return usagef(replayHint, "--time-zone %s: want UTC or a name of the IANA data base, such as Europe/Berlin", name)
		}
	}
	if form := c.String("time-format"); form != "" {
		if o.reader.TimeFormat, err = accesslog.ParseTimeFormat(form); err != nil {
			return usagef(replayHint, "--time-format %s: %v", form, err)
		}
		if o.reader.TimeFormat.NeedsZone() && o.reader.Zone == nil {
			return usagef("add --time-zone UTC, or the zone of the log", "--time-format %s has no zone", form)
		}
	}
	return nil
}

// parseProxies has clients found by the rule of the middleware, so that a log counts them as the service will.
func (o *replayOptions) parseProxies(texts []string) error {
	var proxies []netip.Prefix
	for _, text := range texts {
		prefix, err := parseProxy(text)
		if err != nil {
			return usagef("such as 10.0.0.0/8 or 10.1.2.3", "--trusted-proxies %s: %v", text, err)
		}
		proxies = append(proxies, prefix)
	}
	if proxies == nil {
		return nil
	}

	find := httplimit.ForwardedFor(proxies...)
	line := make([]string, 1)
	request := &http.Request{Header: http.Header{"X-Forwarded-For": line}}
	o.reader.Client = func(peer, forwarded string) string {
		request.RemoteAddr, line[0] = peer, forwarded
		return find(request)
	}
	return nil
}

func (o *replayOptions) parseObserved(c *cli.Context) error {
	if !c.IsSet("observed") {
		return nil
	}

	text := c.String("observed")
	denies, err := policies.ParseResponse("--observed", text)
	if err != nil {
		return usagef(observedHint, "%v", err)
	}
	o.observed = &observed{text: text, denies: denies}
	o.reader.Response = true
	return nil
}

// parseSweep reads --sweep. The product of all is bounded, because each candidate is a replay.
func (o *replayOptions) parseSweep(c *cli.Context) error {
	product := 1
	var counts []string
	for _, text := range c.StringSlice("sweep") {
		a, err := parseAxis(text)
		if err == nil && slices.ContainsFunc(o.sweep, func(other axis) bool { return other.name == a.name }) {
			err = fmt.Errorf("%s is given twice", a.name)
		}
		if err != nil {
			return usagef(sweepHint, "--sweep %s: %v", text, err)
		}

		o.sweep = append(o.sweep, a)
		product *= len(a.values)
		counts = append(counts, fmt.Sprint(len(a.values)))
	}
	if product > replay.MostSwept {
		return usagef("take larger steps, or sweep one number after the other", "--sweep: %s candidates are %d, at most %d",
			strings.Join(counts, " x "), product, replay.MostSwept)
	}
	return nil
}

func (o *replayOptions) parseForms(c *cli.Context) (err error) {
	if o.format, err = formatOf(c); err != nil {
		return err
	}
	for _, flag := range []string{"html", "decisions"} {
		if err := checkPlace("--"+flag, c.String(flag)); err != nil {
			return err
		}
	}
	return o.parseLogs(c)
}

func (o *replayOptions) parseStore(*cli.Context) error {
	if o.store != "memory" && o.store != "redis" {
		return usagef(replayHint, "--store %s: want memory or redis", o.store)
	}
	return nil
}

// parseSides reads the short forms of the limiters. With --config the file has them.
func (o *replayOptions) parseSides(c *cli.Context) (err error) {
	if hasConfig(c) {
		return nil
	}
	o.fromLog = c.String("from") == "" && c.IsSet("observed")
	for role, flag := range [2]string{algorithms.Authoritative: "from", algorithms.Candidate: "to"} {
		if flag == "from" && o.fromLog {
			continue
		}
		if o.sides[role], err = parseSide(flag, c.String(flag)); err != nil {
			return err
		}
	}
	return nil
}

const modelHint = "write NAME=ALGORITHM:REQUESTS/WINDOW[:burst=N], where NAME is a custom limiter of the policy file, " +
	"such as tenant-rate=token_bucket:10/1s:burst=20"

// parseModels reads --as.
func (o *replayOptions) parseModels(c *cli.Context) error {
	o.models = map[string]algorithms.Side{}
	for _, text := range c.StringSlice("as") {
		name, form, found := strings.Cut(text, "=")
		if !found || name == "" {
			return usagef(modelHint, "--as %s: want the name of a limiter before its model", humanize.Printable(text))
		}
		if o.models[name].Present() {
			return usagef(modelHint, "--as %s: the limiter has a model already", humanize.Printable(text))
		}
		model, err := parseSide("as", form)
		if err != nil {
			return err
		}
		o.models[name] = model
	}
	return nil
}

func (o *replayOptions) parseKey(c *cli.Context) (err error) {
	if !c.IsSet("key") {
		return nil
	}
	if o.key, err = policies.ParseKey("--key", c.String("key")); err != nil {
		return usagef(`such as 'request.headers[?"x-tenant"].orValue("none")'`, "%v", err)
	}
	return nil
}

const gateHint = "times are whole minutes such as 48h, percentages such as 2%"

// parseGate reads the flags that the gate judges by.
func (o *replayOptions) parseGate(c *cli.Context) (err error) {
	if o.gate.Soak, err = minutesOf(c, "soak"); err != nil {
		return err
	}

	thresholds := []struct {
		flag string
		into *float64
	}{
		{"divergence", &o.gate.Divergence}, {"newly-denied", &o.gate.NewlyDenied}, {"newly-allowed", &o.gate.NewlyAllowed},
		{"extra-load", &o.gate.ExtraLoad},
	}
	for _, t := range thresholds {
		if *t.into, err = thresholdOf(c, t.flag); err != nil {
			return err
		}
	}

	if err := o.gate.WithDefaults().Validate(); err != nil {
		return usagef(gateHint, "%s", strings.TrimPrefix(err.Error(), "gate: "))
	}
	return nil
}

// minutesOf reads a flag of whole minutes, because evidence is counted by the minute; 0 if it is
// not given.
func minutesOf(c *cli.Context, flag string) (time.Duration, error) {
	text := c.String(flag)
	if text == "" {
		return 0, nil
	}
	d, err := algorithms.ParseWindow(text)
	if err != nil {
		return 0, usagef(gateHint, "--%s %s: want a time such as 48h or 2d", flag, text)
	}
	if d < time.Minute || d%time.Minute != 0 {
		return 0, usagef(gateHint, "--%s %s: want whole minutes", flag, text)
	}
	return d, nil
}

// thresholdOf reads a flag of a percentage as a fraction; 0 if it is not given. At 100 % nothing
// would ever be above the threshold.
func thresholdOf(c *cli.Context, flag string) (float64, error) {
	text := c.String(flag)
	if text == "" {
		return 0, nil
	}
	percent, err := parsePercent(text)
	if err != nil || percent >= 100 {
		return 0, usagef(gateHint, "--%s %s: want a percentage above 0%% and below 100%%", flag, text)
	}
	return percent / 100, nil
}

// parsePercent reads a number above 0 and up to 100 with a percent sign.
func parsePercent(s string) (float64, error) {
	number, found := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !found || !(v > 0 && v <= 100) {
		return 0, fmt.Errorf("%q is no percentage above 0%% and up to 100%%, such as 10%%", s)
	}
	return v, nil
}

// subject returns what the flags name.
func (o *replayOptions) subject() (subject, error) {
	if o.config != "" {
		s, err := openPolicySubject(o.config, o.models, o.requests(), o.observed)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.list, (*policies.Policy).Settles) {
			o.reader.Response = true
		}
		return s, nil
	}
	s := newSideSubject(o.sides, o.key, o.requests(), o.observed)
	s.logged = o.fromLog
	return s, nil
}

func (o *replayOptions) requests() *requests {
	r := &requests{routes: o.routes, mapped: o.reader.Map, unmapped: map[string]bool{}, unseen: map[string]string{}}
	if o.reader.Requests {
		for name := range o.reader.Map {
			r.unmapped[name] = true
		}
	}
	return r
}

// configOf is how a comparison is replayed: the same for the short forms and for policies, so
// that no flag works for one of them only.
func (o *replayOptions) configOf(c *comparison) replay.Config {
	return replay.Config{
		Policy: c.name, Sides: c.sides, Texts: c.texts, Logged: c.logged, Settles: c.settles,
		Gate: o.gate.Or(c.rules.Config), Steps: stages.Steps(c.rules.Canary), Dwell: c.rules.Dwell,
	}
}

// openStore opens the store of the limiters. In Redis every comparison has a namespace of its
// own, whose keys expire by themselves.
func (o *replayOptions) openStore(ctx context.Context) (open openPair, closeStore func(), err error) {
	if o.store == "memory" {
		return func() (algorithms.Pair, error) {
			return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}), nil
		}, func() {}, nil
	}

	client, err := openRedis(o.redis, commandBudget)
	if err != nil {
		return nil, nil, err
	}
	if err := reach(ctx, pingOf(client)); err != nil {
		client.Close()
		return nil, nil, err
	}

	open = func() (algorithms.Pair, error) {
		return lua.New(client, lua.Config{Name: fmt.Sprintf("replay-%016x", rand.Uint64())})
	}
	return open, func() { client.Close() }, nil
}

// openPair makes a pair with an empty store.
type openPair func() (algorithms.Pair, error)

// checkPolicies refuses, before gigabytes of log are read, a policy that is not there, several of them where one is asked
// for, and candidates that their algorithm refuses.
func (o *replayOptions) checkPolicies(s subject) error {
	list, err := named(s.comparisons(), o.policy)
	if err != nil || o.sweep == nil && o.observed == nil {
		return err
	}

	// What a log says of a request is of all its limits together, and a sweep is of one candidate's numbers.
	if len(list) > 1 {
		flag, names := "--sweep", []string(nil)
		if o.sweep == nil {
			flag = "--observed"
		}
		for i := range list {
			names = append(names, list[i].name)
		}
		return usagef("name it by --policy: "+strings.Join(names, ", "),
			"%s is for one policy, and the file has %d with a candidate", flag, len(list))
	}
	if o.sweep == nil {
		return nil
	}

	c := &list[0]
	algorithm := c.sides[algorithms.Candidate].Algorithm
	for _, numbers := range o.swept() {
		if c.limit == nil {
			break
		}
		if err := algorithm.Validate(numbers.Of(*c.limit)); err != nil {
			return usagef(sweepHint, "--sweep: %s", strings.TrimPrefix(err.Error(), "algorithms: "))
		}
	}
	return nil
}

// swept are the candidates of a sweep: the product of all values, where the last number changes first.
func (o *replayOptions) swept() []replay.Numbers {
	list := []replay.Numbers{nil}
	for _, a := range o.sweep {
		var longer []replay.Numbers
		for _, numbers := range list {
			for _, v := range a.values {
				longer = append(longer, append(slices.Clone(numbers), replay.Number{Name: a.name, Value: v}))
			}
		}
		list = longer
	}
	return list
}

// unread is an error if a log could not be read to its end. The report is of the rest.
func (o *replayOptions) unread() error {
	if len(o.broken) == 0 {
		return nil
	}
	return fmt.Errorf("the report is of what could be read: %s", strings.Join(o.broken, "; "))
}
