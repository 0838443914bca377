package shadow_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A service refuses to start with a field that it would not carry out.
func TestSettleIsRefused(t *testing.T) {
	set, err := policies.LoadFile("../examples/policies/failed-logins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shadow.New(shadow.Config{Policies: set}); err == nil || !strings.Contains(err.Error(), "settle") {
		t.Errorf("%v", err)
	}
}
