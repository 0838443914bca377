package shadow

import (
	"runtime"
	"runtime/debug"
)

// serviceMetrics are one series each for a service, or for each of its stores.
var serviceMetrics = []family[*collector]{
	{
		"breaker_open", "1 while a store is not asked because it failed again and again; store \"\" is the service's own.",
		gauge, []string{"store"}, func(c *collector, send sender) {
			for _, s := range c.engine.StoreHealth() {
				send(boolean(s.Open), s.Name)
			}
		},
	},
	{
		"store_errors_total", "Evaluations that a store has failed; store \"\" is the service's own.",
		counter, []string{"store"}, func(c *collector, send sender) {
			for _, s := range c.engine.StoreHealth() {
				send(float64(s.Errors), s.Name)
			}
		},
	},
	{
		"synchronization_age_seconds",
		"For how long the fleet may not know what this instance has admitted; store \"\" is synchronized with the service's own Redis.",
		gauge, []string{"store"}, func(c *collector, send sender) {
			for _, s := range c.engine.SyncHealth() {
				send(s.Age.Seconds(), s.Name)
			}
		},
	},
	{
		"synchronization_failures_total", "Exchanges of a synchronized store without an answer; they are sent again.",
		counter, []string{"store"}, func(c *collector, send sender) {
			for _, s := range c.engine.SyncHealth() {
				send(float64(s.Failed), s.Name)
			}
		},
	},
	{
		"synchronization_waiting_keys", "Keys that the last exchange of a synchronized store has left for the next one.",
		gauge, []string{"store"}, func(c *collector, send sender) {
			for _, s := range c.engine.SyncHealth() {
				send(float64(s.Waiting), s.Name)
			}
		},
	},
	{
		"synchronized_keys", "Keys that this instance holds of a synchronized store.",
		gauge, []string{"store"}, func(c *collector, send sender) {
			for _, s := range c.engine.SyncHealth() {
				send(float64(s.Keys), s.Name)
			}
		},
	},
	{
		"leader", "1 while this instance leads: it evaluates all policies, and the others show what it publishes.",
		gauge, nil, func(c *collector, send sender) { send(boolean(c.fleet.Leads())) },
	},
	{
		"notifications_failing", "1 while this instance cannot tell the receiver of moves, and tries again; absent without a receiver.",
		gauge, nil, func(c *collector, send sender) {
			if n := c.fleet.Notify; n != nil {
				send(boolean(n.Troubled()))
			}
		},
	},
	{
		"red_button_pressed", "1 while this instance enforces the authoritative whatever the stage.",
		gauge, nil, func(c *collector, send sender) {
			send(boolean(c.engine.Overruled.Load()))
		},
	},
	{
		"config_last_reload_successful", "1 if the policy file was valid when it was last read; absent for a Pair, which has no file.",
		gauge, nil, func(c *collector, send sender) {
			if c.reloads != nil {
				send(boolean(c.reloads.failed.Load() == nil))
			}
		},
	},
	{
		"config_last_reload_success_timestamp_seconds", "When the policies in use were loaded; absent for a Pair.",
		gauge, nil, func(c *collector, send sender) {
			if c.reloads != nil {
				send(float64(c.reloads.last.Load()))
			}
		},
	},
	{
		"build_info", "1; the labels are the versions of this library and of Go.",
		gauge, []string{"version", "goversion"}, func(_ *collector, send sender) {
			send(1, version, runtime.Version())
		},
	},
}

// version is this module's, as built into the program.
var version = func() string {
	const module = "github.com/shadowlimit/shadowlimit"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}

	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			return m.Version
		}
	}
	return "unknown"
}()
