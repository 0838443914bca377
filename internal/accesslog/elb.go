package accesslog

import (
	"slices"
	"strings"
)

// elbPlaces are where the two kinds of AWS load balancer have their fields, by word. Source: AWS, "Access logs for your
// Application Load Balancer" and "Access logs for your Classic Load Balancer".
type elbPlaces struct{ time, client, status, request, agent, created int }

// An ALB's first time is that of the answer; created is when the request came. The classic balancer's only time is of the request.
var (
	albPlaces     = elbPlaces{time: 1, client: 3, status: 8, request: 12, agent: 13, created: 21}
	classicPlaces = elbPlaces{time: 0, client: 2, status: 7, request: 11, agent: 12, created: 0}
)

// elbKinds are the first words of an ALB's lines.
var elbKinds = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

// cutELB cuts lines of AWS load balancers.
func cutELB(line []byte, l *textLine) (instant string, ok bool) {
	p, dated := classicPlaces, line
	if kind, rest := cutWord(line); slices.Contains(elbKinds, string(kind)) {
		p, dated = albPlaces, rest
	}

	// The time first, then a client with its port: nothing else looks like that.
	if _, ok = cutTimestamp(dated); !ok {
		return "", false
	}
	list := words(line)
	if len(list) <= p.agent || !strings.Contains(list[p.request], " ") {
		return "", false
	}
	client, ok := connected(list[p.client])
	if !ok {
		return "", false
	}

	l.set("ip", client)
	l.set("request", list[p.request])
	l.request(list[p.request])
	named, _ := l.text("host")
	if host, port, _ := strings.Cut(named, ":"); port == "80" || port == "443" {
		l.set("host", host)
	}
	l.put("status", list[p.status])
	l.put("headers.user-agent", list[p.agent])
	if len(list) > p.created && list[p.created] != "-" {
		return list[p.created], true
	}
	return list[p.time], true
}
