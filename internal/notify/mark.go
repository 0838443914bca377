package notify

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// mark is the last event of a policy that a receiver was told.
type mark struct {
	stages.Version
	at time.Time
}

// sinceMark is since when a receiver is told at all. No policy has such a name.
const sinceMark = ":since"

func alarmMark(policy string) string { return ":alarm:" + policy }

func (m mark) String() string { return fmt.Sprintf("%s %d", m.Version, m.at.UnixMicro()) }

// parseMark reads a mark; the zero mark where there is none, or garbage.
func parseMark(text string) mark {
	version, at, _ := strings.Cut(text, " ")
	v, err := stages.ParseVersion(version)
	us, failed := strconv.ParseInt(at, 10, 64)
	if err != nil || failed != nil {
		return mark{}
	}
	return mark{v, time.UnixMicro(us)}
}

// isNew reports whether the receiver was not told of a state. A policy that was forgotten begins with small versions again, so an
// instant after the mark does as well.
func (m mark) isNew(s *stages.State) bool {
	return m.Version.Before(s.Version) || s.At.Truncate(time.Microsecond).After(m.at)
}
