// Package notify tells a receiver over HTTP what happens to the policies of a service: each entry of the audit trail, and alarms that
// a person has to answer.
//
// The trail is the queue, and the store knows what was told, so that nothing is kept in memory, a move is told whoever made it, and
// another process goes on where one has ended. One process at a time tells, with a lease. An event is told at least once; one that is
// told again has the same id.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// The forms of an event.
const (
	CloudEvents = "cloudevents"
	Slack       = "slack"
)

const (
	lookEvery   = 5 * time.Second
	lookWithin  = 4 * time.Second
	sendWithin  = 5 * time.Second
	leaveWithin = time.Second
	// A receiver that fails is asked again after leastPause, twice that, and so on up to mostPause.
	leastPause = time.Second
	mostPause  = 5 * time.Minute
	// toldWithin is how old an event may be that is still told.
	toldWithin = 24 * time.Hour
	// alarmsEvery is how long an alarm must have been off to be told again in the same state.
	alarmsEvery = time.Hour
	// mostAtOnce bounds the events of one look; the next look finds the rest.
	mostAtOnce = 100
)

// Notifier tells one receiver.
type Notifier struct {
	store             stages.Store
	service, id, form string
	url, name         string // name is what the store knows of the URL
	client            *http.Client
	log               *slog.Logger

	pause    time.Duration // after the last failure of the receiver; 0 without one
	resume   time.Time     // when that is over
	troubled atomic.Bool   // the last look has failed, which is in the log
}

// New returns a notifier of a service under a name of its own. It does nothing before Run.
func New(store stages.Store, service, id, address, form string, log *slog.Logger) (*Notifier, error) {
	if err := Check(address, form); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(address + " " + cmp.Or(form, CloudEvents)))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // moves are rare
	return &Notifier{
		store: store, service: service, id: id, url: address, form: form, name: hex.EncodeToString(sum[:8]), log: log,
		client: &http.Client{
			Transport: transport, Timeout: sendWithin,
			// A redirect would take the event to somebody who was not named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Check refuses a receiver that cannot be one. The error does not show the URL, which may hold a token.
func Check(address, form string) error {
	if form != "" && form != CloudEvents && form != Slack {
		return fmt.Errorf("no form %q of a notification: want %s or %s", form, CloudEvents, Slack)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("the URL to notify cannot be used: want https://HOST/PATH")
	}
	return nil
}

// Run tells until ctx is over.
func (n *Notifier) Run(ctx context.Context) {
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		_, _ = n.store.Tell(last, stages.Telling{To: n.name, ID: n.id, Leaves: true}) // else the lease ends by itself
	}()
	for {
		n.note(ctx, n.look(ctx))
		wait := lookEvery
		if n.pause > 0 {
			wait = min(wait, max(time.Until(n.resume), 0))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// note logs the first failure of several, and the end of them.
func (n *Notifier) note(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !n.troubled.Load():
		n.troubled.Store(true)
		n.log.Warn("shadowlimit: cannot tell of moves; trying again for a day", "error", err)
	case err == nil && n.troubled.Load() && n.pause == 0:
		n.troubled.Store(false)
		n.log.Info("shadowlimit: can tell of moves again")
	}
}

// Troubled reports whether the receiver or the store fails, and what happens is not told.
func (n *Notifier) Troubled() bool { return n.troubled.Load() }

// look tells what has happened since the last look, if this process is the one that tells.
func (n *Notifier) look(ctx context.Context) error {
	events, now, err := n.events(ctx)
	if err != nil || time.Now().Before(n.resume) {
		return err
	}
	for i := range events {
		e := &events[i]
		var late error
		if now.Sub(e.Time) > toldWithin {
			late = fmt.Errorf("%s is over a day old, and is not told", e.ID)
		} else if err := n.send(ctx, e); errors.As(err, new(refused)) {
			late = fmt.Errorf("%s is not told: %w", e.ID, err)
		} else if err != nil {
			n.pause = min(max(2*n.pause, leastPause), mostPause)
			n.resume = time.Now().Add(n.pause)
			return err
		}
		n.pause = 0
		if late != nil {
			n.log.Warn("shadowlimit: a move was not told", "error", late)
		}

		// Another one goes on from here where the lease was lost in between.
		if told, err := n.mark(ctx, map[string]string{e.mark: e.marked}); err != nil || !told.Mine {
			return err
		}
	}
	return nil
}

// mark stores marks with the lease, and renews it.
func (n *Notifier) mark(ctx context.Context, marks map[string]string, asks ...string) (stages.Told, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return n.store.Tell(ctx, stages.Telling{To: n.name, ID: n.id, Marks: marks, Asks: asks})
}

// events returns what is to be told, oldest first, and the store's clock; nothing where another process tells.
func (n *Notifier) events(ctx context.Context) ([]event, time.Time, error) {
	// Most processes of a fleet do not tell.
	told, err := n.mark(ctx, nil, sinceMark)
	if err != nil || !told.Mine {
		return nil, told.Now, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	since := parseMark(told.Marks[sinceMark])
	if since.at.IsZero() { // what has happened before is old
		since.at = told.Now
		if _, err := n.mark(ctx, map[string]string{sinceMark: since.String()}); err != nil {
			return nil, told.Now, err
		}
	}

	fleet, err := n.store.Fleet(ctx)
	if err != nil {
		return nil, told.Now, err
	}
	policies := fleet.Policies()
	states, err := n.store.States(ctx, policies)
	if err != nil {
		return nil, told.Now, err
	}
	found, err := n.store.Published(ctx, policies, false)
	if err != nil {
		return nil, told.Now, err
	}
	asks := make([]string, 0, 2*len(policies))
	for _, policy := range policies {
		asks = append(asks, policy, alarmMark(policy))
	}
	if told, err = n.mark(ctx, nil, asks...); err != nil || !told.Mine {
		return nil, told.Now, err
	}

	var events []event
	marks := map[string]string{}
	for i := range fleet.Specs {
		spec, s := &fleet.Specs[i], &states[i]
		last := parseMark(told.Marks[spec.Policy])
		if last.at.IsZero() {
			last.Version, last.at = stages.Version{Term: 1 << 62}, since.at // its instant alone counts
		}
		if last.isNew(s) {
			history, err := n.store.History(ctx, spec.Policy)
			if err != nil {
				return nil, told.Now, err
			}
			for j := range history {
				if last.isNew(&history[j]) {
					events = append(events, moveOf(n.service, spec, &history[j]))
				}
			}
		}
		if e, marked := n.alarm(spec, s, &found[i], parseMark(told.Marks[alarmMark(spec.Policy)]), told.Now); e != nil {
			events = append(events, *e)
		} else if marked != "" {
			marks[alarmMark(spec.Policy)] = marked
		}
	}
	if len(marks) > 0 {
		if _, err := n.mark(ctx, marks); err != nil {
			return nil, told.Now, err
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.Time.Compare(b.Time) })
	return events[:min(len(events), mostAtOnce)], told.Now, nil
}

// alarm returns the event of an alarm that is new, or the mark of one that goes on. In automatic mode the leader answers it, and
// the move is told instead.
func (n *Notifier) alarm(spec *stages.Spec, s *stages.State, found *stages.Published, last mark, now time.Time) (*event, string) {
	if spec.Config.Automatic || found.Alarm.Reason == "" || found.Version != s.Version {
		return nil, ""
	}
	if last.Version == s.Version && now.Sub(last.at) < alarmsEvery {
		return nil, mark{s.Version, now}.String()
	}
	e := alarmOf(n.service, spec, s, found.Alarm.Reason, now)
	return &e, ""
}

// refused is an answer that the same event would get again.
type refused struct{ error }

// send tells one event.
func (n *Notifier) send(ctx context.Context, e *event) error {
	text, contentType, err := e.body(n.form)
	if err != nil {
		return refused{err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(text))
	if err != nil {
		return errors.New("the URL to notify is none") // the error shows it
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "shadowlimit")
	response, err := n.client.Do(r)
	if err != nil {
		if of := new(url.Error); errors.As(err, &of) { // its text has the URL, and that may hold a token
			err = of.Err
		}
		return humanize.Discreet(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4096) // what it says does not matter

	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooEarly && code != http.StatusTooManyRequests:
		return refused{fmt.Errorf("the receiver refuses it: %s", http.StatusText(code))}
	default:
		return fmt.Errorf("the receiver answers %d %s", code, http.StatusText(code))
	}
}
