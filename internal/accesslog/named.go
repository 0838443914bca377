package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// row is a line whose fields have names.
type row interface {
	lookup
	// names are those of the line's fields, in order.
	names() []string
	// has reports whether the line has the field.
	has(name string) bool
	// put hands the fields of a request to k, each name after prefix.
	put(k *known, prefix string)
}

// named reads events of lines whose fields have names.
type named struct {
	times     []string
	wanted    string // the time, in messages
	key, cost string
	keyNamed  bool // the user has named the key
	timeNamed bool
	requests  bool // the key is made of the fields
	response  bool
	clock     *clock
	uses      uses
	clients   *clients
}

func newNamed(cfg Config, clock *clock) *named {
	return &named{
		times: cfg.Fields.times(), wanted: cmp.Or(cfg.Fields.Time, "time"), key: cfg.Fields.key(), cost: cfg.Fields.cost(),
		keyNamed: cfg.Fields.Key != "", timeNamed: cfg.Fields.Time != "",
		requests: cfg.Requests || cfg.Map["ip"] != "", response: cfg.Response, clock: clock, uses: uses{}, clients: cfg.clients,
	}
}

func (n *named) event(r row) (Event, error) {
	at, err := n.time(r)
	if err != nil {
		flags := []string{"--time-field"}
		if _, err := n.keyOf(r); err != nil && !n.requests {
			flags = append(flags, "--key-field")
		}
		return Event{}, &FieldError{flags, err}
	}

	event := Event{At: at}
	if event.Cost, err = n.costOf(r); err != nil {
		return Event{}, err
	}

	// With requests the key comes from a policy or from --map, so the line needs none.
	if n.requests || n.response {
		k := &known{lookup: r, uses: n.uses}
		r.put(k, "")
		k.finish(n.clients)
		event.source = k
	}
	if n.requests {
		return event, nil
	}

	key, err := n.keyOf(r)
	if err != nil {
		err = &FieldError{[]string{"--key-field"}, err}
	}
	event.Key = []byte(key)
	return event, err
}

// FieldError says that a line has no time or no key under the names that are known or given.
type FieldError struct {
	Flags []string // that name a field which the line lacks
	err   error
}

func (e *FieldError) Error() string { return e.err.Error() }

func (e *FieldError) Unwrap() error { return e.err }

// keyOf returns the key. Without a field of that name it is the client's address.
func (n *named) keyOf(r row) (string, error) {
	if key, ok := r.text(n.key); ok {
		return key, nil
	}
	if n.keyNamed {
		return "", fmt.Errorf("no field %q that is a string or a number%s", n.key, fieldsOf(r))
	}

	k := known{lookup: r, uses: n.uses}
	r.put(&k, "")
	k.finish(n.clients)
	if address := k.fields[ofIP].value; address != "" {
		return address, nil
	}
	return "", fmt.Errorf("no field %q, and none that is known to have the client's address%s", n.key, fieldsOf(r))
}

// fieldsOf names the fields of a line, for a message about one that is missing.
func fieldsOf(r row) string {
	names := r.names()
	if len(names) == 0 {
		return ""
	}
	return "; the line has " + printable([]byte(strings.Join(names, ", ")), maxText)
}

// mappedAddress reads what a user says is the client: an address, or a list of them as X-Forwarded-For has.
func mappedAddress(text string) string {
	if text == "-" {
		return ""
	}
	if last := lastOutside(text); last != "" {
		return last
	}
	return text
}

// early is the instant before which a number is rather a duration than a time: the year 2000.
const early = 946_684_800e6

// time returns the instant. A name that is not the user's own may mean something else, such as the time that the request
// took; then another one that is sound is taken.
func (n *named) time(r row) (int64, error) {
	var first int64
	var failure error
	tried := false

	for _, name := range n.times {
		text, ok := r.text(name)
		if !ok && !r.has(name) {
			continue
		}

		at, err := n.timeOf(name, text, ok)
		if n.timeNamed || err == nil && at >= early {
			return at, err
		}
		if !tried {
			first, failure, tried = at, err, true
		}
	}

	if !tried {
		failure = fmt.Errorf("no field %q that is a time%s", n.wanted, fieldsOf(r))
	}
	return first, failure
}

func (n *named) timeOf(name, text string, isText bool) (int64, error) {
	if !isText {
		return 0, fmt.Errorf("field %q is not a time", name)
	}
	return n.clock.read(text, scaleOf(name))
}

func (n *named) costOf(r row) (int64, error) {
	text, ok := r.text(n.cost)
	if ok {
		return parseCost(text)
	}
	if r.has(n.cost) {
		return 0, fmt.Errorf("field %q is not a cost", n.cost)
	}
	return 1, nil
}

// errDirective is a line that is neither an event nor a bad one: a header in the middle of a log.
var errDirective = errors.New("a directive")
