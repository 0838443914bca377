package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shadowlimit/shadowlimit/envoy"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const (
	ok   = rls.RateLimitResponse_OK
	over = rls.RateLimitResponse_OVER_LIMIT
)

// edge limits users, and paths of users more strictly, beside a candidate that no answer shows.
const edge = `
version: 1
name: edge
policies:
  - name: per-user
    when: request.domain == "edge" && request.route == "user"
    key: request.descriptors["user"]
    authoritative: { algorithm: fixed_window, limit: 3, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
  - name: per-path
    when: request.route == "user/path"
    key: ['request.descriptors["user"]', 'request.descriptors["path"]']
    authoritative: { algorithm: fixed_window, limit: 2, window: 90s }
  - name: twice
    when: request.route == "generic_key/generic_key#2/a%2Fb"
    key: request.descriptors["generic_key#2"]
    authoritative: { algorithm: gcra, limit: 1, window: 1d }
`

func still() time.Time { return time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC) }

// harnessOf returns a harness, whose clock the test has.
func harnessOf(t testing.TB, text string, clock func() time.Time) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := shadow.New(shadow.Config{Policies: set, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// clientOf serves a service over loopback, and returns a client of it.
func clientOf(t *testing.T, s *envoy.Service) rls.RateLimitServiceClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(envoy.MostBytes))
	rls.RegisterRateLimitServiceServer(server, s)
	go server.Serve(l)
	t.Cleanup(server.Stop)

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rls.NewRateLimitServiceClient(conn)
}

// descriptor makes a descriptor of keys and values in turn.
func descriptor(entries ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

func requestOf(list ...*ratelimitv3.RateLimitDescriptor) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "edge", Descriptors: list}
}

func shown(s *rls.RateLimitResponse_DescriptorStatus) string {
	text := fmt.Sprintf("%v %d left", s.Code, s.LimitRemaining)
	if l := s.CurrentLimit; l != nil {
		text += fmt.Sprintf(" of %s %d/%v", l.Name, l.RequestsPerUnit, l.Unit)
	}
	if s.DurationUntilReset != nil {
		text += fmt.Sprintf(" for %v", s.DurationUntilReset.AsDuration())
	}
	return text
}

// Each descriptor is charged by itself, also where another one of the request is over its limit, and what an answer says is
// of the enforced side alone.
func TestDescriptors(t *testing.T) {
	client := clientOf(t, envoy.New(harnessOf(t, edge, still), envoy.Config{}))
	ann, path := descriptor("user", "ann"), descriptor("user", "ann", "path", "/a")

	for i, want := range []struct {
		code     rls.RateLimitResponse_Code
		statuses string
	}{
		{ok, "OK 2 left of per-user 3/HOUR for 30m0s, OK 1 left for 1m30s, OK 0 left"},
		{ok, "OK 1 left of per-user 3/HOUR for 30m0s, OK 0 left for 1m30s, OK 0 left"},
		{over, "OK 0 left of per-user 3/HOUR for 30m0s, OVER_LIMIT 0 left for 1m30s, OK 0 left"},
		{over, "OVER_LIMIT 0 left of per-user 3/HOUR for 30m0s, OVER_LIMIT 0 left for 1m30s, OK 0 left"},
	} {
		answer, err := client.ShouldRateLimit(t.Context(), requestOf(ann, path, descriptor("path", "/a", "user", "ann")))
		if err != nil {
			t.Fatal(err)
		}
		var statuses []string
		for _, s := range answer.Statuses {
			statuses = append(statuses, shown(s))
		}
		if got := strings.Join(statuses, ", "); answer.OverallCode != want.code || got != want.statuses {
			t.Errorf("request %d: %v: %s\nwant %v: %s", i, answer.OverallCode, got, want.code, want.statuses)
		}
	}
}

// What fails behind the service is answered by the policy's rules, and a candidate that fails changes no answer.
func TestFailures(t *testing.T) {
	for i := range adaptertest.Failures {
		failure := &adaptertest.Failures[i]
		h := failure.Start(t, `request.domain == "edge"`, `request.descriptors["user"]`)
		client := clientOf(t, envoy.New(h, envoy.Config{}))

		var got [3]bool
		for i := range got {
			answer, err := client.ShouldRateLimit(t.Context(), requestOf(descriptor("user", "ann")))
			if err != nil {
				t.Fatalf("%s: %v", failure.Name, err)
			}
			got[i] = answer.OverallCode == ok
		}
		if got != failure.Admitted {
			t.Errorf("%s: admitted %v, want %v", failure.Name, got, failure.Admitted)
		}
	}
}

// The client is told of the limit that matters to it.
func TestHeaders(t *testing.T) {
	client := clientOf(t, envoy.New(harnessOf(t, edge, still), envoy.Config{}))
	var got []string
	for range 3 {
		answer, err := client.ShouldRateLimit(t.Context(), requestOf(descriptor("user", "ann"), descriptor("user", "ann", "path", "/a")))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range answer.ResponseHeadersToAdd {
			got = append(got, h.Key+": "+h.Value)
		}
	}

	const policy = `ratelimit-policy: "per-path";q=2;w=90`
	want := []string{
		policy, `ratelimit: "per-path";r=1;t=90`, policy, `ratelimit: "per-path";r=0;t=90`,
		policy, `ratelimit: "per-path";r=0;t=90`, "retry-after: 90",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Envoy is told both sides of each policy that has two, for its log, and if asked the service behind it, too. The first
// request is admitted by both, and the candidate would deny the second.
func TestOtherSide(t *testing.T) {
	for _, upstream := range []bool{false, true} {
		client := clientOf(t, envoy.New(harnessOf(t, edge, still), envoy.Config{Upstream: upstream}))
		for i, want := range []struct{ candidate, header string }{
			{"allowed", `policy="per-user", enforced=authoritative, allowed=?1, candidate=?1;remaining=0`},
			{"denied", `policy="per-user", enforced=authoritative, allowed=?1, candidate=?0;remaining=0`},
		} {
			answer, err := client.ShouldRateLimit(t.Context(), requestOf(descriptor("user", "ann"), descriptor("path", "/a")))
			if err != nil {
				t.Fatal(err)
			}
			metadata := map[string]any{"per-user": map[string]any{
				"enforced": "authoritative", "authoritative": "allowed", "candidate": want.candidate,
			}}
			if got := answer.DynamicMetadata.AsMap(); !reflect.DeepEqual(got, metadata) {
				t.Errorf("request %d: %v, want %v", i, got, metadata)
			}

			header := ""
			for _, h := range answer.RequestHeadersToAdd {
				header += h.Key + ": " + h.Value
			}
			if !upstream {
				want.header = ""
			} else {
				want.header = "shadowlimit-debug: " + want.header
			}
			if header != want.header {
				t.Errorf("request %d: %s, want %s", i, header, want.header)
			}
		}

		// A policy without a candidate has no other side.
		answer, err := client.ShouldRateLimit(t.Context(), requestOf(descriptor("user", "bob", "path", "/a")))
		if err != nil || answer.DynamicMetadata != nil {
			t.Errorf("%v %v", answer, err)
		}
	}
}

// A limiter that does not exist has nothing to tell.
func TestFirstLimit(t *testing.T) {
	text := strings.Replace(edge, "{ algorithm: fixed_window, limit: 3, window: 1h }", "none", 1)
	client := clientOf(t, envoy.New(harnessOf(t, text, still), envoy.Config{}))
	for range 3 {
		answer, err := client.ShouldRateLimit(t.Context(), requestOf(descriptor("user", "ann")))
		if err != nil {
			t.Fatal(err)
		}
		if s := shown(answer.Statuses[0]); s != "OK 0 left" || answer.OverallCode != ok || len(answer.ResponseHeadersToAdd) > 0 {
			t.Errorf("%s, %v", s, answer.ResponseHeadersToAdd)
		}
	}
}

// Keys that repeat, and keys with a slash, are told apart.
func TestKeysThatRepeat(t *testing.T) {
	client := clientOf(t, envoy.New(harnessOf(t, edge, still), envoy.Config{}))
	for _, tt := range []struct {
		d    *ratelimitv3.RateLimitDescriptor
		want string
	}{
		{descriptor("generic_key", "x", "generic_key", "y", "a/b", ""), "OK 0 left of twice 1/DAY for 24h0m0s"},
		{descriptor("generic_key", "y", "generic_key", "y", "a/b", "z"), "OVER_LIMIT 0 left of twice 1/DAY for 24h0m0s"},
		{descriptor("generic_key", "y", "generic_key", "z", "a/b", ""), "OK 0 left of twice 1/DAY for 24h0m0s"},
		{descriptor("generic_key", "y", "generic_key", "y", "a", "", "b", ""), "OK 0 left"},
	} {
		answer, err := client.ShouldRateLimit(t.Context(), requestOf(tt.d))
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(answer.Statuses[0]); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.d, got, tt.want)
		}
	}
}

// A request takes hits_addend units, 1 where it is not set, and a descriptor's own goes before. 0 looks, and is over the limit
// where nothing is left.
func TestHits(t *testing.T) {
	client := clientOf(t, envoy.New(harnessOf(t, edge, still), envoy.Config{}))
	set := wrapperspb.UInt64

	for i, tt := range []struct {
		whole uint32
		own   *wrapperspb.UInt64Value
		want  string
	}{
		{0, set(0), "OK 3 left"},
		{0, nil, "OK 2 left"},
		{2, set(0), "OK 2 left"},
		{5, set(1), "OK 1 left"},
		{0, set(0), "OK 1 left"},
		{2, nil, "OVER_LIMIT 1 left"},
		{0, nil, "OK 0 left"},
		{0, set(0), "OVER_LIMIT 0 left"},
	} {
		d := descriptor("user", "ann")
		d.HitsAddend = tt.own
		r := requestOf(d)
		r.HitsAddend = tt.whole
		answer, err := client.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(answer.Statuses[0]); !strings.HasPrefix(got, tt.want) {
			t.Errorf("request %d: %s, want %s", i, got, tt.want)
		}
	}
}

// What is no request, or beyond the bounds, is an error that says why, and nothing is charged.
func TestRefusals(t *testing.T) {
	client := clientOf(t, envoy.New(harnessOf(t, edge, still), envoy.Config{}))
	ann := descriptor("user", "ann")
	giveBack, much := descriptor("user", "ann"), descriptor("user", "ann")
	giveBack.IsNegativeHits = true
	much.HitsAddend = wrapperspb.UInt64(1 << 32)

	for want, r := range map[string]*rls.RateLimitRequest{
		"no domain":              {Descriptors: []*ratelimitv3.RateLimitDescriptor{ann}},
		"the domain has 257":     {Domain: strings.Repeat("d", 257), Descriptors: []*ratelimitv3.RateLimitDescriptor{ann}},
		"no descriptor":          {Domain: "edge"},
		"101 descriptors":        requestOf(slices.Repeat([]*ratelimitv3.RateLimitDescriptor{ann}, 101)...),
		"descriptor 1: ":         requestOf(ann, descriptor()),
		"33 entries":             requestOf(ann, descriptor(slices.Repeat([]string{"user", "ann"}, 33)...)),
		"over 65536 bytes":       requestOf(ann, descriptor("user", strings.Repeat("a", 65537))),
		"is_negative_hits":       requestOf(ann, giveBack),
		"hits_addend 4294967296": requestOf(ann, much),
	} {
		_, err := client.ShouldRateLimit(t.Context(), r)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "rpc error") != 1 {
			t.Errorf("%v, want %s in one status", err, want)
		}
	}

	// A header of the length that Envoy lets pass does not take its client out of the limit.
	answer, err := client.ShouldRateLimit(t.Context(), requestOf(ann, descriptor("user", strings.Repeat("a", 65536))))
	if err != nil || shown(answer.Statuses[0])[:9] != "OK 2 left" || shown(answer.Statuses[1])[:9] != "OK 2 left" {
		t.Errorf("%v %v", answer, err)
	}
}

// Limits are answered where a unit says their window, and left out else.
func TestUnits(t *testing.T) {
	for window, want := range map[string]string{
		"1s": "SECOND", "1m": "MINUTE", "1h": "HOUR", "24h": "DAY", "7d": "WEEK", "30d": "MONTH", "365d": "YEAR",
		"2m": "", "90s": "",
	} {
		text := fmt.Sprintf("version: 1\nname: u\npolicies: [{name: p, key: request.domain, "+
			"authoritative: {algorithm: fixed_window, limit: 5, window: %s}}]", window)
		s := envoy.New(harnessOf(t, text, still), envoy.Config{})
		answer, err := s.ShouldRateLimit(t.Context(), requestOf(descriptor("a", "b")))
		if err != nil {
			t.Fatal(err)
		}

		got := ""
		if l := answer.Statuses[0].CurrentLimit; l != nil {
			got = l.Unit.String()
		}
		if got != want || answer.Statuses[0].LimitRemaining != 4 {
			t.Errorf("%s: %q, want %q: %v", window, got, want, answer.Statuses[0])
		}
	}
}
