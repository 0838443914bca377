package importer

import (
	"path/filepath"
	"slices"
	"strings"
)

// nginx collects what a configuration says about limit_req.
type nginx struct {
	in        *Import
	http      []*directive // of all blocks http, and what stands outside of one in a part of a configuration
	zones     map[string]*nginxZone
	variables map[string]*directive // map and geo by the variable that they set
	made      map[string]expr       // variables that are carried over
	making    []string              // variables that are being made, each used by the one before
	servers   []*nginxServer
	outside   settings // of http
	limits    []*nginxLimit
	locations int
}

// readNginx imports limit_req (ngx_http_limit_req_module.c). A zone with one burst is a policy: its state is one for all locations
// that use it. Its condition says which locations do.
func readNginx(in *Import, d *disk) error {
	n := &nginx{
		in: in, zones: map[string]*nginxZone{}, variables: map[string]*directive{}, made: map[string]expr{},
	}
	for _, file := range in.Files {
		p := &nginxParser{disk: d, in: in, root: filepath.Dir(file)}
		list, err := p.file(file)
		if err != nil {
			return err
		}
		n.top(list)
	}

	// Variables and zones hold wherever they stand, so they come first.
	for _, d := range n.http {
		n.declare(d)
	}
	for _, d := range n.http {
		if d.name == "limit_req_zone" {
			n.zone(d)
		}
	}
	n.outside = n.settingsOf(n.http, settings{})
	for _, d := range n.http {
		if d.name == "server" && d.args == nil {
			n.servers = append(n.servers, n.server(d))
		}
	}

	n.policies()
	n.unused()
	return nil
}

// top sorts what stands in no block.
func (n *nginx) top(list []*directive) {
	for _, d := range list {
		switch {
		case d.name == "http":
			n.http = append(n.http, d.block...)
		case d.name == "stream" || d.name == "mail":
			n.in.leave(d.Place, d.name, "connections, not requests: no policy can limit them")
		case d.name == "events":
			// It says how connections are accepted.
		case d.block == nil && nginxCore[d.name]:
		default:
			n.http = append(n.http, d)
		}
	}

	n.name(n.http)
}

// name names every directive that this importer does not know, wherever it stands.
func (n *nginx) name(list []*directive) {
	for _, d := range list {
		switch {
		case slices.Contains(nginxRead, d.name):
		case nginxReasons[d.name] != "":
			n.in.leave(d.Place, d.text(), "%s", nginxReasons[d.name])
		case !nginxKnown(d.name):
			n.in.leave(d.Place, d.text(), "unknown to the importer: if it limits requests, or decides which are limited, no policy has that")
		}

		if !slices.Contains(nginxTables, d.name) {
			n.name(d.block)
		}
	}
}

// declare notes a variable.
func (n *nginx) declare(d *directive) {
	switch d.name {
	case "map", "geo":
		if len(d.args) > 0 {
			n.variables[strings.TrimPrefix(d.args[len(d.args)-1], "$")] = d
		}
	case "split_clients", "perl_set", "js_set", "js_var":
		if len(d.args) > 0 {
			n.variables[strings.TrimPrefix(d.args[min(1, len(d.args)-1)], "$")] = d
		}
	}
}

// settings are what a block says about limits. An inner block inherits what it does not say.
type settings struct {
	limits []*nginxLimit
	dryRun bool
	// answered reports that the block answers by itself, before limits are asked: return comes in an earlier phase.
	answered bool
}

// settingsOf returns the settings of a block inside others. A limit_req of its own replaces all that are inherited
// (ngx_http_limit_req_merge_conf).
func (n *nginx) settingsOf(list []*directive, outer settings) settings {
	s := outer
	own := false

	for _, d := range list {
		switch d.name {
		case "limit_req":
			limit := n.limit(d)
			if !own {
				own, s.limits = true, nil
			}
			if limit != nil {
				s.limits = append(s.limits, limit)
			}
		case "limit_req_dry_run":
			s.dryRun = slices.Equal(d.args, []string{"on"})
			if s.dryRun {
				n.in.leave(d.Place, d.text(), "nginx decides and holds nothing back here, but the policy denies: "+
					"give it as what decides today, and enforce it only if it shall deny")
			}
		case "limit_req_status":
			n.in.leave(d.Place, d.text(), "the status is the service's: httplimit answers 429")
		case "return":
			s.answered = true
		case "rewrite":
			n.rewrite(d)
		}
	}
	return s
}

// rewrite warns of a directive that changes the location of a request. With these flags it answers, or stays where it is.
func (n *nginx) rewrite(d *directive) {
	ends := len(d.args) == 3 && slices.Contains([]string{"break", "redirect", "permanent"}, d.args[2])
	if !ends {
		n.in.leave(d.Place, d.text(), "the location may be another one afterwards: policies go by the path that was asked for")
	}
}

// unused names the zones that limit nothing.
func (n *nginx) unused() {
	for _, d := range n.http {
		if d.name != "limit_req_zone" {
			continue
		}

		used := slices.ContainsFunc(n.limits, func(l *nginxLimit) bool { return l.zone.Place == d.Place })
		refused := slices.ContainsFunc(n.in.LeftOut, func(l LeftOut) bool { return l.Place == d.Place })

		if !used && !refused {
			n.in.leave(d.Place, d.text(), "no limit_req that is carried over uses this zone")
		}
	}
}
