package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

const keyDescription = `Shows when a canary reaches a key of a policy: the percentage, by the key's
hash, or whether the policy file pins the key (first); and which side is
enforced for it in the present stage, and why. It also shows what both sides
hold for the key now, and its differences of the last day, as far as they are
counted for single keys. Write a key of several parts as top shows it, with a
'|' between the parts.

The limits and the expression of first are in the policy file only: --config
reads them. Without --config the command names the enforced side only where
that side does not depend on first. Looking at a key charges it nothing.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit key per-client 203.0.113.9
  shadowlimit key per-client 203.0.113.9 -o json`

func keyCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "key",
		Usage:       "show what is enforced for a key, its state and differences",
		ArgsUsage:   "POLICY KEY",
		Description: keyDescription,
		Flags:       fleetFlags(&cli.StringFlag{Name: "config", Usage: "the service's policy `FILE`, for limits and first"}),
		Action:      withFleet(needsKey, func(c *cli.Context, f *fleet) error { return keyAction(c, f, std) }),
	}
}

// Keys as they are shown where the service has a secret, and where they are long.
var (
	secretKey = regexp.MustCompile(`^#[0-9a-f]{32}$`)
	longKey   = regexp.MustCompile(`^#[0-9a-f]{64}$`)
)

func keyAction(c *cli.Context, f *fleet, std streams) error {
	policy, key := c.Args().Get(0), c.Args().Get(1)

	// A wrong file is refused before Redis is asked anything.
	configured, err := configuredPolicy(c.String("config"), policy)
	if err != nil {
		return err
	}
	list, err := f.look(c.Context, policy)
	if err != nil {
		return err
	}

	report := keyReport{Policy: policy, Key: key}
	if err := report.pin(configured, &list[0]); err != nil {
		return err
	}
	report.enforce(f.name, &list[0])
	if err := report.lookUp(c.Context, f, configured, &list[0]); err != nil {
		return err
	}
	if configured != nil && !announced(configured, &list[0].Spec) {
		say(std.err, "%s is not the file that the instances have announced: they may pin other keys\n", c.String("config"))
	}
	return f.format.print(std.out, &report, report.write)
}

// needsKey refuses an invocation without a policy and a key.
func needsKey(c *cli.Context) error {
	if c.NArg() != 2 {
		return usagef(seeHelp(c), "key needs a policy and a key, got %s", humanize.Counted(int64(c.NArg()), "argument"))
	}
	if key := c.Args().Get(1); secretKey.MatchString(key) {
		return usagef("the hash of a key is of its text", "key %s is an HMAC: give the key in clear", key)
	}
	return nil
}

// configuredPolicy reads a policy from a policy file, nil without a file.
func configuredPolicy(file, policy string) (*policies.Policy, error) {
	if file == "" {
		return nil, nil
	}
	set, err := policies.LoadFile(file, stages.Check)
	if err != nil {
		return nil, inFile(file, err)
	}

	for _, p := range set.Policies {
		if p.Name == policy {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s has no policy %q", file, policy)
}

// announced reports whether a policy is the announced one as far as which keys are pinned. The
// expressions are not announced, so these may differ all the same.
func announced(p *policies.Policy, spec *stages.Spec) bool {
	return p.Fingerprint() == spec.Fingerprint && p.DeclaresFirst() == spec.First
}

// keyReport is the contract of key -o json.
type keyReport struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	// Pinned is null if it is not known without the policy file.
	Pinned *bool `json:"pinned"`
	// HashPercent says where the key's hash lies, from 0 to 99.99: it is in a canary of a larger percentage.
	HashPercent float64 `json:"hash_percent"`
	Stage       string  `json:"stage"`
	// Enforced is authoritative or candidate; "" if it is not known without the policy file.
	Enforced string `json:"enforced"`
	Why      string `json:"why"`

	// State is null without the policy file.
	State       *keyState      `json:"state"`
	Differences keyDifferences `json:"differences"`

	version string
}

// pin finds whether the key is pinned: by the file or, where no file is needed, because no key is.
func (r *keyReport) pin(configured *policies.Policy, a *stages.Assessment) error {
	switch {
	case configured != nil:
		first, err := configured.FirstKey(r.Key)
		if err != nil {
			return fmt.Errorf("whether the key is pinned is not known: %s", strings.TrimPrefix(err.Error(), "policies: "))
		}
		r.Pinned = &first
	case !a.Spec.First:
		r.Pinned = new(bool)
	}
	return nil
}

// enforce says which side is enforced, if that does not depend on what is not known.
func (r *keyReport) enforce(service string, a *stages.Assessment) {
	hash := evidence.Hash(service, r.Policy, r.charged())
	r.HashPercent = evidence.HashPercent(hash)
	r.Stage, r.version = a.State.Describe(), a.State.Version.String()

	enforced := func(first bool) string {
		return a.State.Enforced(a.State.Fingerprint, evidence.Position{Hash: hash, Pinned: first}).String()
	}
	if r.Pinned == nil && enforced(true) != enforced(false) {
		r.Why = "the policy file pins keys: give it, --config FILE"
		return
	}
	r.Enforced = enforced(r.pinned())

	r.Why = r.reason(a)
	if pressed := a.Pressed(); len(pressed) > 0 && r.Enforced == algorithms.Candidate.String() {
		r.Why += "; but the red button is pressed on " + strings.Join(pressed, ", ") + ", which enforces the authoritative"
	}
}

func (r *keyReport) pinned() bool { return r.Pinned != nil && *r.Pinned }

// charged is the key as requests are charged under it.
func (r *keyReport) charged() string {
	if longKey.MatchString(r.Key) {
		return r.Key
	}
	return algorithms.BoundedKey(r.Key)
}

// lookUp reads what Redis has of the key: the records of its sides, and the ledger.
func (r *keyReport) lookUp(ctx context.Context, f *fleet, configured *policies.Policy, a *stages.Assessment) (err error) {
	key := r.charged()
	if configured != nil {
		if r.State, err = keyStateOf(ctx, f, configured, key); err != nil {
			return err
		}
	}
	r.Differences, err = differencesOf(ctx, f, a, key)
	return err
}

// reason says why the side is enforced. The stage comes first: it decides alone in most of them.
func (r *keyReport) reason(a *stages.Assessment) string {
	switch {
	case !a.State.Exposed():
		return "the stage is for all keys"
	case r.Pinned == nil:
		return "first, which the policy file declares, does not matter to this key now"

	// What is declared goes before the hash, which the cases below name.
	case r.pinned():
		return "the key is pinned: in the canary from its first step (first)"
	case a.State.Stage == stages.Promoted:
		return "the candidate is promoted"
	}
	return fmt.Sprintf("the canary has the keys whose hash is below %g %%", a.State.Percent)
}

func (r *keyReport) write(out io.Writer) error {
	pinned := "no"
	switch {
	case r.Pinned == nil:
		pinned = "not known without the policy file: give it, --config FILE"
	case r.pinned():
		pinned = "yes (first)"
	}
	enforced := r.Enforced
	if enforced == "" {
		enforced = "not known"
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, version %s\n  key       %s\n  hash      %g %%: in a canary of more than that\n"+
		"  pinned    %s\n  enforced  %s\n  why       %s\n",
		r.Policy, r.Stage, r.version, humanize.Printable(r.Key), r.HashPercent, pinned, enforced, r.Why)
	r.State.write(&b)
	r.Differences.write(&b)
	_, err := io.WriteString(out, b.String())
	return err
}
