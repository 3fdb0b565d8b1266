package socket

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is a certificate and its private key in two PEM files, which are read again when either changes. It is
// safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu; never nil
	seen    [2]time.Time     // guarded by mu; the files' modification times
	looked  time.Time        // guarded by mu
}

// lookAgain is the minimum time between two checks of the files.
const lookAgain = time.Second

// LoadCertificate reads the two files. An error names the file and omits its content.
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

// Config returns the TLS configuration of a server: HTTP/2 and HTTP/1.1 over TLS 1.2 or later.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.get(time.Now()), nil
		},
	}
}

// NotAfter returns when the newest certificate expires.
func (c *Certificate) NotAfter() time.Time { return c.get(time.Now()).Leaf.NotAfter }

// get returns the newest certificate. While the files do not match, for example between their replacements, it returns
// the previous one.
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

// read requires mu except in LoadCertificate. It reads the modification times first, so that the next check sees a
// change during the read.
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
