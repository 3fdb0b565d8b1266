// Package envelope extracts blocks of any chain from their proposer envelopes (avalanchego vms/proposervm/block).
package envelope

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/hashing"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/linear"
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

	// read sets certificate, the library sets proposer. Both are empty if the envelope is not signed.
	certificate []byte
	proposer    ids.NodeID
}

// Proposer returns the node that signed the envelope, or the empty ID if it is not signed.
func (e *Envelope) Proposer() ids.NodeID {
	if len(e.certificate) == 0 {
		return e.proposer
	}
	return ids.NodeIDFromCert(&staking.Certificate{Raw: e.certificate})
}

// Open parses an envelope. It returns false if b is not an envelope. Like the node, it takes everything that parses as
// an envelope for one. It does not verify signatures.
func Open(b []byte) (Envelope, bool) {
	if e, ok := read(b); ok {
		return e, true
	}
	wrapped, err := proposer.ParseWithoutVerification(b)
	if err != nil {
		return Envelope{}, false
	}
	e := Envelope{ID: wrapped.ID(), ParentID: wrapped.ParentID(), Block: wrapped.Block()}
	if signed, ok := wrapped.(proposer.SignedBlock); ok {
		e.Time, e.PChainHeight, e.proposer = signed.Timestamp().UTC(), signed.PChainHeight(), signed.Proposer()
	}
	return e, true
}

// Type IDs of envelopes.
const (
	typeBlock = iota
	typeOption
	typeGranite // with an epoch (ACP-181)
)

// BeforeCertificate is the number of bytes before the certificate in a signed envelope: version and type, parent ID,
// time, P-Chain height, and the big-endian length of the certificate.
const BeforeCertificate = 2 + 4 + 32 + 8 + 8 + 4

// Certificate returns the range of the proposer's certificate in b. It returns false if b does not begin like a signed
// envelope. It checks neither the certificate nor the bytes after it. A certificate always begins at BeforeCertificate.
func Certificate(b []byte) (from, to int, ok bool) {
	r := linear.NewReader(b)
	if kind := r.Uint32(); kind != typeBlock && kind != typeGranite {
		return 0, 0, false
	}
	r.Take(BeforeCertificate - 4 - r.Offset())
	r.Bytes()
	from, to = BeforeCertificate, r.Offset()
	return from, to, !r.Refused() && to > from
}

// read parses the common forms of an envelope. On false the library must decide.
func read(b []byte) (e Envelope, ok bool) {
	r := linear.NewReader(b)
	switch kind := r.Uint32(); kind {
	case typeOption:
		e.ParentID, e.Block = r.ID(), r.Bytes()
		if !r.Complete() {
			return Envelope{}, false
		}
		e.ID = hashing.ComputeHash256Array(b)
		return e, true
	case typeBlock, typeGranite:
		e.ParentID = r.ID()
		e.Time = time.Unix(int64(r.Uint64()), 0).UTC()
		e.PChainHeight = r.Uint64()
		certificate := r.Bytes()
		e.Block = r.Bytes()
		if kind == typeGranite {
			r.Take(8 + 8 + 8) // the epoch
		}
		signed := r.Offset()
		r.Bytes() // the signature
		if !r.Complete() {
			return Envelope{}, false
		}
		if len(certificate) > 0 {
			if _, err := staking.ParseCertificate(certificate); err != nil {
				return Envelope{}, false
			}
			e.certificate = certificate
		}
		e.ID = hashing.ComputeHash256Array(b[:signed])
		return e, true
	}
	return Envelope{}, false
}
