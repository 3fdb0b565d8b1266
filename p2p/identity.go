package p2p

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
)

// ErrIdentity is the error of New for an unusable identity on disk. New never replaces it,
// because peers may know the service by its node ID.
var ErrIdentity = errors.New("unusable identity")

const (
	identityDir = "identity"
	certFile    = "staker.crt"
	keyFile     = "staker.key"
	signerFile  = "signer.key"
)

// loadIdentity reads the TLS certificate and key of dir, which have the names and encoding
// of an avalanchego node's, or creates them if there are none. With an empty dir it creates
// new ones that are not saved. The node ID is the hash of the certificate.
func loadIdentity(dir string) (*tls.Certificate, ids.NodeID, error) {
	if dir == "" {
		cert, err := staking.NewTLSCert()
		if err != nil {
			return nil, ids.EmptyNodeID, fmt.Errorf("creating an identity: %w", err)
		}
		nodeID, err := nodeIDOf(cert)
		return cert, nodeID, err
	}
	place := filepath.Join(dir, identityDir)
	if _, err := os.Stat(place); errors.Is(err, fs.ErrNotExist) {
		if err := createIdentity(dir); err != nil {
			return nil, ids.EmptyNodeID, fmt.Errorf("creating an identity in %s: %w", place, err)
		}
	}
	cert, nodeID, err := readIdentity(place)
	if err != nil {
		return nil, ids.EmptyNodeID, fmt.Errorf(
			"%w in %s: %w; restore %s and %s from a backup, or move the folder away to get a new identity (and node ID) at the next start",
			ErrIdentity, place, err, certFile, keyFile)
	}
	return cert, nodeID, nil
}

func readIdentity(place string) (*tls.Certificate, ids.NodeID, error) {
	certPEM, err := os.ReadFile(filepath.Join(place, certFile))
	if err != nil {
		return nil, ids.EmptyNodeID, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(place, keyFile))
	if err != nil {
		return nil, ids.EmptyNodeID, err
	}
	cert, err := staking.LoadTLSCertFromBytes(keyPEM, certPEM)
	if err != nil {
		return nil, ids.EmptyNodeID, err
	}
	nodeID, err := nodeIDOf(cert)
	return cert, nodeID, err
}

// warnOfReaders logs a warning for each private key in dir that other users can read.
func warnOfReaders(dir string, log *slog.Logger) {
	if dir == "" {
		return
	}
	for _, name := range []string{keyFile, signerFile} {
		file := filepath.Join(dir, identityDir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn("other users can read a private key; make its mode 0600", slog.String("file", file), slog.String("mode", info.Mode().Perm().String()))
		}
	}
}

// nodeIDOf checks that peers accept cert and returns its node ID.
func nodeIDOf(cert *tls.Certificate) (ids.NodeID, error) {
	parsed, err := staking.ParseCertificate(cert.Leaf.Raw)
	if err != nil {
		return ids.EmptyNodeID, err
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}}
	if err := peer.ValidateCertificate(state); err != nil {
		return ids.EmptyNodeID, err
	}
	return ids.NodeIDFromCert(parsed), nil
}

// createIdentity creates both files atomically. If a second process does the same
// concurrently, one of them wins.
func createIdentity(dir string) error {
	certPEM, keyPEM, err := staking.NewCertAndKeyBytes()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(dir, identityDir+"-*.tmp") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft) //nolint:errcheck // a leftover draft is harmless
	if err := writeFile(filepath.Join(draft, keyFile), keyPEM); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(draft, certFile), certPEM); err != nil {
		return err
	}
	place := filepath.Join(dir, identityDir)
	if err := os.Rename(draft, place); err != nil {
		if _, statErr := os.Stat(place); statErr == nil {
			return nil // the other process won
		}
		return err
	}
	return syncDir(dir)
}

// loadSigner reads the BLS key of the identity in dir, or creates one if there is none.
// With an empty dir it creates a new one that is not saved. Connections do not depend on
// it: peers check it for registered validators only (avalanchego, network/peer).
func loadSigner(dir string) (bls.Signer, error) {
	if dir == "" {
		return localsigner.New()
	}
	name := filepath.Join(dir, identityDir, signerFile)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if err := createSigner(name); err != nil {
			return nil, fmt.Errorf("creating the BLS key %s: %w", name, err)
		}
	}
	key, err := localsigner.FromFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; restore %s from a backup, or move it away to get a new one at the next start", ErrIdentity, err, name)
	}
	return key, nil
}

// createSigner creates the file atomically. If a second process does the same concurrently,
// one of them wins.
func createSigner(name string) error {
	key, err := localsigner.New()
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	draft, err := os.MkdirTemp(dir, signerFile+"-*.tmp") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft) //nolint:errcheck // a leftover draft is harmless
	if err := writeFile(filepath.Join(draft, signerFile), key.ToBytes()); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(draft, signerFile), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// writeFile writes and syncs a new file that only its owner can read.
func writeFile(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir syncs a rename in dir.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
