package accesslog

import "errors"

// cut takes a line apart whose fields have fixed places. It fills the fields of the request, ip with the peer, and returns the
// text of the instant; false for a line of another format.
type cut func(line []byte, into *textLine) (instant string, ok bool)

func isPlaced(cut cut) func([]byte) bool {
	return func(line []byte) bool {
		_, ok := cut(line, &textLine{})
		return ok
	}
}

var (
	errPlaced   = errors.New("not a line of the format")
	errNoClient = errors.New("no address of a client, not even in X-Forwarded-For")
)

// placedParser reads lines whose fields have fixed places.
func placedParser(cut cut) func(*lineReader, Config, layout, *clock) (parser, error) {
	return func(_ *lineReader, cfg Config, _ layout, clock *clock) (parser, error) {
		l := &textLine{}
		return func(line []byte) (Event, error) {
			*l = (*l)[:0]
			instant, ok := cut(line, l)
			if !ok {
				return Event{}, errPlaced
			}
			at, err := clock.read(instant, byMagnitude)
			if err != nil {
				return Event{}, err
			}

			peer, _ := l.text("ip")
			forwarded, _ := l.text("headers.x-forwarded-for")
			client := cfg.clients.find(peer, forwarded)
			if client == "" && cfg.Map["ip"] == "" {
				return Event{}, errNoClient
			}
			l.put("ip", client)
			return Event{At: at, Key: []byte(client), Cost: 1, source: l}, nil
		}, nil
	}
}
