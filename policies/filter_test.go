package policies_test

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A condition decides alike with its filters and without them.
func TestFiltersAgreeWithCEL(t *testing.T) {
	conditions := []string{
		"request.method == 'GET'",
		"'GET' == request.method",
		"request.method in ['GET', 'PUT']",
		"request.path in []",
		"request.route.startsWith('/v1')",
		"request.method == 'GET' && request.route.startsWith('/v1/') && request.host != 'x'",
		"request.method == 'GET' || request.host == 'a'",
		"!(request.method == 'GET')",
		"request.method == 'GET' && request.headers['none'] == 'x'",
		"(request.method == 'GET') == (request.host == 'a')",
		"request.host == request.method",
	}

	for _, condition := range conditions {
		// In the second form no filter can be found.
		plain := loadPolicy(t, onePolicy("key: request.user\n    when: \""+condition+"\""))
		hidden := loadPolicy(t, onePolicy("key: request.user\n    when: \"("+condition+") ? true : false\""))

		for _, r := range requestsToFilter() {
			_, want, wantErr := hidden.Check(t.Context(), &r)
			_, got, gotErr := plain.Check(t.Context(), &r)

			// A filter that does not hold hides a failure: "false && failure" is false.
			if got != want || gotErr != nil && wantErr == nil {
				t.Errorf("%s of %s %s %s: %v %v, want %v %v",
					condition, r.Method, r.Route, r.Host, got, gotErr, want, wantErr)
			}
		}
	}
}

func requestsToFilter() (list []policies.Request) {
	for _, method := range []string{"GET", "PUT", ""} {
		for _, route := range []string{"/v1/a", "/v1", "/v2"} {
			for _, host := range []string{"a", "x"} {
				list = append(list, policies.Request{Method: method, Route: route, Path: route, Host: host})
			}
		}
	}
	return list
}
