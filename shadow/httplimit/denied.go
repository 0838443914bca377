package httplimit

import (
	"encoding/json"
	"net/http"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// tooManyRequests is the default OnDenied.
func tooManyRequests(w http.ResponseWriter, _ *http.Request, _ shadow.Decision) {
	http.Error(w, "too many requests", http.StatusTooManyRequests)
}

// quotaExceeded is the problem type of the drafts of RateLimit header fields for HTTP.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// problem is the object of RFC 9457 with the extension of the drafts.
type problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	ViolatedPolicies []string `json:"violated-policies"`
}

// Problem is an OnDenied that answers 429 with application/problem+json, as in RFC 9457: the type quota-exceeded and
// the name of the policy that denies.
func Problem(w http.ResponseWriter, _ *http.Request, d shadow.Decision) {
	body, err := json.Marshal(problem{
		Type:             quotaExceeded,
		Title:            "The quota for these requests is used up",
		Status:           http.StatusTooManyRequests,
		ViolatedPolicies: []string{d.Policy},
	})
	if err != nil { // impossible: texts and a number always have a JSON form
		panic(err)
	}

	// As http.Error does: a browser must not guess another type from the body.
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(append(body, '\n'))
}
