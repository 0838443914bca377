package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const secret = "T0KEN"

// service is a store with a policy that was promoted by force.
func service(t *testing.T) *stages.MemoryStore {
	t.Helper()
	store := stages.NewMemoryStore()
	_, err := store.Heartbeat(t.Context(), stages.Heartbeat{Specs: []stages.Spec{{Policy: "writes", Labels: map[string]string{"team": "payments"}}}})
	if err == nil {
		err = stages.Begin(t.Context(), store, "writes", "e", 0, "test")
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func promote(t *testing.T, store stages.Store) {
	t.Helper()
	step := stages.Step{Stage: stages.Promoted}
	if _, err := stages.Advance(t.Context(), store, "writes", step, stages.Order{Actor: "ann", Reason: "x <!channel>\n", Evidence: stages.Forced + "wait"}); err != nil {
		t.Fatal(err)
	}
}

// receiver notes the ids that it is told, and answers with a status.
type receiver struct {
	mu     sync.Mutex
	status int
	ids    []string
	at     []time.Time
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if err := json.NewDecoder(request.Body).Decode(&e); err != nil {
		return nil, err
	}
	r.ids, r.at = append(r.ids, e.ID), append(r.at, time.Now())
	if r.status == 0 {
		return nil, errors.New("no route")
	}
	return &http.Response{StatusCode: r.status, Body: io.NopCloser(strings.NewReader("")), Request: request}, nil
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// start lets a notifier run until the returned function is called.
func start(t *testing.T, store stages.Store, id string, to http.RoundTripper, log io.Writer) (stop func()) {
	t.Helper()
	_, stop = started(t, store, id, to, log)
	return stop
}

func started(t *testing.T, store stages.Store, id string, to http.RoundTripper, log io.Writer) (n *Notifier, stop func()) {
	t.Helper()
	n, err := New(store, "shop", id, "https://hooks.test/"+secret, "", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	n.client.Transport = to
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	return n, func() { cancel(); <-done }
}

// Each move is told once, whichever of two processes tells, also those that nobody was there to tell. What has happened before the
// first notifier is old.
func TestMovesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, to := service(t), &receiver{status: 204}
		time.Sleep(time.Second)
		stopA, stopB := start(t, store, "a", to, io.Discard), start(t, store, "b", to, io.Discard)
		time.Sleep(time.Second)
		promote(t, store)
		time.Sleep(time.Minute)
		stopA() // it had the lease

		_, err := stages.Pause(t.Context(), store, "writes", stages.Order{})
		time.Sleep(time.Minute)
		stopB()
		if _, failed := stages.Resume(t.Context(), store, "writes", stages.Order{}); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		s, err := stages.Rollback(t.Context(), store, "writes", stages.Order{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		defer start(t, store, "c", to, io.Discard)()
		time.Sleep(time.Minute)
		want := []string{"shop/writes/1.2", "shop/writes/1.3", "shop/writes/1.4", "shop/writes/" + s.Version.String()}
		if got := to.told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// A receiver that fails is asked again at longer and longer distances, with the same id, for a day. Then the next event is told.
func TestReceiverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store, to := service(t), &receiver{}
		n, stop := started(t, store, "a", to, &log)
		time.Sleep(time.Second)
		promote(t, store)
		time.Sleep(time.Hour)
		if !n.Troubled() {
			t.Error("a receiver fails for an hour, and is no trouble")
		}
		to.answer(503)
		time.Sleep(22 * time.Hour)
		if _, err := stages.Pause(t.Context(), store, "writes", stages.Order{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		ids := to.told()
		if n := len(slices.Compact(slices.Clone(ids))); n != 2 || len(ids) < 200 || len(ids) > 400 {
			t.Errorf("%d tries of %d events in 25 hours", len(ids), n)
		}
		for i := range 4 {
			if pause := to.at[i+1].Sub(to.at[i]); pause < 1<<i*time.Second || pause > 1<<i*time.Second+lookEvery {
				t.Errorf("try %d comes after %s", i+2, pause)
			}
		}

		to.answer(200)
		time.Sleep(mostPause)
		before := len(to.told())
		time.Sleep(time.Hour)
		stop()
		if n.Troubled() {
			t.Error("a receiver that takes all is still trouble")
		}
		if after := to.told(); len(after) != before || after[before-1] != "shop/writes/1.3" {
			t.Errorf("%d are told after the end, the last is %s", len(after)-before, after[len(after)-1])
		}
		text := log.String()
		if strings.Contains(text, secret) || !strings.Contains(text, "shop/writes/1.2 is over a day old") || strings.Count(text, "\n") > 4 {
			t.Errorf("the log: %s", text)
		}
	})
}

// A receiver that refuses an event gets the next one. A store that fails after an event was told lets it be told again, as itself.
func TestRefusedAndRepeatedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, to := &forgetful{MemoryStore: service(t)}, &receiver{status: 400}
		defer start(t, store, "a", to, io.Discard)()
		time.Sleep(time.Second)
		promote(t, store)
		time.Sleep(time.Minute)
		to.answer(200)
		store.forget("writes")
		if _, err := stages.Pause(t.Context(), store, "writes", stages.Order{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want := []string{"shop/writes/1.2", "shop/writes/1.3", "shop/writes/1.3"}
		if got := to.told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// forgetful loses the next mark of a policy.
type forgetful struct {
	*stages.MemoryStore
	mu   sync.Mutex
	next string
}

func (f *forgetful) forget(policy string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = policy
}

func (f *forgetful) Tell(ctx context.Context, t stages.Telling) (stages.Told, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := t.Marks[f.next]; there {
		f.next = ""
		return stages.Told{}, errors.New("connection reset")
	}
	return f.MemoryStore.Tell(ctx, t)
}

// An alarm of a policy in manual mode is told when it begins, and again only after it was gone for an hour.
func TestAlarmsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, to := service(t), &receiver{status: 200}
		promote(t, store)
		alarm := func(reason string) {
			t.Helper()
			h, err := store.Heartbeat(t.Context(), stages.Heartbeat{ID: "leader", Leads: true})
			if err == nil {
				err = store.Publish(t.Context(), stages.Findings{At: h.Now, By: "leader", Policies: []stages.Published{
					{Policy: "writes", Leader: "leader", Version: stages.Version{Term: 1, Seq: 2}, Alarm: gate.Alarm{Reason: reason}},
				}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		defer start(t, store, "a", to, io.Discard)()
		for _, reason := range []string{"overload", "", "overload", ""} {
			alarm(reason)
			time.Sleep(10 * time.Minute)
		}
		if got := to.told(); len(got) != 1 || !strings.HasPrefix(got[0], "shop/writes/1.2/alarm/") {
			t.Errorf("told %q, want one alarm", got)
		}
		time.Sleep(2 * time.Hour)
		alarm("overload")
		time.Sleep(time.Minute)
		if got := to.told(); len(got) != 2 || got[0] == got[1] {
			t.Errorf("told %q, want a second alarm", got)
		}
	})
}

// The forms that a real server gets: an event as CloudEvents has it, and a message of Slack, in which a reason is a text alone.
func TestForms(t *testing.T) {
	for form, check := range map[string]func(t *testing.T, kind string, body map[string]any){
		"": func(t *testing.T, kind string, body map[string]any) {
			data, _ := body["data"].(map[string]any)
			if !strings.HasPrefix(kind, "application/cloudevents+json") || body["specversion"] != "1.0" || body["type"] != "com.github.shadowlimit.forced" ||
				body["id"] != "shop/writes/1.2" || body["source"] != "/shadowlimit/shop" || body["subject"] != "writes" ||
				data["from"] != "shadow" || data["to"] != "promoted" || data["actor"] != "ann" || data["reason"] != "x <!channel>\n" {
				t.Errorf("%s: %v", kind, body)
			}
			if _, err := time.Parse(time.RFC3339, body["time"].(string)); err != nil {
				t.Error(err)
			}
		},
		Slack: func(t *testing.T, kind string, body map[string]any) {
			want := `shop writes: forced: shadow → promoted, by ann: "x &lt;!channel&gt;\n"`
			if len(body) != 1 || body["text"] != want || !strings.HasPrefix(kind, "application/json") {
				t.Errorf("%s: %v, want %s", kind, body, want)
			}
		},
	} {
		var got []*http.Request
		var bodies []map[string]any
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			got, bodies = append(got, r), append(bodies, body)
			w.WriteHeader(http.StatusNoContent)
		}))
		store := service(t)
		n, err := New(store, "shop", "a", server.URL+"/"+secret, form, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		first := n.look(t.Context())
		promote(t, store)
		if err := errors.Join(first, n.look(t.Context()), n.look(t.Context())); err != nil || len(got) != 1 || got[0].Method != http.MethodPost {
			t.Fatalf("%q: %v, %d requests", form, err, len(got))
		}
		check(t, got[0].Header.Get("Content-Type"), bodies[0])
		server.Close()
	}
}

// No error shows the URL, and nobody follows a redirect.
func TestErrorsShowNoToken(t *testing.T) {
	elsewhere := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			elsewhere++
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	for _, address := range []string{server.URL + "/" + secret, "http://127.0.0.1:1/" + secret, "http://" + secret + "@127.0.0.1:1/"} {
		n, err := New(service(t), "shop", "a", address, "", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.send(t.Context(), &event{}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
	for address, form := range map[string]string{"": "", "ftp://" + secret: "", "https:///" + secret: "", "://" + secret: "", "https://ok.test/": "xml"} {
		if err := Check(address, form); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q, %q: %v", address, form, err)
		}
	}
}
