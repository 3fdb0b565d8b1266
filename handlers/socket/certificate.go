package socket

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is a certificate and its key in two PEM files, read again when either
// changes. Safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu; never nil
	seen    [2]time.Time     // guarded by mu; when the files had been changed
	looked  time.Time        // guarded by mu
}

// lookAgain is how seldom the files are looked at.
const lookAgain = time.Second

// LoadCertificate reads the two files. An error names the file, and nothing of what
// is in it.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config is what a server needs to serve HTTP/2 and HTTP/1.1 with the certificate,
// over TLS 1.2 or later.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.get(time.Now()), nil
		},
	}
}

// get is the newest certificate. While the files cannot be used, as between the
// replacement of one and of the other, it is the one before.
func (c *Certificate) get(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < lookAgain {
		return c.current
	}
	c.looked = now
	if seen, err := c.changed(); err == nil && seen == c.seen {
		return c.current
	}
	if err := c.read(); err != nil {
		c.log.Warn("the new certificate cannot be used; the one before stays in use", slog.Any("error", err))
		return c.current
	}
	c.log.Info("certificate read again", slog.String("file", c.certFile), slog.Time("notAfter", c.current.Leaf.NotAfter))
	return c.current
}

func (c *Certificate) changed() (at [2]time.Time, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return at, fmt.Errorf("looking at a file of the certificate: %w", err)
		}
		at[i] = info.ModTime()
	}
	return at, nil
}

// read needs mu, but in LoadCertificate. The times are taken first, so that a change
// meanwhile is seen the next time.
func (c *Certificate) read() error {
	seen, err := c.changed()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("reading the certificate %s and its key %s: %w", c.certFile, c.keyFile, err)
	}
	c.current, c.seen = &pair, seen
	return nil
}
