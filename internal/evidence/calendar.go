package evidence

// Evidence is counted in minutes, hours and days from the Unix epoch, whatever the time zone.
const (
	SecondsPerMinute = 60
	MinutesPerHour   = 60
	HoursPerDay      = 24

	MinutesPerDay  = HoursPerDay * MinutesPerHour
	SecondsPerHour = MinutesPerHour * SecondsPerMinute
	SecondsPerDay  = HoursPerDay * SecondsPerHour
)
