package p2p

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
)

func TestIdentityIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	_, first, err := loadIdentity(dir)
	require.NoError(t, err)
	_, second, err := loadIdentity(dir)
	require.NoError(t, err)
	require.Equal(t, first, second, "node ID after a restart")
	for _, name := range []string{certFile, keyFile} {
		info, err := os.Stat(filepath.Join(dir, identityDir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but the identity is left in the folder")
}

func TestReadableKeysAreNamed(t *testing.T) {
	dir := t.TempDir()
	start := func() string {
		var logged bytes.Buffer
		_, err := New(Config{NetworkID: testNetworkID, Dir: dir, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		return logged.String()
	}
	require.NotContains(t, start(), "other users")
	require.NotContains(t, start(), "other users")
	require.NoError(t, os.Chmod(filepath.Join(dir, identityDir, keyFile), 0o640))
	logged := start()
	require.Contains(t, logged, "other users can read a private key; make its mode 0600")
	require.Contains(t, logged, keyFile)
	require.NotContains(t, logged, signerFile)
}

func TestBLSKeyIsKeptAndProven(t *testing.T) {
	dir := t.TempDir()
	proof := func() *signer.ProofOfPossession {
		n, err := New(Config{NetworkID: testNetworkID, Dir: dir})
		require.NoError(t, err)
		return n.Proof()
	}
	first := proof()
	require.NoError(t, first.Verify())
	require.Equal(t, first.PublicKey, proof().PublicKey, "key after a restart")
	name := filepath.Join(dir, identityDir, signerFile)
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	key, err := localsigner.FromFile(name) // as avalanchego reads it
	require.NoError(t, err)
	require.Equal(t, first.PublicKey[:], bls.PublicKeyToCompressedBytes(key.PublicKey()))
	entries, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing else is left in the folder")

	require.NoError(t, os.WriteFile(name, []byte("garbage"), 0o600))
	_, err = New(Config{NetworkID: testNetworkID, Dir: dir})
	require.ErrorIs(t, err, ErrIdentity)
	require.ErrorContains(t, err, "restore "+name)
	kept, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "garbage", string(kept))
}

func TestIdentityWithoutFolderIsNew(t *testing.T) {
	_, first, err := loadIdentity("")
	require.NoError(t, err)
	_, second, err := loadIdentity("")
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

func TestConcurrentFirstStarts(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	got := make([]ids.NodeID, 8)
	for i := range got {
		wg.Go(func() {
			_, nodeID, err := loadIdentity(dir)
			if err != nil {
				t.Error(err)
			}
			got[i] = nodeID
		})
	}
	wg.Wait()
	for _, nodeID := range got {
		require.Equal(t, got[0], nodeID)
	}
}

func TestCorruptIdentityIsAnErrorAndStays(t *testing.T) {
	other := t.TempDir()
	_, _, err := loadIdentity(other)
	require.NoError(t, err)
	otherKey, err := os.ReadFile(filepath.Join(other, identityDir, keyFile))
	require.NoError(t, err)

	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, place string)
	}{
		{"no key", func(t *testing.T, place string) { require.NoError(t, os.Remove(filepath.Join(place, keyFile))) }},
		{"no certificate", func(t *testing.T, place string) { require.NoError(t, os.Remove(filepath.Join(place, certFile))) }},
		{"empty folder", func(t *testing.T, place string) {
			require.NoError(t, os.Remove(filepath.Join(place, keyFile)))
			require.NoError(t, os.Remove(filepath.Join(place, certFile)))
		}},
		{"empty key", func(t *testing.T, place string) { put(t, place, keyFile, nil) }},
		{"garbage", func(t *testing.T, place string) { put(t, place, certFile, []byte("garbage")) }},
		{"key of another certificate", func(t *testing.T, place string) { put(t, place, keyFile, otherKey) }},
		{"key that peers refuse", func(t *testing.T, place string) {
			cert, key := p384(t)
			put(t, place, certFile, cert)
			put(t, place, keyFile, key)
		}},
		{"file instead of the folder", func(t *testing.T, place string) {
			require.NoError(t, os.RemoveAll(place))
			require.NoError(t, os.WriteFile(place, nil, 0o600))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			_, _, err := loadIdentity(dir)
			require.NoError(t, err)
			place := filepath.Join(dir, identityDir)
			tc.spoil(t, place)
			before := snapshot(t, dir)
			_, err = New(Config{NetworkID: testNetworkID, Dir: dir})
			require.ErrorIs(t, err, ErrIdentity)
			require.ErrorContains(t, err, place, "says where")
			require.ErrorContains(t, err, "restore", "says what to do")
			require.Equal(t, before, snapshot(t, dir), "files afterwards")
		})
	}
}

func put(t *testing.T, place, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(place, name), data, 0o600))
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}))
	return files
}

// p384 is a valid TLS identity on a curve that avalanchego does not accept.
func p384(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
