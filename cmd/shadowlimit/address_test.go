package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/redisurl"
)

// secretPart is in every secret of these tests, and in nothing else.
const secretPart = "s3cret"

// addressForms are URLs with one place for a secret each, %s.
var addressForms = []string{
	"redis://:%s@127.0.0.1:1", "redis://user:%s@127.0.0.1:1/3", "redis://%s@127.0.0.1:1", "redis://:%s@127.0.0.1:77x99",
	"rediss://:%s@127.0.0.1:1?skip_verify=true", "redis://127.0.0.1:1/%s", "redis://127.0.0.1:1?password=%s",
	"redis://127.0.0.1:1?%s=1", "redis://127.0.0.1:1?db=%s", "redis://127.0.0.1:1?read_timeout=%s",
	"redis+cluster://:%s@127.0.0.1:1", "redis+cluster://:%s@127.0.0.1:77x99", "redis+cluster://127.0.0.1:1?addr=user:%s@127.0.0.1:2",
	"redis+cluster://127.0.0.1:1?addr=%s@127.0.0.1:2", "redis+cluster://127.0.0.1:1?addr=redis://:%s@127.0.0.1:2",
	"redis+sentinel://user:%s@127.0.0.1:1?master_name=m", "redis+sentinel://user:%s@127.0.0.1:26379 ?master_name=m",
	"redis+sentinel://127.0.0.1:1?master_name=m&username=%s&password=%s", "redis+sentinel://:%s@127.0.0.1:1",
	"redis+sentinel://127.0.0.1:1?master_name=m&db=%s",
	"rediss://127.0.0.1:1?cacert=%s", "rediss://127.0.0.1:1?cert=%s&key=%s", "redis+sentinel://127.0.0.1:1?master_name=m&cacert=%s",
	"unix://:%s@/nowhere/redis.sock", "unix://user:%s@/nowhere/redis.sock?db=3", "unix://%s@/nowhere/redis.sock", "unix:///nowhere?db=%s",
	"unix:///nowhere?password=%s", "unix://%s/nowhere",
	"rediss+cluster://:%s%%zz@host:6379", "http://:%s@127.0.0.1:1", "redis+%s://127.0.0.1:1", "%s://127.0.0.1:1", ":%s@127.0.0.1:1",
}

// secrets are passwords with the characters that have a meaning in a URL.
var secrets = []string{
	"s3cret", "a/s3cret", "s3cret/3", "12/s3cret", "a?s3cret", "s3cret?x=1", "12#s3cret", "s3cret#12", "a@s3cret", "a:s3cret", "s3cret%",
	"s3cret\\x", "s3cret[", "[s3cret]", "s3cret x", "s3cret?client_name=", "s3cret?addr=",
}

// No message shows any part of a password, wherever it is in the URL of Redis.
func TestNoMessageShowsThePassword(t *testing.T) {
	for _, form := range addressForms {
		for _, secret := range secrets {
			address := strings.ReplaceAll(form, "%s", secret)
			status, out, talk := shell(t, "", "status", "--name", "svc", "--redis", address)
			if status == 0 || strings.Contains(out+talk, secretPart) {
				t.Errorf("%q: status %d:\n%s%s", address, status, out, talk)
			}
		}
	}
}

// A URL that is given as an argument by mistake is shown without user and password.
func TestMisplacedURLsLoseTheirPassword(t *testing.T) {
	_, _ = service(t)
	for _, args := range [][]string{{"redis://u:s3cret@h:1"}, {"status", "redis://u:s3cret@h:1"}, {"status", "-o", "redis://u:s3cret@h:1"}} {
		if status, out, talk := shell(t, "", args...); status == 0 || strings.Contains(out+talk, secretPart) || !strings.Contains(talk, "@h:1") {
			t.Errorf("%q: status %d:\n%s%s", args, status, out, talk)
		}
	}
}

// Whatever a password is, neither the error nor an address, which the error of a dial shows,
// has a part of it.
func FuzzPasswordsOfAddresses(f *testing.F) {
	for _, secret := range secrets {
		before, after, _ := strings.Cut(secret, secretPart)
		f.Add(before, after)
	}

	f.Fuzz(func(t *testing.T, before, after string) {
		for _, form := range []string{
			"redis://:%s@127.0.0.1:1", "rediss://user:%s@127.0.0.1:1/3", "redis://%s@127.0.0.1:1", "redis+cluster://:%s@127.0.0.1:1",
			"redis+cluster://127.0.0.1:1?addr=u:%s@127.0.0.1:2", "redis+sentinel://:%s@127.0.0.1:1?master_name=m",
			"unix://:%s@/nowhere/redis.sock", "unix://%s@/nowhere/redis.sock",
		} {
			address := fmt.Sprintf(form, before+secretPart+after)
			options, err := redisurl.Parse(address)
			if err != nil && strings.Contains(err.Error(), secretPart) {
				t.Errorf("%q: %v", address, err)
			}
			if err == nil && slices.ContainsFunc(options.Addrs, func(a string) bool { return strings.Contains(a, secretPart) }) {
				t.Errorf("%q: addresses %q", address, options.Addrs)
			}
		}
	})
}
