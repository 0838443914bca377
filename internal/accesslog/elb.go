package accesslog

import (
	"errors"
	"slices"
	"strings"
)

var errELB = errors.New("not a line of an AWS load balancer")

// elbPlaces are where the two kinds of AWS load balancer have their fields, by word. Source: AWS, "Access logs for your
// Application Load Balancer" and "Access logs for your Classic Load Balancer".
type elbPlaces struct{ time, client, status, received, request, agent int }

var (
	albPlaces     = elbPlaces{time: 1, client: 3, status: 8, received: 10, request: 12, agent: 13}
	classicPlaces = elbPlaces{time: 0, client: 2, status: 7, received: 9, request: 11, agent: 12}
)

// elbKinds are the first words of an ALB's lines.
var elbKinds = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

// elbParser reads lines of AWS load balancers. The time is the answer's, and has a zone.
func elbParser(clock *clock, requests bool) parser {
	return func(line []byte) (Event, error) {
		p, list, ok := elbWords(line)
		if !ok {
			return Event{}, errELB
		}

		at, err := clock.read(list[p.time], byMagnitude)
		if err != nil {
			return Event{}, err
		}
		event := Event{At: at, Key: []byte(peerOf(list[p.client])), Cost: 1}
		if requests {
			event.source = newELBLine(list, p)
		}
		return event, nil
	}
}

// elbWords cuts a line into its words and says where its fields are.
func elbWords(line []byte) (p elbPlaces, list []string, ok bool) {
	p = classicPlaces
	dated := line
	if kind, rest := cutWord(line); slices.Contains(elbKinds, string(kind)) {
		p, dated = albPlaces, rest
	}

	// The time first, then a client with its port: nothing else looks like that.
	if _, ok = cutTimestamp(dated); !ok {
		return p, nil, false
	}
	list = words(line)
	if len(list) <= p.agent || !strings.Contains(list[p.request], " ") {
		return p, nil, false
	}
	_, address := connected(list[p.client])
	return p, list, address
}

func newELBLine(list []string, p elbPlaces) *textLine {
	l := &textLine{{"ip", peerOf(list[p.client])}, {"request", list[p.request]}}
	l.request(list[p.request])
	named, _ := l.text("host")
	if host, port, _ := strings.Cut(named, ":"); port == "80" || port == "443" {
		l.set("host", host)
	}
	l.put("status", list[p.status])
	l.put("headers.user-agent", list[p.agent])
	return l
}
