package retry

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Whatever fields a server sends, the time is none or positive, and a number of seconds that can be read is never shortened.
func FuzzTold(f *testing.F) {
	f.Add("30", `"default";r=0;t=30`, "1900000000", "Tue, 06 May 2031 07:08:09 GMT")
	f.Add("-1", `limit=1, remaining=0, reset=99999999999999999999`, "1900000000000", "")
	f.Add("1.999999999999", `"a\";r=0;t=1`, "2031-05-06T07:08Z", "x")
	f.Add(strings.Repeat("9", 5000), strings.Repeat(`";,`, 3000), "NaN", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, after, limit, reset, date string) {
		for _, status := range []int{429, 503, 403, 200} {
			response := answer(status)
			for name, value := range map[string]string{"Retry-After": after, "Ratelimit": limit, "X-Ratelimit-Reset": reset, "Date": date} {
				if value != "" {
					response.Header[name] = []string{value}
				}
			}

			told, refused := refusal(response)
			if told < 0 || !refused && told != 0 || status == 200 && refused {
				t.Errorf("%d: %s %t", status, told, refused)
			}
			n, err := strconv.ParseUint(after, 10, 31)
			if err == nil && status == http.StatusTooManyRequests && told < time.Duration(n)*time.Second {
				t.Errorf("told %s, and Retry-After says %d s", told, n)
			}
		}
	})
}
