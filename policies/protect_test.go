package policies_test

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A protected key is named by its parts and by the data of the file, and by nothing of the request besides.
func TestProtectedKeys(t *testing.T) {
	p := loadPolicy(t, placing("protect: {keys: 'key[0] in data.ours', losing: 5%}"))
	if p.Promotion.ProtectLosing != 0.05 || !p.Protects() {
		t.Errorf("%+v", p.Promotion)
	}

	for user, want := range map[string]bool{"acme": true, "other": false, "acme|x": false} {
		got, err := p.Protected(context.Background(), &policies.Request{User: user, Path: "/"})
		if err != nil || got != want {
			t.Errorf("%s is protected: %t, %v; want %t", user, got, err, want)
		}
	}

	// A policy without the section protects nothing, and one that fails says so.
	if got, err := loadPolicy(t, placing("")).Protected(context.Background(), &policies.Request{User: "acme"}); got || err != nil {
		t.Errorf("without protect: %t, %v", got, err)
	}
	p = loadPolicy(t, placing("protect: {keys: 'key[0].substring(5) == \"x\"', losing: 5%}"))
	if got, err := p.Protected(context.Background(), &policies.Request{User: "a", Path: "/"}); got || err == nil {
		t.Errorf("a condition that fails: %t, %v; want an error", got, err)
	}
}

func TestClientHarmOfAFile(t *testing.T) {
	for text, want := range map[string]policies.ClientHarm{
		"client_harm: {losing: 10%, clients: 0.5%}": {Losing: 0.1, OfAtLeast: 50, Within: time.Hour, Clients: 0.005},
		"client_harm: {losing: 20%, of_at_least: 7, within: 3h, clients: 1%}": {
			Losing: 0.2, OfAtLeast: 7, Within: 3 * time.Hour, Clients: 0.01,
		},
		"soak: 3d": {},
	} {
		if got := loadPolicy(t, placing(text)).Promotion.ClientHarm; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

var badClients = []badFile{
	{"protect without losing", promotion("protect: {keys: 'key[0] == \"a\"'}"), 6, 26, "protect needs \"losing\""},
	{"protect without keys", promotion("protect: {losing: 5%}"), 6, 26, "protect needs \"keys\""},
	{"protect by a request", promotion("protect: {keys: request.user == 'a', losing: 5%}"), 6, 33, "there is no request.user"},
	{"client_harm without clients", promotion("client_harm: {losing: 5%}"), 6, 30, "client_harm needs \"clients\""},
	{"client_harm of no requests", promotion("client_harm: {losing: 5%, clients: 1%, of_at_least: 0}"), 6, 69, "at least 1"},
}
