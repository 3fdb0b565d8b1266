// Package envelope takes blocks out of what consensus wraps around them (avalanchego
// vms/proposervm/block), for all chains alike.
package envelope

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/hashing"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/linear"
)

// Envelope is what is around a block.
type Envelope struct {
	// ID is that of the envelope as a whole.
	ID, ParentID ids.ID
	// Time and PChainHeight are zero for the envelopes of options.
	Time         time.Time
	PChainHeight uint64
	// Block is what is inside. It refers to the envelope's bytes.
	Block []byte

	// Who signed is known by its certificate, or as the library says; both are empty if
	// nobody did.
	certificate []byte
	proposer    ids.NodeID
}

// Proposer is who signed; the empty ID if nobody did.
func (e *Envelope) Proposer() ids.NodeID {
	if len(e.certificate) == 0 {
		return e.proposer
	}
	return ids.NodeIDFromCert(&staking.Certificate{Raw: e.certificate})
}

// Open reads an envelope; false if there is none. As in the node, what can be an
// envelope is one. Signatures are not checked.
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

// The IDs of the types of envelopes.
const (
	typeBlock = iota
	typeOption
	typeGranite // with an epoch (ACP-181)
)

// BeforeCertificate is what comes before the certificate of an envelope of the usual
// form, in bytes: version and type, parent, time, the height on the P-Chain, and last the
// certificate's length, big endian.
const BeforeCertificate = 2 + 4 + 32 + 8 + 8 + 4

// Certificate tells where in b the certificate of who signed it is, if b is an envelope
// of the usual form; false if there is none. Only its place is looked at: neither what it
// is, nor what comes after it. It begins at BeforeCertificate.
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

// read reads an envelope of the usual form; false says nothing.
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
