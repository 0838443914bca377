package doctor

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// reply is an error of a server, as go-redis returns it.
type reply string

func (r reply) Error() string { return string(r) }

func (r reply) RedisError() {}

// A server that answers with an error may be of another kind than its address says.
func TestDiagnoseNamesAWrongAddress(t *testing.T) {
	for text, want := range map[string]string{
		"ERR DB index is out of range":                           "smaller database",
		"ERR This instance has cluster support disabled":         "no cluster: write redis://",
		"ERR unknown command 'sentinel', with args beginning":    "no sentinel: write redis://",
		"LOADING Redis is loading the dataset in memory":         "wait until it has loaded",
		"ERR SELECT is not allowed in cluster mode":              "leave out the /",
		"NOAUTH Authentication required.":                        "user and password",
		"MASTERDOWN Link with MASTER is down and replica-serve-": "that of the primary",
		"ERR something new":                                      "log of that server",
	} {
		if _, fix := Diagnose(reply(text)); !strings.Contains(fix, want) {
			t.Errorf("%s: %q, want %q", text, fix, want)
		}
	}
}

// Of a server that is silent the outage comes first, and the address after it.
func TestDiagnoseOfSilenceNamesTheOutageFirst(t *testing.T) {
	_, fix := Diagnose(errors.New("dial tcp: connection refused"))
	outage, address := strings.Index(fix, "this is the outage and not your address"), strings.Index(fix, "check that --redis")
	if outage < 0 || address < outage || !strings.Contains(fix, "/status?format=text") {
		t.Error(fix)
	}
}

// An address that leads nowhere, or to another kind of server, is no outage.
func TestDiagnoseOfAnAddressThatIsNoRedis(t *testing.T) {
	for want, err := range map[string]error{
		"check the host": &net.DNSError{Err: "no such host", IsNotFound: true},
		"check the port": errors.New(`redis: can't parse map reply: "HTTP/1.1 400 Bad Request"`),
	} {
		if _, fix := Diagnose(err); !strings.Contains(fix, want) {
			t.Errorf("%v: %q, want %q", err, fix, want)
		}
	}
}
