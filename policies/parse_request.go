package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// requestText is a request as it is written in JSON. Its names are those of expressions,
// so that a person needs to know one set of them.
type requestText struct {
	Method  string                `json:"method"`
	Path    string                `json:"path"`
	Route   string                `json:"route"`
	Host    string                `json:"host"`
	Query   map[string]textOrList `json:"query"`
	Headers map[string]textOrList `json:"headers"`
	IP      string                `json:"ip"`
	User    string                `json:"user"`
	Claims  map[string]any        `json:"claims"`
	Domain  string                `json:"domain"`
	// Descriptors are the entries of one descriptor: an entry has one value.
	Descriptors map[string]string `json:"descriptors"`
	Cost        *int64            `json:"cost"`
	Size        int64             `json:"size"`
	Time        time.Time         `json:"time"`
}

// requestFields are the names of requestText.
var requestFields = []string{
	"method", "path", "route", "host", "query", "headers", "ip", "user", "claims", "domain", "descriptors", "cost",
	"size", "time",
}

// textOrList is one value or several. Nearly every header has one, and a list of one is
// tedious to write.
type textOrList []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *textOrList) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*t = []string{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// ParseRequest reads a request written as JSON: an object with any of method, path,
// route, host, query, headers, ip, user, claims, domain, descriptors, cost, size and time (RFC 3339). Query
// and headers are objects of names to a text or a list of texts. A request without a
// size has the size -1, unknown. One without a time has the zero time, and the caller
// sets another if it needs one. The error is worded for the author of the JSON.
func ParseRequest(text []byte) (*Request, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelled field would be ignored in silence

	t := requestText{Size: -1}
	if err := decoder.Decode(&t); err != nil {
		return nil, fmt.Errorf("policies: request: %s", explainJSON(err))
	}
	// A second object would be ignored in silence.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("policies: request: more than one object")
	}

	return t.request(), nil
}

// request makes the request that policies see. Header names become canonical, as a server
// makes them.
func (t *requestText) request() *Request {
	r := &Request{
		Method:      t.Method,
		Path:        t.Path,
		Route:       t.Route,
		Host:        t.Host,
		RawQuery:    encode(t.Query),
		Headers:     http.Header{},
		IP:          t.IP,
		User:        t.User,
		Claims:      t.Claims,
		Domain:      t.Domain,
		Descriptors: t.Descriptors,
		Cost:        t.Cost,
		Size:        t.Size,
		Time:        t.Time,
	}

	// A test file may write one header in two cases: both values then belong to it.
	for name, values := range t.Headers {
		for _, v := range values {
			r.Headers.Add(name, v)
		}
	}
	return r
}

// jsonKinds are the words of a request's author for the types of requestText.
var jsonKinds = map[reflect.Kind]string{
	reflect.String: "a text",
	reflect.Int64:  "a whole number",
	reflect.Slice:  "a text or a list of texts",
	reflect.Map:    "an object",
}

// explainJSON words an error of encoding/json for the author of a request, without
// the types and the packages of Go.
func explainJSON(err error) string {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var instant *time.ParseError
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")

	// The sentence says what to write, because the author of a request has the text before the eyes and not the decoder.
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON at byte %d: %v: write names and texts in double quotes, such as {\"method\": \"GET\"}",
			syntax.Offset, err)
	case errors.As(err, &instant):
		return fmt.Sprintf("time: %s is no instant: want one such as 2026-01-31T12:00:00Z", strings.TrimSpace(instant.Value))
	case unknown:
		return "unknown field " + name + ": " + humanize.Remedy(strings.Trim(name, `"`), requestFields)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON ends early: want a whole object, such as {\"method\": \"GET\"}"
	case !errors.As(err, &wrong):
		return strings.TrimPrefix(err.Error(), "json: ")
	case wrong.Field == "":
		return "want an object, such as {\"method\": \"GET\"}, not " + wrong.Value
	}
	return fmt.Sprintf("%s: want %s, not %s", wrong.Field, jsonKinds[wrong.Type.Kind()], wrong.Value)
}

// encode writes a query as a URL has it, names in order.
func encode(query map[string]textOrList) string {
	values := url.Values{}
	for name, list := range query {
		values[name] = list
	}
	return values.Encode()
}
