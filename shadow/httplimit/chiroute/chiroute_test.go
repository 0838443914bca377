package chiroute_test

import (
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit/chiroute"
)

func TestRoutesAreKnownBeforehand(t *testing.T) {
	inner := chi.NewRouter()
	inner.Get("/{id}", nil)
	router := chi.NewRouter()
	router.Get("/items/{id}", nil)
	router.Mount("/orders", inner)
	of := chiroute.Of(router)
	for path, want := range map[string]string{
		"/items/1": "/items/{id}", "/items/a%2Fb": "/items/{id}", "/orders/7": "/orders/{id}", "/nothing": "", "/items": "",
	} {
		if got := of(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := of(httptest.NewRequest("POST", "/items/1", nil)); got != "" {
		t.Errorf("POST: %q", got)
	}
}
