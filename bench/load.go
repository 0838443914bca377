package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// connections of the load, each of which waits for an answer before it sends the next request.
const connections = 64

// load sends requests to a service. It reads no more of a response than it must: its own time is taken from the service.
type load struct{ conns []*connection }

type connection struct {
	net.Conn
	in     *bufio.Reader
	next   int // key
	took   []time.Duration
	failed error
}

func connectLoad(addr string) (*load, error) {
	l := &load{}
	for i := range connections {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, &connection{Conn: conn, in: bufio.NewReader(conn), next: i * 397})
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		c.Close()
	}
}

// raw are the requests, one a key.
var raw = func() (list [len(keys)][]byte) {
	for i, key := range keys {
		list[i] = fmt.Appendf(nil, "POST /orders/1 HTTP/1.1\r\nHost: bench\r\n%s: %s\r\nContent-Length: 0\r\n\r\n", tenantHeader, key)
	}
	return list
}()

// send sends requests for some time.
func (l *load) send(during time.Duration) error {
	var done sync.WaitGroup
	end := time.Now().Add(during)
	for _, c := range l.conns {
		c.took = c.took[:0]
		done.Go(func() {
			for c.failed == nil && time.Now().Before(end) {
				begin := time.Now()
				c.failed = c.ask()
				c.took = append(c.took, time.Since(begin))
			}
		})
	}
	done.Wait()

	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.failed)
	}
	return errors.Join(errs...)
}

// ask sends one request and reads the answer, which must be 200.
func (c *connection) ask() error {
	c.next++
	if _, err := c.Write(raw[c.next%len(raw)]); err != nil {
		return err
	}

	status, err := c.in.ReadSlice('\n')
	if err == nil && !bytes.Contains(status, []byte(" 200 ")) {
		err = fmt.Errorf("answered %q", status)
	}
	length := 0
	for err == nil {
		var line []byte
		if line, err = c.in.ReadSlice('\n'); len(line) <= 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok && err == nil {
			length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}

	if err == nil {
		_, err = c.in.Discard(length)
	}
	return err
}

// measure returns the columns of a slice. A service that answers by a fallback would be faster than Redis: it is an error.
func (l *load) measure(kind string, server *server, slice time.Duration) ([]float64, error) {
	before, err := server.work()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := l.send(slice); err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	after, err := server.work()
	if err != nil {
		return nil, err
	}

	var took []time.Duration
	for _, c := range l.conns {
		took = append(took, c.took...)
	}
	slices.Sort(took)
	count, done := float64(len(took)), after.since(before)
	if kind != bareService && done.scripts < count {
		return nil, fmt.Errorf("%.0f scripts for %.0f requests", done.scripts, count)
	}
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() * 1e3 }
	return []float64{count / seconds, at(0.5), at(0.99), done.cpu / count}, nil
}
