package socket

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
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

// TestIdleConnectionsMakeRoom has a few clients hold all connections without a request. Others must still be served, and
// connections with a request must stay open.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	metrics := prometheus.NewRegistry()
	l := guarded(t, Options{Connections: 8, PerAddress: 4, Metrics: metrics})
	begun, busy := make(chan struct{}), make(chan struct{})
	server := &http.Server{ConnState: l.ConnState, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-busy
		}
		_, _ = io.WriteString(w, "served")
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	defer func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	}()
	to := l.Addr().String()
	ask := func(c net.Conn, path string) {
		_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: quorate\r\n\r\n")
		require.NoError(t, err)
	}
	served := func(c net.Conn) bool {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return false
		}
		body, err := io.ReadAll(response.Body)
		return err == nil && string(body) == "served"
	}
	slow := dialFrom(t, "127.0.0.2", to)
	ask(slow, "/slow")
	<-begun // until then the connection waits for a request
	for range 3 {
		idle := dialFrom(t, "127.0.0.2", to)
		ask(idle, "/")
		require.True(t, served(idle))
	}
	for range 4 { // these send nothing
		dialFrom(t, "127.0.0.3", to)
	}
	for i := range 40 {
		from := fmt.Sprintf("127.0.0.%d", 10+i)
		if i%4 == 3 {
			from = "127.0.0.2" // at its own limit: it displaces its own connections
		}
		c := dialFrom(t, from, to)
		ask(c, "/")
		require.True(t, served(c), "connection %d", i)
	}
	close(busy)
	require.True(t, served(slow), "a connection with a request stays open")
	l.mu.Lock()
	require.LessOrEqual(t, l.open, 8)
	l.mu.Unlock()
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

// A slow but steady reader gets everything, however long that takes.
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
