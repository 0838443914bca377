package main

import (
	"fmt"
	"strings"
	"testing"
)

// edgeLogs are of three clients behind twenty edges of a CDN, one of which also reaches a balancer, in several formats.
func edgeLogs() map[string]string {
	logs := map[string]string{}
	iis := "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(X-Forwarded-For)\n"
	var text, first, envoy, json strings.Builder
	for i := range 60 {
		edge, client := fmt.Sprintf("172.64.0.%d", 1+i%20), fmt.Sprintf("203.0.113.%d", 1+i%3)
		forwarded := client
		if i%20 == 7 {
			forwarded = "6.6.6.6, " + client + ", 172.64.0.99" // forged, and through two edges
		}
		fmt.Fprintf(&text, "%s - - [04/Mar/2026:10:00:%02d +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"a\" %q\n", edge, i, forwarded)
		fmt.Fprintf(&first, "%s, %s - - [04/Mar/2026:10:00:%02d +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"a\"\n", forwarded, edge, i)
		fmt.Fprintf(&envoy, "[2026-03-04T10:00:%02dZ] \"GET / HTTP/1.1\" 200 - 0 5 1 1 \"%s, %s\" \"a\" \"1\" \"api\" \"10.0.0.2:80\"\n",
			i, forwarded, edge)
		fmt.Fprintf(&json, `{"time":"2026-03-04T10:00:%02dZ","remote_addr":"%s","http_x_forwarded_for":"%s"}`+"\n", i, edge, forwarded)
		iis += fmt.Sprintf("2026-03-04 10:00:%02d %s GET / 200 %s\n", i, edge, strings.ReplaceAll(forwarded, " ", "+"))
	}
	logs["combined"], logs["json"], logs["iis"] = text.String(), json.String(), iis
	logs["forwarded first"], logs["envoy"] = first.String(), envoy.String()
	return logs
}

// The edges of a CDN are warned of, and are no clients once they are named: for the key of the log and for request.ip.
func TestTrustedProxies(t *testing.T) {
	const warning = "--trusted-proxies"
	commands := map[string][]string{
		"replay":  {"replay", "--from", "gcra:10/1m", "--to", "gcra:20/1m"},
		"suggest": {"suggest"},
	}
	for format, log := range edgeLogs() {
		for name, command := range commands {
			for _, key := range [][]string{nil, {"--key", "request.ip"}} {
				args := append(append(append([]string{}, command...), "-o", "json", "-"), key...)
				status, out, talk := shell(t, log, args...)
				if keys := countsIn(object(t, out))["keys"]; status != exitOK || keys != 20 || !strings.Contains(talk, warning) {
					t.Errorf("%s of %s %v: status %d, %v keys, want 20 and a warning: %s", name, format, key, status, keys, talk)
				}

				status, out, talk = shell(t, log, append(args, "--trusted-proxies", "172.64.0.0/13")...)
				if keys := countsIn(object(t, out))["keys"]; status != exitOK || keys != 3 || strings.Contains(talk, warning) {
					t.Errorf("%s of %s %v: status %d, %v keys behind proxies, want 3 and no warning: %s", name, format, key, status, keys, talk)
				}
			}
		}

		refused := map[string][]string{
			"others":   {"--trusted-proxies", "198.51.100.7"},
			"no CIDR":  {"--trusted-proxies", "cdn.example.com"},
			"two ways": {"--trusted-proxies", "172.64.0.0/13", "--map", "request.ip=headers.x-forwarded-for"},
		}
		for name, flags := range refused {
			if status, _, talk := shell(t, log, append([]string{"suggest", "-"}, flags...)...); status != exitUsage {
				t.Errorf("%s, %s: status %d: %s", format, name, status, talk)
			}
		}
	}
}

func object(t *testing.T, out string) (v map[string]any) {
	t.Helper()
	decoded(t, out, &v)
	return v
}
