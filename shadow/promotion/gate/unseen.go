package gate

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// allHoursSeen reports whether an instance was live in every hour of the day.
func (j *judgement) allHoursSeen() bool { return len(j.unseenHours()) == 0 }

// unseenHours lists the hours of the day in which no instance was live.
func (j *judgement) unseenHours() (list []string) {
	for hour, seen := range j.seen {
		if !seen {
			list = append(list, fmt.Sprintf("%02d", hour))
		}
	}
	return list
}

// unseenWeekdays lists the weekdays in which no instance was live for half of the day, if the
// step needs them.
func (j *judgement) unseenWeekdays() (list []string) {
	if !j.cfg.asksForWeekdays(j.evidence.Step.Percent) {
		return nil
	}
	for day, seen := range j.weekdays {
		if !seen {
			list = append(list, time.Weekday(day).String())
		}
	}
	return list
}

// unseen are the obstacles of both.
func (j *judgement) unseen() (list []Obstacle) {
	if hours := j.unseenHours(); len(hours) > 0 {
		list = append(list, j.notYet(HoursUnseen, hours, int64(len(j.seen)), "hours of the day"))
	}
	if days := j.unseenWeekdays(); len(days) > 0 {
		list = append(list, j.notYet(WeekdaysUnseen, days, int64(len(j.weekdays)), "weekdays"))
	}
	return list
}

// notYet returns the obstacle of parts of the time that were not seen yet; of is how many there are in all.
func (j *judgement) notYet(kind ObstacleKind, missing []string, of int64, what string) Obstacle {
	seen := of - int64(len(missing))
	text := fmt.Sprintf("%d of %d %s seen", seen, of, what)

	// The number says more than a list of most hours.
	if len(missing) <= 12 {
		text += ", not yet " + strings.Join(missing, " ") + " (UTC)"
	}
	wait := j.untilSeen()
	if kind == WeekdaysUnseen {
		wait = j.untilWeekdays()
	}
	return counted(kind, seen, of, text+"; the last is due "+dated(atMinute(j.now+int64(wait.minutes))))
}

// untilSeen returns how long until every hour of the day was seen for half of it.
func (j *judgement) untilSeen() delay {
	d := delay{kind: HoursUnseen, of: "the hours of the day", when: "every hour of the day was seen"}
	for hour, seen := range j.seen {
		if seen {
			continue
		}

		// An hour counts as seen after its first half, and comes again within a day.
		half := int64(hour)*minutesAnHour + minutesAnHour/2
		ahead := (half - j.now%minutesADay + minutesADay) % minutesADay
		d.minutes = math.Max(d.minutes, float64(ahead))
	}
	return d
}

// untilWeekdays returns how long until every weekday was seen for half of it, if the step needs that.
func (j *judgement) untilWeekdays() delay {
	d := delay{kind: WeekdaysUnseen, of: "the weekdays", when: "every weekday was seen"}
	if len(j.unseenWeekdays()) == 0 {
		return d
	}
	now := atMinute(j.now)
	for day, seen := range j.weekdays {
		if !seen {
			ahead := (day - int(now.Weekday()) + 7) % 7
			noon := (j.now/minutesADay+int64(ahead))*minutesADay + minutesADay/2
			d.minutes = math.Max(d.minutes, float64((noon-j.now+7*minutesADay)%(7*minutesADay)))
		}
	}
	return d
}
