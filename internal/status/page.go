package status

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

//go:embed page.html
var pageText string

var pageTemplate = Template(pageText)

// pagePolicy allows nothing but the page's own style, by its hash, and the empty icon that keeps browsers from asking
// for one. Links need no permission.
var pagePolicy = FilePolicy + "; frame-ancestors 'none'"

// Page returns a page of a source's report: the content of the command line's status.
// The page runs no script, loads nothing from another server, and refreshes itself. With ?format=json, or
// for a client that accepts JSON and not HTML, it answers as status -o json does. With ?format=text it answers at once, in
// one line a policy, what the instance knows by itself. It is read-only: GET and HEAD.
//
// The page always has what the instance knows by itself; in JSON that is the field here. The source is asked at most once
// in 5 s, for at most 2 s, one call at a time. While it fails the page shows the last report with its age; JSON has the age
// in the field age_seconds, beside an error. Only a page that knows nothing at all has the status 503. The text of an error
// is not shown, because it may name servers; its kind is.
//
// The page lists clients' keys, as HMACs where a secret is set, and shows how the service is protected: expose it to
// operators only.
func Page(source Source) http.Handler {
	c := &reportCache{source: source.Report}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())

		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read-only: use GET or HEAD", http.StatusMethodNotAllowed)
			return
		}

		// The text is for an outage, in which the report may take its whole time to fail.
		if r.URL.Query().Get("format") == "text" {
			answerText(w, r, source)
			return
		}

		now := c.look(r.Context())
		now.addHere(source)
		if wantsJSON(r) {
			answerJSON(w, r, now)
		} else {
			answerHTML(w, r, now)
		}
	})
}

func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}

	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

func answerJSON(w http.ResponseWriter, r *http.Request, now answer) {
	var body bytes.Buffer

	// A program must not take an old report for a new one: an answer that is not of now has an error and an age.
	var content any = current{Here: now.here, Report: now.report}
	if now.err != nil {
		content = now.stale(time.Now())
	}
	if err := humanize.WriteJSON(&body, "  ", content); err != nil {
		http.Error(w, "the report could not be written", http.StatusInternalServerError)
		return
	}

	send(w, r, now.status(), "application/json", body.Bytes())
}

// answerText answers with what the instance knows by itself: one screen for the shell of an engineer on call.
func answerText(w http.ResponseWriter, r *http.Request, source Source) {
	if source.Here == nil {
		http.Error(w, "this page belongs to no instance: leave ?format=text out", http.StatusNotFound)
		return
	}
	here := source.Here()
	send(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte(here.Text(time.Now())))
}

func answerHTML(w http.ResponseWriter, r *http.Request, now answer) {
	// The page is complete before the first byte is sent: a failure half-way could not change the status any more.
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, viewOf(now, time.Now())); err != nil {
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}

	send(w, r, now.status(), "text/html; charset=utf-8", body.Bytes())
}

func send(w http.ResponseWriter, r *http.Request, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(body) // an error means that the client has disconnected
	}
}

// why describes a source's error without the addresses, names and texts of servers that the error may contain.
func why(err error) string {
	// The number of a system error names no server; every other text may.
	var errno syscall.Errno
	switch {
	case errors.Is(err, ErrOld):
		return strings.TrimPrefix(ErrOld.Error(), "status: ")
	case errors.Is(err, context.DeadlineExceeded):
		return "the store of the evidence did not answer within " + patience.String()
	case errors.As(err, &errno):
		return "the store of the evidence cannot be reached: " + errno.Error()
	}

	return "the store of the evidence fails; see the service's log for the error"
}
