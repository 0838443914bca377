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
