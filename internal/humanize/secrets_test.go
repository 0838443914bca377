package humanize_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

func TestErrorsWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"ERR unknown command 'auth', with args beginning with: 'u' 's3cret' ": "ERR unknown command 'auth'",
		"ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`,": "ERR unknown command `HELLO`",
		`no command "redis://u:s3@cret@h:1"`:                                  `no command "redis://...@h:1"`,
		"put them into the URL: redis://USER:PASSWORD@HOST:PORT":              "put them into the URL: redis://USER:PASSWORD@HOST:PORT",
		"dial tcp 127.0.0.1:1: connection refused":                            "dial tcp 127.0.0.1:1: connection refused",
	} {
		if got := humanize.WithoutSecrets(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}

	plain := errors.New("i/o timeout")
	hidden := humanize.Discreet(fmt.Errorf("redis://u:s3cret@h: %w", plain))
	if humanize.Discreet(plain) != plain || hidden.Error() != "redis://...@h: i/o timeout" || !errors.Is(hidden, plain) {
		t.Errorf("%v", hidden)
	}
}
