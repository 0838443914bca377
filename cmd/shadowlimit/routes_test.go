package main

import (
	"strings"
	"testing"
)

// The most specific template names a path, whatever the order of the templates.
func TestRoutes(t *testing.T) {
	file := write(t, "routes", []byte("# of the shop\n\nGET /orders/{id}\n/orders/new\n/users/:name/items\n/static/{path...}\n/\n"))
	for _, value := range []string{"@" + file, file} {
		r, err := parseRoutes([]string{value, "/files/*"})
		if err != nil {
			t.Fatal(err)
		}

		for path, want := range map[string]string{
			"/orders/7": "/orders/{id}", "/orders/new": "/orders/new", "/orders/": "", "/orders": "", "/orders/7/x": "",
			"/users/bob/items": "/users/:name/items", "/static/a/b.js": "/static/{path...}", "/static/": "/static/{path...}",
			"/": "/", "/files/x": "/files/*", "": "", "*": "", "orders/7": "",
		} {
			if got := r.of(path); got != want {
				t.Errorf("%s has the route %q, want %q", path, got, want)
			}
		}
		if got := r.warning(); !strings.HasPrefix(got, "6 of 13 paths match no --route") {
			t.Errorf("warning %q", got)
		}
	}

	for _, bad := range []string{"orders", "/a/{x...}/b", "/a/x{id}", "/a/{id:[0-9]+}", "@nowhere"} {
		if _, err := parseRoutes([]string{bad}); err == nil {
			t.Errorf("%s is taken for a route", bad)
		}
	}
}
