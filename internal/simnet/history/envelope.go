package history

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
)

// envelopeKind is the kind of envelope of a block.
type envelopeKind uint8

const (
	noEnvelope envelopeKind = iota
	// signedEnvelope is the form before epochs, epochEnvelope the form with epochs (ACP-181). unsignedEnvelope has no
	// proposer.
	signedEnvelope
	epochEnvelope
	unsignedEnvelope
	// optionEnvelope is the envelope of the block that follows a proposal.
	optionEnvelope
)

// envelopeOf draws the envelope of a chain's next block.
func (g *Generator) envelopeOf(c Chain) envelopeKind {
	switch {
	case c == P && g.tips[P].height < bare, c == C && g.tips[C].height < bare/2:
		return noEnvelope
	case g.legacy.left > 0:
		return signedEnvelope
	case g.chance(0.04):
		return unsignedEnvelope
	}
	return epochEnvelope
}

// proposers is the number of identities that sign envelopes.
const proposers = 8

// Sealer wraps blocks in their envelopes. It is not safe for concurrent use, but may run in another goroutine than the
// generator.
type Sealer struct {
	chainIDs [chains]ids.ID
	signers  []identity
	last     [chains]ids.ID
	height   uint64 // P-Chain height
}

// identity signs deterministically (RFC 6979), so that envelopes are reproducible.
type identity struct {
	*ecdsa.PrivateKey
	cert *staking.Certificate
}

func (i identity) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return i.PrivateKey.Sign(nil, digest, opts)
}

// NewSealer returns a sealer for a generator's blocks. It must seal all blocks from the first one on.
func NewSealer(g *Generator) (*Sealer, error) {
	s := &Sealer{chainIDs: g.network.chainIDs}
	for i := range uint64(proposers) {
		one, err := newIdentity(g.o.Seed, i)
		if err != nil {
			return nil, fmt.Errorf("making a proposer: %w", err)
		}
		s.signers = append(s.signers, one)
	}
	return s, nil
}

func newIdentity(seed, i uint64) (identity, error) {
	secret := draw(seed, "proposer", i)
	secret[0] &= 0x7f // below the order of the curve
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret[:])
	if err != nil {
		return identity{}, err
	}
	one := identity{PrivateKey: key}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(0),
		NotBefore:             time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), one)
	if err != nil {
		return identity{}, err
	}
	one.cert, err = staking.ParseCertificate(der)
	return one, err
}

// Seal sets the container of a block. Blocks must be sealed in order.
func (s *Sealer) Seal(b *Block) error {
	if b.Early {
		return nil // vertices and transactions have no envelopes
	}
	if b.Chain == P {
		s.height = b.Height
	}
	if b.Height == 0 || b.envelope == noEnvelope {
		if b.Height > 0 {
			b.Container, b.ContainerID = b.Bytes, b.ID
		}
		s.last[b.Chain] = b.ID
		return nil
	}
	parent, chainID := s.last[b.Chain], s.chainIDs[b.Chain]
	var made proposer.Block
	var err error
	height := s.height - min(s.height, 1)
	switch b.envelope {
	case optionEnvelope:
		made, err = proposer.BuildOption(parent, b.Bytes)
	case unsignedEnvelope:
		made, err = proposer.BuildUnsigned(parent, b.Time, height, epochAt(height, b.Time), b.Bytes)
	default:
		signer := s.signers[b.Height%proposers]
		var epoch proposer.Epoch
		if b.envelope == epochEnvelope {
			epoch = epochAt(height, b.Time)
		}
		made, err = proposer.Build(parent, b.Time, height, epoch, signer.cert, b.Bytes, chainID, signer)
	}
	if err != nil {
		return fmt.Errorf("an envelope: %w", err)
	}
	b.Container, b.ContainerID = made.Bytes(), made.ID()
	s.last[b.Chain] = b.ContainerID
	return nil
}

func epochAt(height uint64, at time.Time) proposer.Epoch {
	return proposer.Epoch{PChainHeight: height - min(height, height%100), Number: 1 + height/100, StartTime: at.Unix()}
}
