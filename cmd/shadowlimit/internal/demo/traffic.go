package demo

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/sample"
)

// request is one request of the bundled log.
type request struct {
	at     time.Time
	client string
}

// andAgain adds the first hours of the traffic once more, four days later: all keys come to the candidate after the log's end.
func andAgain(requests []request) []request {
	const later, hours = 4 * 24 * time.Hour, 36 * time.Hour
	list := slices.Clone(requests)
	for _, r := range requests {
		if r.at.Sub(requests[0].at) < hours {
			list = append(list, request{r.at.Add(later), r.client})
		}
	}
	return list
}

// readTraffic returns the requests of the bundled log in the order of time.
func readTraffic() ([]request, error) {
	var list []request
	_, err := accesslog.Read(bytes.NewReader(sample.Log()), "bundled log", accesslog.Config{}, func(e accesslog.Event) error {
		list = append(list, request{time.UnixMicro(e.At).UTC(), string(e.Key)})
		return nil
	})

	slices.SortStableFunc(list, func(a, b request) int { return cmp.Compare(a.at.UnixMicro(), b.at.UnixMicro()) })
	return list, err
}
