package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
)

func TestOutputOf(t *testing.T) {
	owners := secp256k1fx.OutputOwners{Locktime: 3, Threshold: 2, Addrs: []ids.ShortID{{2}, {1}}}
	transfer := &secp256k1fx.TransferOutput{Amt: 1<<64 - 1, OutputOwners: owners}
	utxo := &avax.UTXO{
		UTXOID: avax.UTXOID{TxID: ids.ID{1}, OutputIndex: 7}, Asset: avax.Asset{ID: ids.ID{2}},
		Out: &stakeable.LockOut{Locktime: 9, TransferableOut: transfer},
	}
	got, err := ledger.OutputOf(txs.Codec, utxo, ledger.Stake, ids.ID{5})
	require.NoError(t, err)
	b, err := txs.Codec.Marshal(txs.CodecVersion, utxo)
	require.NoError(t, err)
	require.Equal(t, ledger.Output{
		ID: utxo.InputID(), TxID: ids.ID{1}, Index: 7, Kind: ledger.Transfer, Role: ledger.Stake, AssetID: ids.ID{2}, Amount: 1<<64 - 1,
		Addresses: []ids.ShortID{{2}, {1}}, Threshold: 2, Locktime: 3, StakeableLocktime: 9, DestinationID: ids.ID{5}, Bytes: b,
	}, got)

	utxo.Out = transfer
	got, err = ledger.OutputOf(txs.Codec, utxo, ledger.Ordinary, ids.ID{5})
	require.NoError(t, err)
	b, err = txs.Codec.Marshal(txs.CodecVersion, utxo)
	require.NoError(t, err)
	require.Equal(t, b, got.Bytes)

	// An expired stakeable lock is still a lock.
	utxo.Out = &stakeable.LockOut{TransferableOut: transfer}
	got, err = ledger.OutputOf(txs.Codec, utxo, ledger.Ordinary, ids.ID{5})
	require.NoError(t, err)
	b, err = txs.Codec.Marshal(txs.CodecVersion, utxo)
	require.NoError(t, err)
	require.Equal(t, b, got.Bytes)

	// The P-Chain rejects nested locks.
	utxo.Out = &stakeable.LockOut{Locktime: 9, TransferableOut: &stakeable.LockOut{Locktime: 8, TransferableOut: transfer}}
	_, err = ledger.OutputOf(txs.Codec, utxo, ledger.Stake, ids.ID{5})
	require.ErrorIs(t, err, ledger.ErrOutput)
	// The P-Chain's codec has no property outputs.
	utxo.Out = &propertyfx.OwnedOutput{OutputOwners: owners}
	_, err = ledger.OutputOf(txs.Codec, utxo, ledger.Ordinary, ids.ID{5})
	require.Error(t, err)
}

func TestInputsOf(t *testing.T) {
	transfer := &secp256k1fx.TransferInput{Amt: 5}
	in := func(inner avax.TransferableIn) *avax.TransferableInput {
		return &avax.TransferableInput{UTXOID: avax.UTXOID{TxID: ids.ID{1}, OutputIndex: 2}, Asset: avax.Asset{ID: ids.ID{3}}, In: inner}
	}
	want := ledger.Input{OutputID: in(nil).InputID(), SourceChainID: ids.ID{4}, AssetID: ids.ID{3}, Amount: 5}
	got, err := ledger.InputsOf([]*avax.TransferableInput{in(transfer), in(&stakeable.LockIn{Locktime: 6, TransferableIn: transfer})}, ids.ID{4})
	require.NoError(t, err)
	require.Equal(t, []ledger.Input{want, want}, got)
	_, err = ledger.InputsOf([]*avax.TransferableInput{in(&stakeable.LockIn{TransferableIn: &stakeable.LockIn{TransferableIn: transfer}})}, ids.ID{4})
	require.ErrorIs(t, err, ledger.ErrOutput)
}
