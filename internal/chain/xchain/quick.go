package xchain

import (
	"math"
	"time"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/linear"
)

// The IDs of types on the X-Chain, in the order in which avalanchego registers them
// (vms/avm/txs, the three feature extensions, vms/avm/block); those that the P-Chain has
// too are package linear's.
const (
	typeBaseTx = iota
	typeCreateAssetTx
	typeOperationTx
	typeImportTx
	typeExportTx
	_ // transfer input
	typeMint
	_ // transfer output
	typeMintOperation
	_ // credential
	typeNFTMint
	typeNFTTransfer
	typeNFTMintOperation
	typeNFTTransferOperation
	typeNFTCredential
	typePropertyMint
	typePropertyOwned
	typePropertyMintOperation
	typePropertyBurnOperation
	typePropertyCredential
	typeBlock
)

// What the smallest elements of lists take, in bytes.
const (
	leastOwners    = 8 + 4 + 4
	leastTx        = 4 + 4 + 32 + 4 + 4 + 4 + 4
	leastState     = 4 + 4
	leastOut       = 4 + leastOwners
	leastOperation = 32 + 4 + 4 + 4
	utxoIDLen      = 32 + 4
)

// quickBlock reads a block as the library does, but for credentials; nil says nothing
// about the block but that the library has to be asked.
func quickBlock(b []byte) *Block {
	if len(b) > codec.DefaultMaxSize {
		return nil
	}
	r := blockReader{linear.NewReader(b)}
	r.Expect(typeBlock)
	parsed := &Block{ParentID: r.ID(), Height: r.Uint64(), Bytes: b}
	seconds := r.Uint64()
	r.Take(ids.IDLen) // of a Merkle root, which is not in use
	parsed.Txs = make([]*txs.Tx, r.Count(leastTx))
	for i := range parsed.Txs {
		if parsed.Txs[i] = r.tx(); parsed.Txs[i] == nil {
			return nil
		}
	}
	if !r.Complete() || seconds > math.MaxInt64 {
		return nil
	}
	parsed.Place, parsed.Time, parsed.ID = parsed.Height, time.Unix(int64(seconds), 0).UTC(), hashing.ComputeHash256Array(b)
	return parsed
}

// quickTx is quickBlock for a transaction by itself.
func quickTx(b []byte) *txs.Tx {
	if len(b) > codec.DefaultMaxSize {
		return nil
	}
	r := blockReader{linear.NewReader(b)}
	if tx := r.tx(); r.Complete() {
		return tx
	}
	return nil
}

// blockReader reads what stands in X-Chain blocks.
type blockReader struct{ linear.Reader }

// tx reads a transaction without its credentials; nil if it is refused.
func (r *blockReader) tx() *txs.Tx {
	begin := r.Offset()
	tx := &txs.Tx{Unsigned: r.unsigned()}
	end := r.Offset()
	r.SkipCredentials(linear.Credential, typeNFTCredential, typePropertyCredential)
	if r.Refused() {
		return nil
	}
	tx.SetBytes(r.Signed(begin, end))
	return tx
}

func (r *blockReader) unsigned() txs.UnsignedTx {
	switch r.Uint32() {
	case typeBaseTx:
		tx := new(txs.BaseTx)
		r.base(tx)
		return tx
	case typeCreateAssetTx:
		tx := new(txs.CreateAssetTx)
		r.base(&tx.BaseTx)
		tx.Name, tx.Symbol, tx.Denomination = r.String(), r.String(), r.Byte()
		tx.States = make([]*txs.InitialState, r.Count(leastState))
		for i := range tx.States {
			state := &txs.InitialState{FxIndex: r.Uint32()}
			state.Outs = make([]verify.State, r.Count(leastOut))
			for j := range state.Outs {
				state.Outs[j] = r.out()
			}
			tx.States[i] = state
		}
		return tx
	case typeOperationTx:
		tx := new(txs.OperationTx)
		r.base(&tx.BaseTx)
		tx.Ops = make([]*txs.Operation, r.Count(leastOperation))
		for i := range tx.Ops {
			tx.Ops[i] = r.operation()
		}
		return tx
	case typeImportTx:
		tx := new(txs.ImportTx)
		r.base(&tx.BaseTx)
		tx.SourceChain, tx.ImportedIns = r.ID(), r.Inputs(false)
		return tx
	case typeExportTx:
		tx := new(txs.ExportTx)
		r.base(&tx.BaseTx)
		tx.DestinationChain, tx.ExportedOuts = r.ID(), r.Outputs(false)
		return tx
	}
	r.Refuse()
	return nil
}

func (r *blockReader) base(to *txs.BaseTx) { r.Base(&to.BaseTx, false) }

// out reads an output that an asset begins with.
func (r *blockReader) out() verify.State {
	switch r.Uint32() {
	case linear.TransferOutput:
		out := new(secp256k1fx.TransferOutput)
		r.TransferOutput(out)
		return out
	case typeMint:
		out := new(secp256k1fx.MintOutput)
		r.Owners(&out.OutputOwners)
		return out
	case typeNFTMint:
		out := &nftfx.MintOutput{GroupID: r.Uint32()}
		r.Owners(&out.OutputOwners)
		return out
	case typeNFTTransfer:
		out := new(nftfx.TransferOutput)
		r.token(out)
		return out
	case typePropertyMint:
		out := new(propertyfx.MintOutput)
		r.Owners(&out.OutputOwners)
		return out
	case typePropertyOwned:
		out := new(propertyfx.OwnedOutput)
		r.Owners(&out.OutputOwners)
		return out
	}
	r.Refuse()
	return nil
}

func (r *blockReader) token(to *nftfx.TransferOutput) {
	to.GroupID, to.Payload = r.Uint32(), r.Bytes()
	r.Owners(&to.OutputOwners)
}

func (r *blockReader) operation() *txs.Operation {
	op := new(txs.Operation)
	op.Asset.ID = r.ID()
	op.UTXOIDs = make([]*avax.UTXOID, r.Count(utxoIDLen))
	for i := range op.UTXOIDs {
		op.UTXOIDs[i] = &avax.UTXOID{TxID: r.ID(), OutputIndex: r.Uint32()}
	}
	op.Op = r.fxOperation()
	return op
}

func (r *blockReader) fxOperation() fxs.FxOperation {
	switch r.Uint32() {
	case typeMintOperation:
		op := new(secp256k1fx.MintOperation)
		r.Input(&op.MintInput)
		r.Owners(&op.MintOutput.OutputOwners)
		r.TransferOutput(&op.TransferOutput)
		return op
	case typeNFTMintOperation:
		op := new(nftfx.MintOperation)
		r.Input(&op.MintInput)
		op.GroupID, op.Payload = r.Uint32(), r.Bytes()
		op.Outputs = make([]*secp256k1fx.OutputOwners, r.Count(leastOwners))
		for i := range op.Outputs {
			op.Outputs[i] = new(secp256k1fx.OutputOwners)
			r.Owners(op.Outputs[i])
		}
		return op
	case typeNFTTransferOperation:
		op := new(nftfx.TransferOperation)
		r.Input(&op.Input)
		r.token(&op.Output)
		return op
	case typePropertyMintOperation:
		op := new(propertyfx.MintOperation)
		r.Input(&op.MintInput)
		r.Owners(&op.MintOutput.OutputOwners)
		r.Owners(&op.OwnedOutput.OutputOwners)
		return op
	case typePropertyBurnOperation:
		op := new(propertyfx.BurnOperation)
		r.Input(&op.Input)
		return op
	}
	r.Refuse()
	return nil
}
