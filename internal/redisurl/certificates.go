package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/redis/go-redis/v9"
)

// Options of a URL that name files for TLS, in PEM, as the options of redis-cli do.
const (
	optionAuthority   = "cacert" // certificates of authorities, in place of the system's
	optionCertificate = "cert"   // this client's certificate
	optionKey         = "key"    // the key of that certificate
)

var (
	errNoTLS   = errors.New("cacert, cert and key need a URL that begins with rediss")
	errOneFile = errors.New("cert and key must be given together")
	errNoPEM   = errors.New("cacert: the file has no certificate in PEM")
)

// certificates are the files that a URL names, "" for a file that it does not name.
type certificates struct{ authority, certificate, key string }

// cutCertificates takes the files out of the options of a URL, because go-redis does not know them.
func cutCertificates(u *url.URL) (c certificates) {
	query := u.Query()
	for option, file := range map[string]*string{
		optionAuthority: &c.authority, optionCertificate: &c.certificate, optionKey: &c.key,
	} {
		*file = query.Get(option)
		query.Del(option)
	}

	if c != (certificates{}) {
		u.RawQuery = query.Encode()
	}
	return c
}

// use reads the files into the options of a client. An error names no file: where a password has
// a "?", its rest may stand in place of one.
func (c certificates) use(o *redis.UniversalOptions) error {
	switch {
	case c == certificates{}:
		return nil
	case o.TLSConfig == nil:
		return errNoTLS
	case (c.certificate == "") != (c.key == ""):
		return errOneFile
	}

	if c.authority != "" {
		pem, err := os.ReadFile(c.authority)
		if err != nil {
			return fmt.Errorf("%s: %w", optionAuthority, withoutPath(err))
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return errNoPEM
		}
	}

	if c.certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
		if err != nil {
			return fmt.Errorf("%s and %s: %w", optionCertificate, optionKey, withoutPath(err))
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// withoutPath returns the cause of an error of the file system, without the file's name.
func withoutPath(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return file.Err
	}
	return err
}
