package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// TokenHeader has the token in questions of proxies, whose header Authorization is their client's.
const TokenHeader = "Shadowlimit-Token"

// token is the hash of what must come with a question over TCP; nil if nothing must.
type token []byte

func tokenOf(text string) token {
	if text == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// is compares in a time that depends neither on the content nor on the length of the token.
func (t token) is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(sum[:], t) == 1
}

// admits reports whether a question may be asked. A Unix socket has its permissions, and needs no token.
func (t token) admits(r *http.Request, given string) bool {
	return t == nil || overUnix(r) || t.is(given)
}

// bearer guards pages and checks by the header Authorization.
func (t token) bearer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !t.admits(r, given) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "want the header Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// own guards the forms of proxies by a header of its own, which no policy sees. A proxy passes the status on to its client
// or makes an error of it, so the answer does not ask for a password.
func (t token) own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get(TokenHeader)
		if !t.admits(r, given) {
			http.Error(w, "want the header "+TokenHeader, http.StatusInternalServerError)
			return
		}

		r.Header.Del(TokenHeader)
		next.ServeHTTP(w, r)
	})
}
