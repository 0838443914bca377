package serve

import (
	"crypto/tls"
	"sync"
	"time"
)

// reloadEvery is how soon a renewed certificate is used.
const reloadEvery = time.Minute

// Certificate is a certificate whose files may be renewed while the server runs.
type Certificate struct {
	cert, key string

	mu   sync.Mutex // a handshake is slow beside it
	used *tls.Certificate
	next time.Time // when the files are read again
}

// LoadCertificate reads a certificate and its key, in PEM.
func LoadCertificate(cert, key string) (*Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &Certificate{cert: cert, key: key, used: &pair, next: time.Now().Add(reloadEvery)}, nil
}

// Get returns the certificate of the files. It is a tls.Config's GetCertificate. Files that do not fit, because only one
// of them is renewed yet, leave the one in use as it is.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if now := time.Now(); !now.Before(c.next) {
		c.next = now.Add(reloadEvery)
		if pair, err := tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.used = &pair
		}
	}
	return c.used, nil
}
