package serve

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// named refuses what a program on this machine asks for by the name of another one. A web page whose name its owner has made to lead to
// 127.0.0.1 (DNS rebinding) is to a browser of the same site as this server: it could read the keys of clients, and use up their budgets.
// With a token it cannot. Proxies ask with the names of their clients, and so do machines of a network by the name of this one.
func (s *Server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if s.token == nil && ok && at.IP.IsLoopback() && !ofThisMachine(r.Host) {
			http.Error(w, "shadowlimit: this server listens on this machine only, and was asked for by the name of another one: "+
				"ask for localhost or an address, or give the server a token", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ofThisMachine reports whether a Host field is an address, or a name that no web page can have.
func ofThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
