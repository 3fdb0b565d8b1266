package socket

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func guarded(t *testing.T, o Options) *Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := Listen(inner, o)
	t.Cleanup(func() { l.Close() })
	return l
}

// dialFrom connects from one of this machine's own addresses.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
	return c
}

func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is open")
}

func TestConnectionsAreBounded(t *testing.T) {
	l := guarded(t, Options{Connections: 4, PerAddress: 2, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}, Metrics: prometheus.NewRegistry()})
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	to := l.Addr().String()
	dialFrom(t, "127.0.0.2", to)
	first := <-accepted
	dialFrom(t, "127.0.0.2", to)
	<-accepted
	requireClosed(t, dialFrom(t, "127.0.0.2", to))
	dialFrom(t, "127.0.0.9", to)
	<-accepted
	dialFrom(t, "127.0.0.9", to)
	<-accepted
	requireClosed(t, dialFrom(t, "127.0.0.3", to))
	require.NoError(t, first.Close())
	require.Error(t, first.Close(), "a second close frees nothing")
	dialFrom(t, "127.0.0.2", to)
	<-accepted
	requireClosed(t, dialFrom(t, "127.0.0.3", to))
	require.NoError(t, l.Close())
	_, open := <-accepted
	require.False(t, open)
}

func TestSlowReaderIsCutOff(t *testing.T) {
	l := guarded(t, Options{Stall: 100 * time.Millisecond})
	dialFrom(t, "127.0.0.1", l.Addr().String()) // and reads nothing
	c, err := l.Accept()
	require.NoError(t, err)
	defer c.Close()
	n, err := c.Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, n, 64<<20)
}

// A reader that is slow and steady gets everything, however long that takes.
func TestSteadyReaderIsServed(t *testing.T) {
	const size = 2 << 20
	l := guarded(t, Options{Stall: time.Minute})
	reader := dialFrom(t, "127.0.0.1", l.Addr().String())
	c, err := l.Accept()
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, size))
		sent <- errors.Join(err, c.Close())
	}()
	n, err := io.Copy(io.Discard, reader)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	require.NoError(t, <-sent)
}

func TestOthersDeadlineCounts(t *testing.T) {
	l := guarded(t, Options{Stall: time.Hour})
	dialFrom(t, "127.0.0.1", l.Addr().String())
	c, err := l.Accept()
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// writePair makes a certificate of that name and its key.
func writePair(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := writePair(t, dir, "first")
	c, err := LoadCertificate(cert, key, nil)
	require.NoError(t, err)
	now := time.Now()
	require.Equal(t, "first", c.get(now).Leaf.Subject.CommonName)

	oldKey, err := os.ReadFile(key)
	require.NoError(t, err)
	writePair(t, dir, "second")
	newKey, err := os.ReadFile(key)
	require.NoError(t, err)
	later := now.Add(time.Hour)
	require.NoError(t, os.Chtimes(cert, later, later))
	require.NoError(t, os.WriteFile(key, oldKey, 0o600)) // not replaced yet
	require.Equal(t, "first", c.get(now.Add(2*lookAgain)).Leaf.Subject.CommonName)
	require.NoError(t, os.WriteFile(key, newKey, 0o600))
	require.Equal(t, "first", c.get(now.Add(2*lookAgain)).Leaf.Subject.CommonName, "not looked at for each handshake")
	require.Equal(t, "second", c.get(now.Add(4*lookAgain)).Leaf.Subject.CommonName)

	_, err = LoadCertificate(cert, filepath.Join(dir, "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOldTLSIsRefused(t *testing.T) {
	cert, key := writePair(t, t.TempDir(), "x")
	c, err := LoadCertificate(cert, key, nil)
	require.NoError(t, err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
			conn.Close()
		}
	}()
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		require.Equal(t, want, err == nil, "TLS version %x: %v", version, err)
		if err == nil {
			conn.Close()
		}
	}
}
