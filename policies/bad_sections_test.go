package policies_test

import "strings"

// badSides are mistakes in the fields of a side.
var badSides = []badFile{
	{"algorithm", side("algorithm: gcrra, limit: 1, window: 1m"), 5, 32, `no algorithm "gcrra": did you mean gcra?`},
	{
		"algorithm beside a bad limit", side("algorithm: gcrra, limit: -3, window: 1m"),
		5, 32, `no algorithm "gcrra": did you mean gcra?`,
	},
	{
		"bad limit beside an algorithm", side("algorithm: gcrra, limit: -3, window: 1m"),
		5, 46, "limit: want a whole number, at least 0",
	},
	{
		"limit that cannot be computed", side("algorithm: gcra, limit: 1000003, window: 365d"),
		5, 20, "too fine to be exact",
	},
	{"a fraction of a limit", side("algorithm: fixed_window, limit: 99.5, window: 1m"), 5, 53, "limit: want a whole number, such as 100"},
	{"a limit in the form of science", side("algorithm: fixed_window, limit: 1e3, window: 1m"), 5, 53, "limit: want a whole number"},
	{"an empty limit", side("algorithm: fixed_window, limit: , window: 1m"), 5, 53, "limit: want a whole number"},
	{"a list as a limit", side("algorithm: fixed_window, limit: [100], window: 1m"), 5, 53, "limit: want a whole number"},
	{
		"burst of a window", side("algorithm: fixed_window, limit: 1, window: 1m, burst: 2"),
		5, 75, "burst belongs to buckets",
	},
	{"limit that no number holds", side("algorithm: gcra, limit: 99999999999999999999, window: 1m"), 5, 45, "is too large"},
	{"no window", side("algorithm: gcra, limit: 1"), 5, 20, "gcra needs a window"},
	{"no limit", side("algorithm: gcra, window: 1m"), 5, 20, "gcra needs a limit"},
	{"neither", side("limit: 1, window: 1m"), 5, 20, "either an algorithm or a limiter"},
	{"a typing error in a side", side("algorithms: gcra, limit: 1, window: 1m"), 5, 21, "did you mean algorithm?"},
	{
		"an algorithm and a limiter", side("algorithm: gcra, limiter: mine, limit: 1, window: 1m"),
		5, 20, "either an algorithm or a limiter",
	},
	{"a text without end", side("algorithm: gcra, limit: 1, window: 1m, id: " + strings.Repeat("x", 1001)), 5, 64,
		"id: a text of 1001 bytes: want at most 1000"},
	{"an algorithm without a name", side("algorithm: , limit: 1, window: 1m"), 5, 32, "algorithm: want text"},
	{
		"a limit of zero of a foreign limiter", side("limiter: mine, limit: 0, window: 1m"),
		5, 20, "a limit of 0 is for our own algorithms",
	},
	{
		"a limit that is negative", side("algorithm: gcra, limit: -5, window: 1m"),
		5, 45, "limit: want a whole number, at least 0",
	},
	{
		"a limit with a fraction", side("algorithm: gcra, limit: 1.5, window: 1m"),
		5, 45, "want a whole number",
	},
	{"a limit beyond counting", side("algorithm: gcra, limit: 99999999999999999999, window: 1m"), 5, 45, "limit: "},
	{
		"a limit of another type", side("algorithm: gcra, limit: request.path, window: 1m"),
		5, 45, "of type string: want int",
	},
	{"a limit that is a list", side("algorithm: gcra, limit: [1], window: 1m"), 5, 45, "limit: want a whole number"},
	{
		"a window without a unit", side("algorithm: gcra, limit: 1, window: 60"),
		5, 56, "window: want a duration above 0",
	},
	{
		"a window of an unknown unit", side("algorithm: gcra, limit: 1, window: 1w"),
		5, 56, "window: want a duration above 0",
	},
	{"a window of nothing", side("algorithm: gcra, limit: 1, window: 0s"), 5, 56, "window: want a duration above 0"},
	{
		"a window beyond computing", side("algorithm: fixed_window, limit: 1, window: 99999d"),
		5, 20, "window must be at most",
	},
	{
		"a burst of zero", side("algorithm: gcra, limit: 1, window: 1m, burst: 0"),
		5, 67, "burst: want a whole number, at least 1",
	},
	{"a shaper without a burst", side("algorithm: leaky_bucket, limit: 1, window: 1m"), 5, 20, "burst is missing"},
	{
		"a store with a bad name", side("algorithm: gcra, limit: 1, window: 1m, store: 'a b'"),
		5, 67, "store: want 1 to 100 letters",
	},
	{"a store without sync", side("algorithm: gcra, limit: 1, window: 1m, store: { redis: a }"), 5, 67, "store: want sync"},
	{
		"an unknown field of a store", side("algorithm: gcra, limit: 1, window: 1m, store: { sinc: 1s }"),
		5, 69, "did you mean sync",
	},
	{"a sync of a foreign limiter", side("limiter: mine, store: { sync: 1s }"), 5, 20, "leave out the store"},
	{
		"an interval that is too short", side("algorithm: gcra, limit: 1, window: 1m, store: { sync: 1ms }"),
		5, 75, "sync: want a duration from 10ms to 10s",
	},
	{
		"an interval that is too long for the window", side("algorithm: gcra, limit: 1, window: 1s, store: { sync: 200ms }"),
		5, 67, "at least 10 times sync",
	},
	{
		"a synchronized log", side("algorithm: sliding_window_log, limit: 1, window: 1m, store: { sync: 1s }"),
		5, 81, "cannot be synchronized: each of its entries",
	},
	{"a store of a foreign limiter", side("limiter: mine, store: other"), 5, 20, "leave out the store"},
	{"adaptive without a rule", side("algorithm: gcra, limit: 1, window: 1m, adaptive: true"), 5, 70, "adaptive: want"},
	{"no signal", adaptiveSide("every: 30s"), 5, 70, `adaptive needs "signal"`},
	{"an unknown signal", adaptiveSide("signal: cpu"), 5, 80, "adaptive: signal: want latency_p99 or error_rate or saturation"},
	{"an error rate in seconds", adaptiveSide("signal: error_rate, target: 1s"), 5, 100, "want a percentage"},
	{"two laws", adaptiveSide("signal: latency_p99, target: 1s, levels: [{ above: 1s, limit: 50% }]"), 5, 101, "either levels"},
	{"a floor of steps", adaptiveSide("signal: latency_p99, floor: 50%"), 5, 100, "floor belongs to a target"},
	{"a floor of everything", adaptiveSide("signal: latency_p99, target: 1s, floor: 100%"), 5, 112, "from 2% to 99%"},
	{"a target in another unit", adaptiveSide("signal: latency_p99, target: 50%"), 5, 101, "want a duration above 0"},
	{"a target of hours", adaptiveSide("signal: latency_p99, target: 1h"), 5, 101, "want 2ms to 2m"},
	{"a target below a bucket", adaptiveSide("signal: latency_p99, target: 1ms"), 5, 101, "want 2ms to 2m"},
	{"a saturation in seconds", adaptiveSide("signal: saturation, target: 1s"), 5, 100, "want a percentage"},
	{"levels that rise", adaptiveSide("signal: latency_p99, levels: [{ above: 1s, limit: 25% }, { above: 2s, limit: 50% }]"),
		5, 129, "a smaller limit than the one before"},
	{"no levels", adaptiveSide("signal: latency_p99, levels: []"), 5, 101, "want 1 to 8"},
	{"a share of nothing", adaptiveSide("signal: error_rate, target: 0.00001%"), 5, 100, "from 0.0001% on"},
	{"changes too often", adaptiveSide("signal: latency_p99, every: 5s"), 5, 100, "want 20s to 1h"},
	{"an adaptive foreign limiter", side("limiter: mine, adaptive: { signal: latency_p99 }"), 5, 46, "for our own algorithms"},
	{
		"an adaptive limit of an expression", side("algorithm: gcra, limit: request.size, window: 1m, adaptive: { signal: latency_p99 }"),
		5, 81, "for a limit that an expression gives",
	},
}

// badPromotion are mistakes in a promotion section.
var badPromotion = []badFile{
	{"threshold without a sign", promotion("divergence: 0.02"), 6, 29, "want a percentage"},
	{"threshold of everything", promotion("newly_denied: 100%"), 6, 31, "below 100%"},
	{"a canary without signs", promotion("canary: [5, 25]"), 6, 26, "canary: want rising percentages"},
	{"falling canary", promotion("canary: [10%, 5%]"), 6, 31, "rising percentages"},
	{"seconds of soak", promotion("soak: 90s"), 6, 23, "whole minutes"},
	{"mode", promotion("mode: auto"), 6, 23, "want manual or automatic"},
	{
		"zone", promotion("change_window: {days: [mon], from: '9:00', to: '10:00', zone: Mars}"),
		6, 79, `no time zone "Mars"`,
	},
	{
		"an expected difference without an end",
		promotion("expected: [{when: 'true', direction: newly_denied, owner: a}]"),
		6, 28, `an expected difference needs "until"`,
	},
	{
		"an expected difference of an unknown direction",
		promotion("expected: [{when: 'true', direction: worse, until: 2999-01-01, owner: a}]"),
		6, 54, "want newly_denied or newly_allowed",
	},
	{
		"a bad end", promotion("expected: [{when: 'true', direction: newly_denied, until: soon, owner: a}]"),
		6, 75, "such as 2027-03-31",
	},
	{
		"a typing error in an expected condition",
		promotion("expected: [{when: request.usr == '', direction: newly_denied, until: 2999-01-01, owner: a}]"),
		6, 35, "did you mean request.user?",
	},
	{"a typing error in promotion", promotion("soaks: 48h"), 6, 17, "did you mean soak?"},
	{
		"a typing error in a change window", promotion("change_window: {day: [mon], from: '9:00', to: '10:00'}"),
		6, 33, "did you mean days?",
	},
	{"a negative threshold", promotion("divergence: -2%"), 6, 29, "want a percentage"},
	{"no canary step", promotion("canary: []"), 6, 25, "canary: want at least one step"},
	{"a canary step over all", promotion("canary: [10%, 110%]"), 6, 31, "rising percentages"},
	{"no denials needed", promotion("min_denials: 0"), 6, 30, "min_denials: want a whole number, at least 1"},
	{
		"an unknown day", promotion("change_window: {days: [monday], from: '9:00', to: '10:00'}"),
		6, 40, "days: want some of",
	},
	{"no day", promotion("change_window: {days: [], from: '9:00', to: '10:00'}"), 6, 39, "days: want at least one"},
	{
		"a time of day beyond 24:00", promotion("change_window: {days: [mon], from: '25:00', to: '10:00'}"),
		6, 52, "from: want a time of day",
	},
	{
		"a change window that ends before it begins", promotion("change_window: {days: [mon], from: '11:00', to: '10:00'}"),
		6, 32, "must be later",
	},
	{
		"a change window that ends at midnight", promotion("change_window: {days: [mon], from: '22:00', to: '00:00'}"),
		6, 32, "must be later in the day than \"from\"; midnight at its end is \"24:00\"",
	},
	{
		"a change window without a length", promotion("change_window: {days: [mon], from: '00:00', to: '00:00'}"),
		6, 32, "must be later",
	},
	{"a change window without an end", promotion("change_window: {days: [mon], from: '11:00'}"), 6, 32, `needs "to"`},
}

// adaptiveSide is a file whose authoritative has an adaptive limit.
func adaptiveSide(fields string) string {
	return side("algorithm: gcra, limit: 1, window: 1m, adaptive: { " + fields + " }")
}
