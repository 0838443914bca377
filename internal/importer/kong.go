package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// kong collects the routes and the plugins of declarative configurations.
type kong struct {
	in      *Import
	routes  []*kongRoute
	plugins []*kongPlugin
}

// kongRoute is a route with the name of its service.
type kongRoute struct {
	*value
	name, service string
}

// kongPlugin is a plugin with what it is configured for, "" for all.
type kongPlugin struct {
	*value
	name                     string
	service, route, consumer string
}

// readKong imports the plugins rate-limiting and rate-limiting-advanced.
func readKong(in *Import, d *disk) error {
	k := &kong{in: in}
	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}
		for _, v := range documents {
			if kind := v.get("kind"); kind != nil && v.get("apiVersion") != nil {
				return &Error{kind.Place, "kind " + shown(kind.text) + " is of Kubernetes: give Kong's declarative configuration (deck gateway dump)"}
			}
			if v.get("services") == nil && v.get("routes") == nil && v.get("plugins") == nil && v.get("consumers") == nil {
				return &Error{v.Place, "no declarative configuration of Kong: it has no services, routes, plugins or consumers"}
			}
			k.document(v)
		}
	}

	for _, p := range k.plugins {
		k.policiesOf(p)
	}
	return nil
}

// document collects what one file has.
func (k *kong) document(v *value) {
	k.in.unknown(v, "the field", "_format_version", "_transform", "_info", "_comment", "_workspace", "_konnect", "_plugin_configs",
		"services", "routes", "plugins", "consumers", "consumer_groups", "upstreams", "certificates", "ca_certificates", "vaults", "snis",
		"targets", "keys", "key_sets", "licenses", "rbac_roles", "tags", "_ignore")

	for _, s := range v.get("services").items() {
		k.collect(s, kongPlugin{service: s.str("name")})
		for _, r := range s.get("routes").items() {
			k.route(r, s.str("name"))
		}
	}
	for _, r := range v.get("routes").items() {
		k.route(r, named(r.get("service")))
	}

	for _, c := range v.get("consumers").items() {
		k.collect(c, kongPlugin{consumer: cmp.Or(c.str("username"), c.str("custom_id"))})
	}
	for _, g := range v.get("consumer_groups").items() {
		for _, p := range g.get("plugins").items() {
			k.in.leave(p.Place, "plugin "+p.str("name")+" of a consumer group", "a policy sees no groups: write its condition by hand")
		}
	}
	k.collect(v, kongPlugin{})
}

func (k *kong) route(r *value, service string) {
	if len(k.routes) >= mostLocations {
		k.in.leave(r.Place, "route "+r.str("name"), "more than %d routes: import a smaller configuration", mostLocations)
		return
	}
	k.routes = append(k.routes, &kongRoute{r, r.str("name"), service})
	k.collect(r, kongPlugin{route: r.str("name"), service: service})
}

// named returns the name in a reference: {name: NAME}, {username: NAME}, or the name itself.
func named(v *value) string {
	if v == nil {
		return ""
	}
	return cmp.Or(v.str("name"), v.str("username"), v.str("id"), v.text)
}

// kongHarmless are plugins that do not limit requests.
var kongHarmless = setOf(`acl acme aws-lambda azure-functions basic-auth bot-detection correlation-id cors datadog file-log grpc-gateway
	grpc-web hmac-auth http-log ip-restriction jwt key-auth key-auth-enc ldap-auth loggly mtls-auth oauth2 openid-connect opentelemetry
	prometheus proxy-cache proxy-cache-advanced request-size-limiting request-transformer request-transformer-advanced
	response-transformer response-transformer-advanced session statsd syslog tcp-log udp-log zipkin`)

// collect notes the plugins of an object.
func (k *kong) collect(v *value, owner kongPlugin) {
	for _, p := range v.get("plugins").items() {
		one := owner
		one.value, one.name = p, p.str("name")
		one.service = cmp.Or(named(p.get("service")), one.service)
		one.route = cmp.Or(named(p.get("route")), one.route)
		one.consumer = cmp.Or(named(p.get("consumer")), one.consumer)

		switch {
		case one.name != "rate-limiting" && one.name != "rate-limiting-advanced":
			if !kongHarmless[one.name] {
				k.in.leave(p.Place, "plugin "+one.name, "unknown to the importer: if it limits requests, no policy has that")
			}
		case strings.EqualFold(p.str("enabled"), "false"):
			k.in.leave(p.Place, "plugin "+one.name, "enabled: false: Kong does not run it")
		case len(k.plugins) >= mostPolicies:
			k.in.leave(p.Place, "plugin "+one.name, "more than %d plugins: import a smaller configuration", mostPolicies)
		default:
			k.plugins = append(k.plugins, &one)
		}
	}
}

// rank orders plugins of one name as Kong does, which runs only the most specific one for a request.
func (p *kongPlugin) rank() int {
	has := func(name string, weight int) int {
		if name == "" {
			return 0
		}
		return weight
	}

	// The service of a route is a part of the route, so it does not make a plugin more specific.
	service := has(p.service, 1)
	if p.route != "" {
		service = 0
	}
	return has(p.consumer, 4) + has(p.route, 2) + service
}

// policiesOf makes policies of a plugin.
func (k *kong) policiesOf(p *kongPlugin) {
	when := k.condition(p)
	for _, other := range k.plugins {
		if other.name == p.name && other.rank() > p.rank() {
			when = and(when, not(k.condition(other)))
		}
	}
	if when == no {
		k.in.leave(p.Place, "plugin "+p.name, "no route in these files leads to it: name the file with the routes, too")
		return
	}

	config := p.get("config")
	key, bad := k.key(p, config)
	if bad != "" {
		k.in.leave(config.place(p.Place), "plugin "+p.name, "%s", bad)
		return
	}

	var names []string
	var places []int
	for _, l := range k.limits(p, config) {
		names = append(names, l.Name)
		l.Name = p.called(l.Name)
		l.when, l.key = when, []expr{key}
		if strings.Contains(key.text, "request.user") || p.consumer != "" {
			l.Differs = append(l.Differs, "request.user stands for the consumer: set it by httplimit.Config.Identify")
		}
		places = append(places, k.in.add(l))
	}
	if len(places) > 1 {
		k.several(p, config, p.called(strings.Join(names, "-")), places)
	}
}

// called returns a name with what the plugin is for.
func (p *kongPlugin) called(name string) string {
	parts := []string{p.consumer, cmp.Or(p.route, p.service), name}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
}

// several makes a group of the limits of one plugin, of which Kong charges none when one refuses. rate-limiting-advanced is not
// published, and its documentation says that only of disable_penalty.
func (k *kong) several(p *kongPlugin, config *value, name string, places []int) {
	why := "Kong's documentation does not say whether the others count a request that one refuses: as policies, each is charged by itself"
	if p.name == "rate-limiting" || config.str("window_type") != "fixed" && config.on("disable_penalty") {
		why = k.in.together(name, algorithms.AllOrNothing, places)
	}
	if why != "" {
		k.in.leave(config.Place, fmt.Sprintf("%d limits in one plugin", len(places)), "%s", why)
	}
}

// place returns the place of a value, or another one if it is not there.
func (v *value) place(otherwise Place) Place {
	if v == nil {
		return otherwise
	}
	return v.Place
}

// kongPeriods are the windows of rate-limiting. Months and years are those of the calendar, in UTC.
var kongPeriods = []struct {
	name string
	side side
}{
	{"second", side{window: time.Second}}, {"minute", side{window: time.Minute}}, {"hour", side{window: time.Hour}},
	{"day", side{window: 24 * time.Hour}}, {"month", side{calendar: algorithms.Month}}, {"year", side{calendar: algorithms.Year}},
}

// limits reads the limits of a plugin.
func (k *kong) limits(p *kongPlugin, config *value) (list []Policy) {
	if p.name == "rate-limiting-advanced" {
		return k.advanced(p, config)
	}

	k.in.unknown(config, "config of "+p.name, "second", "minute", "hour", "day", "month", "year", "limit_by", "policy", "path", "header_name",
		"fault_tolerant", "hide_client_headers", "redis", "redis_host", "redis_port", "redis_password", "redis_username", "redis_database",
		"redis_timeout", "redis_ssl", "redis_ssl_verify", "redis_server_name", "error_code", "error_message", "sync_rate")
	for _, period := range kongPeriods {
		v := config.get(period.name)
		if v == nil || v.kind == none {
			continue
		}
		n, ok := v.whole()
		origin := fmt.Sprintf("%s %s: %s", p.name, period.name, v.text)
		if !ok {
			k.in.leave(v.Place, origin, "no number of requests")
			continue
		}

		s := period.side
		s.algorithm, s.limit = "fixed_window", n
		list = append(list, Policy{Name: period.name, Place: v.Place, Origin: origin, side: s})
	}
	return list
}

// advanced reads rate-limiting-advanced, whose limits and windows pair up by their places.
func (k *kong) advanced(p *kongPlugin, config *value) (list []Policy) {
	k.in.unknown(config, "config of "+p.name, "limit", "window_size", "window_type", "identifier", "path", "header_name", "strategy",
		"sync_rate", "namespace", "dictionary_name", "hide_client_headers",
		"disable_penalty", "redis", "error_code", "error_message", "lock_dictionary_name")
	limits, windows := config.get("limit").texts(), config.get("window_size").texts()
	if len(limits) != len(windows) || len(limits) == 0 {
		k.in.leave(config.place(p.Place), "plugin "+p.name, "limit and window_size do not pair up")
		return nil
	}

	algorithm, differs := "fixed_window", []string(nil)
	if config.str("window_type") != "fixed" {
		algorithm, differs = "sliding_window_counter", []string{"Kong's clock has whole seconds, and the model's windows slide all the time"}
	}
	for i := range limits {
		origin := fmt.Sprintf("%s limit: %s, window_size: %s", p.name, limits[i], windows[i])
		n, ok := (&value{text: limits[i]}).whole()
		seconds, fine := (&value{text: windows[i]}).whole()
		if !ok || !fine || seconds == 0 || seconds > mostSeconds {
			k.in.leave(config.Place, origin, "no number of requests, or of seconds")
			continue
		}
		list = append(list, Policy{
			Name: "per-" + windows[i] + "s", Place: config.get("limit").Place, Origin: origin, Differs: slices.Clone(differs),
			side: side{
				algorithm: algorithm, limit: n, window: time.Duration(seconds) * time.Second,
				countDenied: algorithm != "fixed_window" && !config.on("disable_penalty"),
			},
		})
	}
	return list
}

// mostSeconds bounds windows: a hundred years.
const mostSeconds = 100 * 366 * 24 * 3600
