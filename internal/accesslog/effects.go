package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NoEffectError is a wish that a log's format cannot fulfil, so that obeying it in silence would mislead.
type NoEffectError struct {
	Flag   string
	Format Format
	Advice string
}

// Error implements error.
func (e NoEffectError) Error() string {
	return fmt.Sprintf("%s has no effect on a log of the format %s: %s", e.Flag, e.Format, e.Advice)
}

// textFields are the fields of a line whose format knows their places. quoted.4 is the fourth text in quotes, and so on.
var textFields = []string{
	"ip", "user", "host", "method", "path", "query", "request", "status", "headers.referer", "headers.user-agent",
	"headers.x-forwarded-for", "frontend",
}

// checkEffects refuses options that have no effect on a format.
func (c Config) checkEffects(f Format) error {
	if f.ByClient() {
		const advice = "its fields have fixed places; name expressions by --key or --config"
		for _, one := range []struct{ flag, value string }{
			{"--time-field", c.Fields.Time}, {"--key-field", c.Fields.Key}, {"--cost-field", c.Fields.Cost},
		} {
			if one.value != "" {
				return NoEffectError{one.flag, f, advice}
			}
		}
		for _, from := range slices.Sorted(maps.Values(c.Map)) {
			if !slices.Contains(textFields, from) && !strings.HasPrefix(from, "quoted.") {
				return NoEffectError{"--map ..." + "=" + from, f, "its fields are " + strings.Join(textFields, ", ") + " and quoted.N"}
			}
		}
	}

	if c.TimeFormat.layout != "" && kinds[f].oneForm {
		return NoEffectError{"--time-format", f, "its times have one form"}
	}
	if c.Zone != nil && kinds[f].utc {
		return NoEffectError{"--time-zone", f, "its times are in UTC"}
	}
	return nil
}
