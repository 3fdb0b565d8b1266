// Package envelope extracts blocks of any chain from their proposer envelopes (avalanchego vms/proposervm/block).
package envelope

import (
	"encoding/binary"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
)

// Envelope is the proposer envelope of a block.
type Envelope struct {
	// ID identifies the envelope. ParentID identifies the parent envelope.
	ID, ParentID ids.ID
	// Time and PChainHeight are zero for the envelopes of options.
	Time         time.Time
	PChainHeight uint64
	// Block is the enclosed block. It refers to the envelope's bytes.
	Block []byte

	// Proposer is the node that signed the envelope. It is empty if the envelope is not signed.
	Proposer ids.NodeID
}

// Open parses an envelope. It returns false if b is not an envelope. Like the node, it takes everything that parses as
// an envelope for one. It does not verify signatures.
func Open(b []byte) (Envelope, bool) {
	wrapped, err := proposer.ParseWithoutVerification(b)
	if err != nil {
		return Envelope{}, false
	}
	e := Envelope{ID: wrapped.ID(), ParentID: wrapped.ParentID(), Block: wrapped.Block()}
	if signed, ok := wrapped.(proposer.SignedBlock); ok {
		e.Time, e.PChainHeight, e.Proposer = signed.Timestamp().UTC(), signed.PChainHeight(), signed.Proposer()
	}
	return e, true
}

// Type IDs of signed envelopes.
const (
	typeBlock   = 0
	typeGranite = 2 // with an epoch (ACP-181)
)

// BeforeCertificate is the number of bytes before the certificate in a signed envelope: version and type, parent ID,
// time, P-Chain height, and the big-endian length of the certificate.
const BeforeCertificate = 2 + 4 + 32 + 8 + 8 + 4

// Certificate returns the range of the proposer's certificate in b. It returns false if b does not begin like a signed
// envelope. It checks neither the certificate nor the bytes after it. A certificate always begins at BeforeCertificate.
func Certificate(b []byte) (from, to int, ok bool) {
	if len(b) < BeforeCertificate || binary.BigEndian.Uint16(b) != 0 {
		return 0, 0, false
	}
	if kind := binary.BigEndian.Uint32(b[2:]); kind != typeBlock && kind != typeGranite {
		return 0, 0, false
	}
	size := binary.BigEndian.Uint32(b[BeforeCertificate-4:])
	if size == 0 || uint64(size) > uint64(len(b)-BeforeCertificate) {
		return 0, 0, false
	}
	return BeforeCertificate, BeforeCertificate + int(size), true
}
