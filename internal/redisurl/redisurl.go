package redisurl

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The mistakes in a URL. No text of the URL or of a parser is shown, because any part of it may
// be a password: one with a slash in it looks like a host and the number of a database.
var (
	errNoURL  = errors.New("not a URL")
	errScheme = errors.New("its scheme is not known")
	errURL    = errors.New("the URL cannot be read: if the user or the password has one of / ? # @ : % [ ], " +
		"write it as %2F %3F %23 %40 %3A %25 %5B %5D")
	errDatabase = errors.New("after the host may follow / and the number of a database: " +
		"if the password has a /, write it as %2F")
	errAddress = errors.New("addr: want HOST:PORT, without user and password: those before the first host are used for all")
	errOption  = errors.New("an option after the ? is not known, or its value is wrong: " +
		"if the password has a ?, write it as %3F")
	errSocket = errors.New("want unix://USER:PASSWORD@/PATH?db=NUMBER: if the user or the password has a /, write it as %2F")
	errMaster = errors.New("a sentinel needs ?master_name=NAME")
)

// parsers are the forms of a URL by what follows the scheme's "+".
var parsers = map[string]func(address string) (*redis.UniversalOptions, error){
	"":         parseServer,
	"cluster":  parseCluster,
	"sentinel": parseSentinel,
}

// Parse reads the URL that --redis of a program gives. Its errors hold no text of the URL.
func Parse(address string) (*redis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return nil, errNoURL
	}
	base, kind, _ := strings.Cut(scheme, "+")
	parse := parsers[kind]
	if base != "redis" && base != "rediss" && scheme != "unix" || parse == nil {
		return nil, errScheme
	}

	// The parser would accept some texts with a part of a password as host, port or address,
	// and the errors of a dial show these.
	plain := base + "://" + rest
	u, err := url.Parse(plain)
	if err != nil || strings.Contains(rest, "#") {
		return nil, errURL
	}
	if strings.Contains(u.RawQuery, "@") && kind != "sentinel" { // a sentinel's options have a password of their own
		return nil, errOption
	}
	if base == "unix" {
		if u.Host != "" || len(u.Path) < 2 || strings.Contains(u.Path, "@") {
			return nil, errSocket
		}
	} else if database := strings.Trim(u.Path, "/"); database != "" {
		if _, err := strconv.Atoi(database); err != nil {
			return nil, errDatabase
		}
	}
	for _, addr := range u.Query()["addr"] {
		if strings.ContainsAny(addr, "@/") {
			return nil, errAddress
		}
	}

	files := cutCertificates(u)
	if files != (certificates{}) {
		plain = u.String()
	}

	options, err := parse(plain)
	switch {
	case errors.Is(err, errMaster):
		return nil, err
	case err != nil:
		return nil, errOption
	}
	return options, files.use(options)
}

// parseServer reads the URL of one server, which is at a host or at a Unix socket. A client knows the socket by its path, which begins with a /.
func parseServer(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
	}, nil
}

func parseCluster(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: o.Addrs, IsClusterMode: true, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
	}, nil
}

func parseSentinel(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseFailoverURL(address)
	if err != nil {
		return nil, err
	}
	if o.MasterName == "" {
		return nil, errMaster
	}
	return &redis.UniversalOptions{
		Addrs: o.SentinelAddrs, MasterName: o.MasterName, DB: o.DB, Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword, TLSConfig: o.TLSConfig,
	}, nil
}
