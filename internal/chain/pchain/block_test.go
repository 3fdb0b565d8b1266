package pchain_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/linear/lineartest"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/pchain/pchaintest"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func txIDs(transactions ...*txs.Tx) []ids.ID {
	var all []ids.ID
	for _, tx := range transactions {
		if tx != nil {
			all = append(all, tx.ID())
		}
	}
	return all
}

// TestKindsOfBlocks parses one block of every type that the library has, without an envelope and in each kind of
// envelope.
func TestKindsOfBlocks(t *testing.T) {
	chain := pchaintest.New(5)
	parent, at := ids.ID{1, 2, 3}, time.Unix(1_700_000_000, 0).UTC()
	transfer, other := chain.Transfer(1), chain.Transfer(2)
	reward := chain.Reward(ids.ID{9})
	advance := &txs.Tx{Unsigned: &txs.AdvanceTimeTx{Time: 77}}
	require.NoError(t, advance.Initialize(txs.Codec))
	for name, test := range map[string]struct {
		block    block.Block
		kind     pchain.Kind
		txs      []ids.ID
		proposal *txs.Tx
		timeless bool
	}{
		"standard":          {must(block.NewBanffStandardBlock(at, parent, 7, []*txs.Tx{transfer, other})), pchain.Standard, txIDs(transfer, other), nil, false},
		"empty":             {must(block.NewBanffStandardBlock(at, parent, 7, nil)), pchain.Standard, nil, nil, false},
		"proposal":          {must(block.NewBanffProposalBlock(at, parent, 7, reward, []*txs.Tx{transfer})), pchain.Proposal, txIDs(transfer), reward, false},
		"commit":            {must(block.NewBanffCommitBlock(at, parent, 7)), pchain.Commit, nil, nil, false},
		"abort":             {must(block.NewBanffAbortBlock(at, parent, 7)), pchain.Abort, nil, nil, false},
		"Apricot standard":  {must(block.NewApricotStandardBlock(parent, 7, []*txs.Tx{transfer})), pchain.Standard, txIDs(transfer), nil, true},
		"Apricot proposal":  {must(block.NewApricotProposalBlock(parent, 7, reward)), pchain.Proposal, nil, reward, true},
		"Apricot time":      {must(block.NewApricotProposalBlock(parent, 7, advance)), pchain.Proposal, nil, advance, true},
		"Apricot commit":    {must(block.NewApricotCommitBlock(parent, 7)), pchain.Commit, nil, nil, true},
		"Apricot abort":     {must(block.NewApricotAbortBlock(parent, 7)), pchain.Abort, nil, nil, true},
		"Apricot atomic":    {must(block.NewApricotAtomicBlock(parent, 7, other)), pchain.Atomic, txIDs(other), nil, true},
		"commit, high tree": {must(block.NewBanffCommitBlock(at, parent, 1<<40)), pchain.Commit, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			outer := ids.ID{4}
			plain := must(proposer.BuildUnsigned(outer, at, 6, proposer.Epoch{}, test.block.Bytes()))
			granite := must(proposer.BuildUnsigned(outer, at, 6, proposer.Epoch{PChainHeight: 3, Number: 1, StartTime: 2}, test.block.Bytes()))
			option := must(proposer.BuildOption(outer, test.block.Bytes()))
			for envelope, bytes := range map[string][]byte{
				"bare": test.block.Bytes(), "plain": plain.Bytes(), "Granite": granite.Bytes(), "option": option.Bytes(),
			} {
				got, err := pchain.ParseBlock(bytes)
				require.NoError(t, err, envelope)
				require.Equal(t, test.kind, got.Kind, "%s: got %s, want %s", envelope, got.Kind, test.kind)
				require.Equal(t, test.block.ID(), got.ID)
				require.Equal(t, parent, got.ParentID)
				require.Equal(t, test.block.Height(), got.Height)
				require.Equal(t, test.block.Bytes(), got.Bytes)
				require.Equal(t, test.txs, txIDs(got.Txs...))
				require.Equal(t, txIDs(test.proposal), txIDs(got.Proposal))
				for _, tx := range got.Txs {
					require.NotEmpty(t, tx.Bytes(), "raw bytes of %s", tx.ID())
				}
				if test.timeless {
					require.Zero(t, got.Time)
				} else {
					require.Equal(t, at, got.Time)
				}
				switch envelope {
				case "bare":
					require.Nil(t, got.Envelope)
				case "option":
					require.Equal(t, &pchain.Envelope{ID: option.ID(), ParentID: outer, Block: test.block.Bytes()}, got.Envelope)
				case "plain":
					require.Equal(t, &pchain.Envelope{ID: plain.ID(), ParentID: outer, Time: at, PChainHeight: 6, Block: test.block.Bytes()}, got.Envelope)
				case "Granite":
					require.Equal(t, &pchain.Envelope{ID: granite.ID(), ParentID: outer, Time: at, PChainHeight: 6, Block: test.block.Bytes()}, got.Envelope)
				}
			}
		})
	}
}

// TestSignedEnvelope parses the most common form of block.
func TestSignedEnvelope(t *testing.T) {
	chain := pchaintest.New(5)
	first := chain.Standard(chain.Transfer(1))
	chain.Proposal(chain.Reward(ids.ID{1}), true)
	var blocks []*pchain.Block
	for _, b := range chain.Blocks {
		bytes := b.Enveloped
		if bytes == nil {
			bytes = b.Bare
		}
		parsed, err := pchain.ParseBlock(bytes)
		require.NoError(t, err)
		require.Equal(t, b.ID, parsed.ID)
		blocks = append(blocks, parsed)
	}
	require.Nil(t, blocks[0].Envelope)
	require.Equal(t, first.ID, blocks[1].ID)
	require.NotEqual(t, ids.EmptyNodeID, blocks[1].Envelope.Proposer)
	for i, b := range blocks[1:] {
		require.Equal(t, blocks[i].ID, b.ParentID)
		if blocks[i].Envelope != nil {
			require.Equal(t, blocks[i].Envelope.ID, b.Envelope.ParentID)
		}
	}
}

func TestUnreadableBlocks(t *testing.T) {
	chain := pchaintest.New(5)
	b := chain.Standard(chain.Transfer(1))
	wrapped := must(proposer.BuildOption(ids.ID{1}, []byte("no block")))
	for name, bytes := range map[string][]byte{
		"nothing":                 nil,
		"version only":            {0, 0},
		"unknown version":         append([]byte{0, 9}, b.Bare[2:]...),
		"unknown type":            append([]byte{0, 0, 0, 0, 0, 200}, b.Bare[6:]...),
		"cut short":               b.Bare[:len(b.Bare)-1],
		"something follows":       append(bytes.Clone(b.Bare), 0),
		"envelope cut short":      b.Enveloped[:len(b.Enveloped)-1],
		"envelope around nothing": wrapped.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pchain.ParseBlock(bytes)
			require.ErrorIs(t, err, pchain.ErrBlock, "got %+v", got)
		})
	}
}

func TestTypes(t *testing.T) { lineartest.RequireTypes(t, block.Codec, pchain.RegisterTypes) }

// blockWith returns a block with a transaction, which may be too long for a node.
func blockWith(unsigned txs.UnsignedTx) []byte {
	var b block.Block = &block.BanffStandardBlock{ApricotStandardBlock: block.ApricotStandardBlock{Transactions: []*txs.Tx{{Unsigned: unsigned}}}}
	return must(block.GenesisCodec.Marshal(block.CodecVersion, &b))
}

// TestLongBlocks parses a block of the greatest size, and one with a byte more.
func TestLongBlocks(t *testing.T) {
	most := constants.DefaultMaxMessageSize - len(blockWith(&txs.BaseTx{}))
	_, err := pchain.ParseBlock(blockWith(&txs.BaseTx{BaseTx: avax.BaseTx{Memo: make([]byte, most)}}))
	require.NoError(t, err)
	_, err = pchain.ParseBlock(blockWith(&txs.BaseTx{BaseTx: avax.BaseTx{Memo: make([]byte, most+1)}}))
	require.ErrorIs(t, err, codec.ErrUnmarshalTooBig)
}

func FuzzParseBlock(f *testing.F) {
	chain := pchaintest.New(5)
	chain.Standard(chain.Transfer(1), chain.Convert(ids.ID{1}, ids.ID{2}, []byte{3}, 2))
	chain.Standard(chain.Register(pchaintest.Registration(ids.ID{1}, ids.NodeID{2}, 3)), chain.SetWeight(ids.ID{4}, 5, 6))
	chain.Proposal(chain.Reward(ids.ID{1}), false, chain.Transfer(2))
	chain.Proposal(chain.Reward(ids.ID{1}), true)
	for _, b := range chain.Blocks {
		f.Add(b.Bare)
		f.Add(b.Enveloped)
	}
	for _, k := range kinds() {
		valid := must(block.NewBanffProposalBlock(started, ids.ID{1}, 9, accepted(k.tx), []*txs.Tx{accepted(k.tx)})).Bytes()
		f.Add(valid)
		f.Add(valid[:len(valid)-1])
		f.Add(append(valid, 0))
	}
	// An output that is locked twice, which the library does not encode.
	var locked avax.TransferableOut = &stakeable.LockOut{Locktime: 1, TransferableOut: &secp256k1fx.TransferOutput{Amt: 1}}
	once := must(txs.Codec.Marshal(txs.CodecVersion, &locked))[codec.VersionSize:]
	twice := slices.Concat(once[:4+8], once) // a type and a time more
	f.Add(bytes.Replace(blockWith(&txs.BaseTx{BaseTx: avax.BaseTx{Outs: []*avax.TransferableOutput{{Out: locked}}}}), once, twice, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		parsed, err := pchain.ParseBlock(b)
		if err != nil {
			require.ErrorIs(t, err, pchain.ErrBlock)
			if around, wrapped := envelope.Open(b); wrapped {
				b = around.Block
			}
			_, err := block.Parse(block.Codec, b)
			require.Error(t, err, "the library accepts it")
			return
		}
		if parsed.Kind < pchain.Standard || parsed.Kind > pchain.Atomic {
			t.Errorf("got %s, want a known kind", parsed.Kind)
		}
		if parsed.Envelope != nil && !bytes.Contains(b, parsed.Bytes) {
			t.Errorf("got a block of %d bytes that are not in the envelope", len(parsed.Bytes))
		}
		full, err := block.Parse(block.Codec, parsed.Bytes)
		require.NoError(t, err)
		require.Equal(t, full.ID(), parsed.ID)
		all := slices.Concat(parsed.Txs, []*txs.Tx{parsed.Proposal})
		require.Equal(t, txIDs(full.Txs()...), txIDs(all...))
		for i, tx := range full.Txs() {
			got, err := txs.Codec.Marshal(txs.CodecVersion, &all[i].Unsigned)
			require.NoError(t, err)
			require.Equal(t, tx.Unsigned.Bytes(), got)
			require.Equal(t, tx.Bytes(), all[i].Bytes())
		}
		for _, tx := range all {
			if tx == nil {
				continue
			}
			again, err := txs.Parse(txs.Codec, tx.Bytes())
			require.NoError(t, err)
			require.Equal(t, tx.ID(), again.ID())
			_, _ = pchain.L1EventOf(tx.Unsigned)
		}
	})
}
