package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const pinningFile = fleetFile + `    promotion:
      first: 'key[0] in ["acme"] || key[0].startsWith("7") && int(key[0]) > 0'
`

// pinnedKeys is a service whose policy file pins keys.
func pinnedKeys(t *testing.T) *shadow.Harness {
	t.Helper()
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	return instanceOf(t, server, "a", pinningFile)
}

// keyBetween returns a key whose hash lies between two percentages, and that no file pins.
func keyBetween(lower, upper float64) string {
	for key := "u"; ; key += "u" {
		if p := evidence.HashPercent(evidence.Hash("checkout", "writes", key)); p >= lower && p < upper {
			return key
		}
	}
}

// The command says of a key what a request of it finds, in each stage.
func TestKeySaysWhatIsEnforced(t *testing.T) {
	h := pinnedKeys(t)
	file := write(t, "checkout.yaml", []byte(pinningFile))
	low, middle, top := keyBetween(0, 10), keyBetween(10, 90), keyBetween(90, 100)

	for _, stage := range []string{
		"", "promote writes --to 10% --force --reason x", "promote writes --to 90% --force --reason x",
		"promote writes --full --force --reason x", "complete writes --force --reason x", "rollback writes --reason x",
	} {
		if stage != "" {
			if status, _, talk := shell(t, "", strings.Fields(stage)...); status != exitOK {
				t.Fatal(talk)
			}
		}
		if err := h.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}

		for _, key := range []string{low, middle, top, "acme", strings.Repeat("long", 100)} {
			status, out, talk := shell(t, "", "key", "writes", key, "--config", file, "-o", "json")
			var got keyReport
			if err := json.Unmarshal([]byte(out), &got); status != exitOK || err != nil {
				t.Fatalf("after %q: status %d, %v\n%s%s", stage, status, err, out, talk)
			}
			if want := h.Decide(t.Context(), &policies.Request{User: key}).Enforced.String(); got.Enforced != want || got.Why == "" {
				t.Errorf("after %q: %+v, and a request of it has the %s", stage, got, want)
			}

			// Without the file the side is the same, or not known.
			_, out, _ = shell(t, "", "key", "writes", key, "-o", "json")
			var without keyReport
			if err := json.Unmarshal([]byte(out), &without); err != nil {
				t.Fatal(err)
			}
			if without.Enforced != "" && without.Enforced != got.Enforced || without.Pinned != nil {
				t.Errorf("after %q, without the file: %+v, and with it %+v", stage, without, got)
			}
		}
	}
}

func TestKeySaysWhy(t *testing.T) {
	pinnedKeys(t)
	file := write(t, "checkout.yaml", []byte(pinningFile))
	other := write(t, "other.yaml", []byte(fleetFile))

	for _, step := range []struct {
		args       string
		wantStatus int
		want       string // parts of output and talk, in their order
	}{
		{"key", 2, "a policy and a key"},
		{"key writes", 2, "a policy and a key"},
		{"key writes #0123456789abcdef0123456789abcdef", 2, "HMAC"},
		{"key nothing acme", 1, `checkout has no policy "nothing"`},
		{"key writes acme --config nothing.yaml", 1, "no such file"},
		{"key nothing acme --config " + file, 1, `has no policy "nothing"`},
		{"key writes 7up --config " + file, 1, "pinned|not known: first"},
		{"key writes #" + strings.Repeat("0", 64) + " --config " + file, 1, "a hash"},
		{"key writes acme", 0, "enforced  authoritative\n  why "},
		{"key writes acme --config " + other, 0, "not the file"},
		{"promote writes --to 10% --force --reason x", 0, ""},
		{"key writes acme", 0, "pinned    not known|--config FILE\n|enforced  not known"},
		{"key writes acme --config " + file, 0, "pinned    yes (first)\n  enforced  candidate\n  why       the key is pinned"},
		{"key writes " + keyBetween(0, 10) + " --config " + file, 0, "why |10 %"},
		{"promote writes --full --force --reason x", 0, ""},
		{"key writes " + keyBetween(0, 90), 0, "why "},
		{"key writes " + keyBetween(0, 90) + " --config " + file, 0, "pinned    no\n  enforced  candidate\n  why |promoted"},
	} {
		status, out, talk := shell(t, "", strings.Fields(step.args)...)
		if status != step.wantStatus || firstMissing(out+talk, strings.Split(step.want, "|")) != "" {
			t.Errorf("%s: status %d, want %d with %q:\n%s%s", step.args, status, step.wantStatus, step.want, out, talk)
		}
	}
}

// A service that pins no key needs no file.
func TestKeyOfAPlainService(t *testing.T) {
	service(t)
	if status, out, talk := shell(t, "", strings.Fields("promote writes --full --force --reason x")...); status != exitOK {
		t.Fatal(out, talk)
	}

	_, out, _ := shell(t, "", "key", "writes", "acme")
	if missing := firstMissing(out, []string{"pinned    no\n", "enforced  candidate\n", "why ", "promoted\n"}); missing != "" {
		t.Errorf("no %q in\n%s", missing, out)
	}
}

// An instance whose button is pressed does not do what the stage says.
func TestKeyNamesPressedButtons(t *testing.T) {
	a := &stages.Assessment{
		State: stages.State{Stage: stages.Promoted, Percent: 100},
		Live:  []stages.Instance{{ID: "a-1"}, {ID: "b-2", RedButton: true}},
	}
	r := keyReport{Policy: "writes", Key: "acme"}
	if err := r.pin(nil, a); err != nil {
		t.Fatal(err)
	}

	r.enforce("checkout", a)
	if firstMissing(r.Why, []string{"red button", "b-2", "authoritative"}) != "" {
		t.Errorf("why: %s", r.Why)
	}
}
