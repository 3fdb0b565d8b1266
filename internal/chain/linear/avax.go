package linear

import (
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// Type IDs that are the same on the P- and X-Chain (avalanchego vms/platformvm/txs and vms/avm/txs). Only the P-Chain
// has the stakeable locks LockIn and LockOut.
const (
	TransferInput  = 5
	TransferOutput = 7
	Credential     = 9
	LockIn         = 21
	LockOut        = 22
)

// Minimum encoded sizes of list elements in bytes.
const (
	leastOwners     = 8 + 4 + 4
	leastOutput     = 32 + 4 + 8 + leastOwners
	leastInput      = 32 + 4 + 32 + 4 + 8 + 4
	leastCredential = 4 + 4
)

// Base reads the part that transactions of both chains have in common (avax.BaseTx). Locks reports whether stakeable
// locks are allowed.
func (r *Reader) Base(to *avax.BaseTx, locks bool) {
	to.NetworkID = r.Uint32()
	to.BlockchainID = r.ID()
	to.Outs = r.Outputs(locks)
	to.Ins = r.Inputs(locks)
	to.Memo = r.Bytes()
}

// Outputs reads a list of transfer outputs.
func (r *Reader) Outputs(locks bool) []*avax.TransferableOutput {
	n := r.Count(leastOutput)
	list := make([]*avax.TransferableOutput, n)
	all := make([]struct {
		avax.TransferableOutput
		transfer secp256k1fx.TransferOutput
	}, n)
	for i := range all {
		one := &all[i]
		one.Asset.ID = r.ID()
		one.Out = &one.transfer
		kind := r.Uint32()
		if kind == LockOut && locks {
			one.Out = &stakeable.LockOut{Locktime: r.Uint64(), TransferableOut: &one.transfer}
			kind = r.Uint32()
		}
		if kind != TransferOutput {
			r.Refuse()
			return nil
		}
		r.TransferOutput(&one.transfer)
		list[i] = &one.TransferableOutput
	}
	return list
}

// TransferOutput reads a transfer output without its type ID.
func (r *Reader) TransferOutput(to *secp256k1fx.TransferOutput) {
	to.Amt = r.Uint64()
	r.Owners(&to.OutputOwners)
}

// Owners reads output owners without their type ID.
func (r *Reader) Owners(to *secp256k1fx.OutputOwners) {
	to.Locktime, to.Threshold = r.Uint64(), r.Uint32()
	to.Addrs = r.Addresses()
}

// Inputs reads a list of transfer inputs.
func (r *Reader) Inputs(locks bool) []*avax.TransferableInput {
	n := r.Count(leastInput)
	list := make([]*avax.TransferableInput, n)
	all := make([]struct {
		avax.TransferableInput
		transfer secp256k1fx.TransferInput
	}, n)
	for i := range all {
		one := &all[i]
		one.TxID, one.OutputIndex, one.Asset.ID = r.ID(), r.Uint32(), r.ID()
		one.In = &one.transfer
		kind := r.Uint32()
		if kind == LockIn && locks {
			one.In = &stakeable.LockIn{Locktime: r.Uint64(), TransferableIn: &one.transfer}
			kind = r.Uint32()
		}
		if kind != TransferInput {
			r.Refuse()
			return nil
		}
		one.transfer.Amt = r.Uint64()
		r.Input(&one.transfer.Input)
		list[i] = &one.TransferableInput
	}
	return list
}

// Input reads the indexes of the signing owners, without a type ID.
func (r *Reader) Input(to *secp256k1fx.Input) {
	to.SigIndices = grab(&r.indices, r.Count(4), 8)
	for i := range to.SigIndices {
		to.SigIndices[i] = r.Uint32()
	}
}

// SkipCredentials skips the credentials of a transaction. It refuses types other than the given ones.
func (r *Reader) SkipCredentials(types ...uint32) {
	for range r.Count(leastCredential) {
		kind, known := r.Uint32(), false
		for _, t := range types {
			known = known || kind == t
		}
		if !known {
			r.Refuse()
			return
		}
		r.Take(secp256k1.SignatureLen * r.Count(secp256k1.SignatureLen))
	}
}

// Signed returns the transaction that was just read in its standalone form, with a codec version, and the unsigned
// prefix of it. Begin and unsignedEnd are the offsets of the unsigned part in the block. The results do not refer to
// the block's bytes.
func (r *Reader) Signed(begin, unsignedEnd int) (unsigned, signed []byte) {
	if r.refused {
		return nil, nil
	}
	signed = make([]byte, VersionLen+r.at-begin) // the version is 0
	copy(signed[VersionLen:], r.bytes[begin:r.at])
	return signed[:VersionLen+unsignedEnd-begin], signed
}
