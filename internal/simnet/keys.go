package simnet

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"time"

	blst "github.com/supranational/blst/bindings/go"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
)

// draw derives 32 bytes from a seed, a purpose and a number.
func draw(seed uint64, purpose string, n uint64) [32]byte {
	b := binary.BigEndian.AppendUint64(nil, seed)
	b = binary.BigEndian.AppendUint64(b, n)
	return sha256.Sum256(append(b, purpose...))
}

// identity is a validator's TLS certificate. The same seed gives the same identity.
type identity struct {
	tls    tls.Certificate
	cert   *staking.Certificate
	nodeID ids.NodeID
}

// repeatable signs without randomness (RFC 6979), so that certificates and node IDs are the
// same in each run.
type repeatable struct{ *ecdsa.PrivateKey }

func (r repeatable) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return r.PrivateKey.Sign(nil, digest, opts)
}

func newIdentity(seed uint64, i int) (*identity, error) {
	secret := draw(seed, "tls", uint64(i))
	secret[0] &= 0x7f // below the order of the curve
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret[:])
	if err != nil {
		return nil, fmt.Errorf("making the TLS key of validator %d: %w", i, err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(0),
		NotBefore:             time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), repeatable{key})
	if err != nil {
		return nil, fmt.Errorf("making the certificate of validator %d: %w", i, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of validator %d: %w", i, err)
	}
	cert, err := staking.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of validator %d: %w", i, err)
	}
	return &identity{
		tls:    tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		cert:   cert,
		nodeID: ids.NodeIDFromCert(cert),
	}, nil
}

// progression is the arithmetic progression first + i*step of all BLS secret keys. It makes
// signatures of all validators cheap: if H is the hash of a message, the signature of
// validator i is first*H + i*(step*H), and only the small multiple differs. The signatures
// are valid BLS signatures.
type progression struct {
	first, step *big.Int
}

// order is the order of the groups of BLS12-381.
var order, _ = new(big.Int).SetString("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001", 16)

func newProgression(seed uint64) progression {
	first, step := draw(seed, "bls first", 0), draw(seed, "bls step", 0)
	return progression{
		first: new(big.Int).Mod(new(big.Int).SetBytes(first[:]), order),
		step:  new(big.Int).Mod(new(big.Int).SetBytes(step[:]), order),
	}
}

func (p progression) signer(i int) (*localsigner.LocalSigner, error) {
	secret := new(big.Int).Mul(p.step, big.NewInt(int64(i)))
	secret.Add(secret, p.first).Mod(secret, order)
	signer, err := localsigner.FromBytes(secret.FillBytes(make([]byte, 32)))
	if err != nil {
		return nil, fmt.Errorf("making the BLS key of validator %d: %w", i, err)
	}
	return signer, nil
}

// sign returns the compressed signatures of the first n validators on a message. It needs
// one addition for each and one inversion for all.
func (p progression) sign(message []byte, n int) [][]byte {
	hash := blst.HashToG2(message, bls.CiphersuiteSignature.Bytes())
	points := make(blst.P2s, n)
	points[0] = *times(hash, p.first)
	if n > 1 {
		step := times(hash, p.step)
		for i := range points[1:] {
			points[i+1] = points[i]
			points[i+1].AddAssign(step)
		}
	}
	signatures := make([][]byte, n)
	for i, affine := range points.ToAffine() {
		signatures[i] = affine.Compress()
	}
	return signatures
}

func times(point *blst.P2, n *big.Int) *blst.P2 {
	scalar := n.FillBytes(make([]byte, 32))
	for i, j := 0, 31; i < j; i, j = i+1, j-1 { // blst expects little-endian
		scalar[i], scalar[j] = scalar[j], scalar[i]
	}
	return point.Mult(scalar, 255)
}
