package integration

import (
	"strings"
	"testing"
)

// A Redis without memory answers every reader, and denies every request where on_store_failure is deny. The instances and the
// command say so, while instances are heard, for a heartbeat needs no memory; and when the memory is back, no longer.
func TestRefusedWritesAreSaid(t *testing.T) {
	t.Parallel()
	long(t)
	built(t)
	name, addr := namespace(), privateServer(t)
	denies := strings.Replace(serviceFile, "    key:", "    on_store_failure: deny\n    key:", 1)
	var fleet []*service
	for range 2 {
		fleet = append(fleet, startServiceIn(t, t.TempDir(), addr, name, fileVariable+"="+denies))
	}
	await(t, "both instances are live", func() bool {
		_, out := shell(t, server{addr: addr}, name, "status", "per-user")
		return strings.Contains(out, "instances: 2 of 2 live")
	})

	ask(t, addr, "CONFIG", "SET", "maxmemory", "1mb")
	for i, one := range fleet {
		await(t, "the text of an instance says what clients get", func() bool {
			code, _ := one.get(t, "/", "alice")
			_, text := one.get(t, "/status?format=text", "")
			return code == 429 && strings.Contains(text, "REFUSES WRITES: OOM") && strings.Contains(text, "every request is denied now")
		})
		if _, page := one.get(t, "/status", ""); !strings.Contains(page, "REFUSES WRITES") {
			t.Errorf("instance %d: %s", i, page)
		}
	}

	said := func(parts ...string) bool {
		_, out := shell(t, server{addr: addr}, name, "status", "per-user")
		out = strings.Join(strings.Fields(out), " ")
		for _, part := range parts {
			if !strings.Contains(out, part) {
				return false
			}
		}
		return true
	}
	const away = "STORE UNREACHABLE: the service's own Redis, the store of the authoritative, refuses writes (OOM: "
	if !said(away, "every request there is denied now") {
		t.Error("status does not say that writes are refused while instances are live")
	}

	ask(t, addr, "CONFIG", "SET", "maxmemory", "0")
	await(t, "status is calm", func() bool {
		return said("instances: 2 of 2 live") && !said("STORE UNREACHABLE") && !said("NO HEARTBEATS")
	})
}
