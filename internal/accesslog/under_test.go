package accesslog

import (
	"fmt"
	"strings"
	"testing"
)

// TestUnder holds that Under finds the same fields as Field, in every format.
func TestUnder(t *testing.T) {
	const common = `10.0.0.1 - - [02/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5`

	tests := []struct{ name, log, want string }{
		{"common", common + "\n", "map[]"},
		{"combined", common + ` "http://x/" "agent"` + "\n", "map[referer:http://x/ user-agent:agent]"},
		{
			"objects",
			`{"t_s":1700000000,"headers":{"a":"1","b":2,"list":["x","y"],"none":null},"header":{"c":"3"},"headersx":"4"}` + "\n",
			"map[a:1 b:2 list:x, y]",
		},
		{"names with dots", `{"t_s":1700000000,"headers.a":"1","headers":{"a":"0","b":"2"}}` + "\n", "map[a:1 b:2]"},
		{"no headers", `{"t_s":1700000000,"headers":"a"}` + "\n", "map[]"},
		{"CSV", "t_s,headers.a,headers.b,headers,headers.a,headers.c\n1700000000,1,,3,4\n", "map[a:1]"},
	}

	for _, tt := range tests {
		_, err := Read(strings.NewReader(tt.log), "log", Config{Requests: true}, func(e Event) error {
			found := e.Under("headers")
			if fmt.Sprint(found) != tt.want {
				t.Errorf("%s: %v, want %s", tt.name, found, tt.want)
			}

			for name, value := range found {
				if text, ok := e.Field("headers." + name); !ok || text != value {
					t.Errorf("%s: Field returns %q for %s, Under %q", tt.name, text, name, value)
				}
			}

			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}

	if (Event{}).Under("headers") != nil {
		t.Error("an event without a line has headers")
	}
}
