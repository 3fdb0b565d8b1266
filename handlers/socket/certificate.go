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
	log *slog.Logger

	mu      sync.Mutex
	files   [2]string        // guarded by mu; of the certificate and of its key
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
	c := &Certificate{log: log}
	if err := c.read([2]string{certFile, keyFile}); err != nil {
		return nil, err
	}
	return c, nil
}

// Replace reads two other files and uses them from now on. After an error the files before stay in use.
func (c *Certificate) Replace(certFile, keyFile string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read([2]string{certFile, keyFile})
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
	if seen, err := changed(c.files); err == nil && seen == c.seen {
		return c.current
	}
	if err := c.read(c.files); err != nil {
		c.log.Warn("the new certificate cannot be used; the one before stays in use", slog.Any("error", err))
		return c.current
	}
	c.log.Info("certificate read again", slog.String("file", c.files[0]), slog.Time("notAfter", c.current.Leaf.NotAfter))
	return c.current
}

// changed returns when the files were modified.
func changed(files [2]string) (at [2]time.Time, err error) {
	for i, name := range files {
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
func (c *Certificate) read(files [2]string) error {
	seen, err := changed(files)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		return fmt.Errorf("reading the certificate %s and its key %s: %w", files[0], files[1], err)
	}
	c.current, c.seen, c.files = &pair, seen, files
	return nil
}
