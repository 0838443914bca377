package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kong collects the routes and the plugins of declarative configurations.
type kong struct {
	in      *Import
	routes  []kongRoute
	shared  map[string]*value // _plugin_configs, by name
	plugins []kongPlugin
}

// kongRoute is a route with the name of its service.
type kongRoute struct {
	*value
	name, service string
}

// kongPlugin is a plugin with what it is configured for, "" for all.
type kongPlugin struct {
	*value
	name                            string
	service, route, consumer, group string
}

// readKong imports the plugins rate-limiting and rate-limiting-advanced.
func readKong(in *Import, d *disk) error {
	k := &kong{in: in, shared: map[string]*value{}}
	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}
		for _, v := range documents {
			if kind := v.get("kind"); kind != nil && v.get("apiVersion") != nil {
				return &Error{kind.Place, "kind " + shown(kind.text) + " is of Kubernetes: give Kong's declarative configuration (deck gateway dump)"}
			}
			if v.get("services") == nil && v.get("routes") == nil && v.get("plugins") == nil && v.get("consumers") == nil &&
				v.get("consumer_groups") == nil {
				return &Error{v.Place, "no declarative configuration of Kong: it has no services, routes, plugins or consumers"}
			}
			if err := k.document(v); err != nil {
				return err
			}
		}
	}

	for i := range k.plugins {
		k.policiesOf(&k.plugins[i])
	}
	return nil
}

// document collects what one file has.
func (k *kong) document(v *value) error {
	for _, f := range v.get("_plugin_configs").entries() {
		if k.shared[f.key] != nil {
			return &Error{f.at, "_plugin_configs " + shown(f.key) + " is there already, at " + k.shared[f.key].Place.String()}
		}
		k.shared[f.key] = f.value
	}

	k.collect(v, kongPlugin{})
	for _, s := range v.get("services").items() {
		k.collect(s, kongPlugin{service: named(s)})
		for _, r := range s.get("routes").items() {
			k.route(r, named(s))
		}
	}
	for _, r := range v.get("routes").items() {
		k.route(r, named(r.get("service")))
	}
	for _, c := range v.get("consumers").items() {
		k.collect(c, kongPlugin{consumer: cmp.Or(named(c), c.str("custom_id"))})
	}
	for _, g := range v.get("consumer_groups").items() {
		k.collect(g, kongPlugin{group: named(g)})
	}
	return nil
}

func (k *kong) route(r *value, service string) {
	if len(k.routes) >= mostItems {
		k.in.leave(r.Place, "route "+named(r), "more than %d routes: import a smaller configuration", mostItems)
		return
	}
	k.routes = append(k.routes, kongRoute{r, named(r), service})
	k.collect(r, kongPlugin{route: named(r), service: service})
}

// named returns the name of an object, or of one that is referred to: {name: NAME}, {username: NAME}, or the name itself.
func named(v *value) string {
	if v == nil {
		return ""
	}
	return cmp.Or(v.str("name"), v.str("username"), v.str("id"), v.text)
}

func (k *kong) collect(v *value, owner kongPlugin) {
	for _, p := range v.get("plugins").items() {
		one := owner
		one.value, one.name = p, p.str("name")
		one.service = cmp.Or(named(p.get("service")), one.service)
		one.route = cmp.Or(named(p.get("route")), one.route)
		one.consumer = cmp.Or(named(p.get("consumer")), one.consumer)
		one.group = cmp.Or(named(p.get("consumer_group")), one.group)

		switch {
		case one.name != "rate-limiting" && one.name != "rate-limiting-advanced":
			if strings.Contains(one.name, "limit") && one.name != "request-size-limiting" {
				k.in.leave(p.Place, "plugin "+one.name, "limits something else than requests, or is unknown")
			}
		case strings.EqualFold(p.str("enabled"), "false"):
			k.in.leave(p.Place, "plugin "+one.name, "enabled: false: Kong does not run it")
		case len(k.plugins) >= mostPolicies:
			k.in.leave(p.Place, "plugin "+one.name, "more than %d plugins: import a smaller configuration", mostPolicies)
		default:
			k.plugins = append(k.plugins, one)
		}
	}
}

// config returns the configuration of a plugin, with what it shares with others: deck fills in what the plugin does not say.
func (k *kong) config(p *kongPlugin) (config *value, bad string) {
	own, name := p.get("config"), p.str("_config")
	if name == "" {
		return own, ""
	}
	shared := k.shared[name]
	if shared == nil {
		return nil, "no _plugin_configs " + name + " in these files: name the file that has it, too"
	}
	return &value{Place: own.place(shared.Place), kind: mappingKind, fields: slices.Concat(own.entries(), shared.fields)}, ""
}

func (k *kong) policiesOf(p *kongPlugin) {
	config, bad := k.config(p)
	if bad != "" {
		k.in.leave(p.Place, "plugin "+p.name, "%s", bad)
		return
	}

	key, bad := k.key(p, config)
	where := k.where(p)
	for _, l := range k.limits(p, config) {
		parts := []string{p.consumer, p.group, cmp.Or(p.route, p.service), l.Name}
		l.Name = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
		l.Where, l.key, l.bad = where, []string{key}, bad
		if strings.Contains(key, requestUser) {
			l.Differs = append(l.Differs, "request.user stands for the consumer: set it by httplimit.Config.Identify")
		}
		if by := cmp.Or(config.str("policy"), config.str("strategy"), "local"); by == "local" {
			l.Differs = append(l.Differs, "each node of Kong counts by itself (local)")
		}
		k.in.add(l)
	}
}

func (k *kong) where(p *kongPlugin) (list []string) {
	for what, name := range map[string]string{"consumer": p.consumer, "consumer group": p.group} {
		if name != "" {
			list = append(list, what+" "+name)
		}
	}
	switch {
	case p.route == "" && p.service != "":
		list = append(list, "service "+p.service)
	case p.route == "":
		list = append(list, "each request that some route takes")
	}
	if protocols := p.described("protocols"); protocols != "" {
		list = append(list, "of the plugin"+strings.TrimPrefix(protocols, ","))
	}

	known := false
	for _, r := range k.routes {
		ofRoute := p.route != "" && r.name == p.route
		ofService := p.route == "" && p.service != "" && r.service == p.service
		if (ofRoute || ofService) && len(list) <= mostWhere {
			known = true
			list = append(list, fmt.Sprintf("route %s%s (%s)", r.name, r.described("protocols", "hosts", "methods", "paths", "headers", "snis",
				"sources", "destinations", "expression", "regex_priority", "priority"), r.Place))
		}
	}
	if p.route != "" && !known {
		list = append(list, "route "+p.route+", which is not in these files")
	}
	return list
}

// key returns the key of a plugin: what it limits by, and the address where the request has none of it, as Kong does.
func (k *kong) key(p *kongPlugin, config *value) (key, bad string) {
	orAddress := func(value string) string { return fmt.Sprintf(`%s == "" ? %s : %[1]s`, value, requestIP) }
	by := cmp.Or(config.str("limit_by"), config.str("identifier"), "consumer")
	switch header := config.str("header_name"); {
	case by == "consumer":
		return orAddress(requestUser), ""
	case by == "ip":
		return requestIP, ""
	case by == "header" && header != "":
		return orAddress(headerKey(header)), ""
	case by == "service" && p.service != "":
		return strconv.Quote(p.service), ""
	}
	return "", "limit_by " + by + " is no plain field of a request"
}

// kongPeriods are the windows of rate-limiting.
var kongPeriods = []struct {
	name    string
	window  time.Duration
	differs string
}{
	{name: "second", window: time.Second},
	{name: "minute", window: time.Minute},
	{name: "hour", window: time.Hour},
	{name: "day", window: 24 * time.Hour},
	{"month", 30 * 24 * time.Hour, "Kong counts by months of the calendar, in UTC"},
	{"year", 365 * 24 * time.Hour, "Kong counts by years of the calendar, in UTC"},
}

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

		l := Policy{Name: period.name, Place: v.Place, Origin: origin, side: side{algorithm: "fixed_window", limit: n, window: period.window}}
		if period.differs != "" {
			l.Differs = []string{period.differs}
		}
		list = append(list, l)
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
		algorithm, differs = "sliding_window_counter", []string{"Kong's clock has whole seconds, and these windows slide all the time"}
		if !config.on("disable_penalty") {
			differs = append(differs, "Kong counts a request that it denies, too")
		}
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
			side: side{algorithm: algorithm, limit: n, window: time.Duration(seconds) * time.Second},
		})
	}
	return list
}
