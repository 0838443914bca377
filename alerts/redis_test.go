package alerts_test

import (
	"strings"
	"testing"
)

// TestCommandsHaveTheirRedis holds that an alert whose command needs Redis says so: it is read where no runbook is open.
func TestCommandsHaveTheirRedis(t *testing.T) {
	for _, a := range readAlerts(t) {
		text := a.Annotations["description"]
		if strings.Contains(text, "--name") && !strings.HasSuffix(text, needsRedis) && !strings.Contains(text, "--redis") {
			t.Errorf("%s %s: its commands need Redis, so its description ends with %q", a.Alert, a.Labels["severity"], needsRedis)
		}
	}
}

// needsRedis is said by the alerts with commands.
const needsRedis = " Commands need SHADOWLIMIT_REDIS, the URL of the service's Redis."
