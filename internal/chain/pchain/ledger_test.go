package pchain_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/utxo"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
)

var (
	avaxID  = ids.ID{'a', 'v', 'a', 'x'}
	xChain  = ids.ID{'x'}
	alice   = ids.ShortID{1}
	bob     = ids.ShortID{2}
	started = time.Unix(1_760_000_000, 0).UTC() // after Etna on all networks
)

func owners(addresses ...ids.ShortID) *secp256k1fx.OutputOwners {
	return &secp256k1fx.OutputOwners{Threshold: 1, Addrs: addresses}
}

func pay(amount uint64, to ids.ShortID) *avax.TransferableOutput {
	return &avax.TransferableOutput{Asset: avax.Asset{ID: avaxID}, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: *owners(to)}}
}

func lock(out *avax.TransferableOutput, until uint64) *avax.TransferableOutput {
	return &avax.TransferableOutput{Asset: out.Asset, Out: &stakeable.LockOut{Locktime: until, TransferableOut: out.Out}}
}

func spend(seed byte, amount uint64) *avax.TransferableInput {
	return &avax.TransferableInput{
		UTXOID: avax.UTXOID{TxID: ids.ID{seed}, OutputIndex: uint32(seed)}, Asset: avax.Asset{ID: avaxID},
		In: &secp256k1fx.TransferInput{Amt: amount, Input: secp256k1fx.Input{SigIndices: []uint32{0}}},
	}
}

func spendLocked(seed byte, amount, until uint64) *avax.TransferableInput {
	in := spend(seed, amount)
	in.In = &stakeable.LockIn{Locktime: until, TransferableIn: in.In}
	return in
}

// common returns a base transaction with inputs of 1000 and two outputs of 30.
func common() txs.BaseTx {
	return txs.BaseTx{BaseTx: avax.BaseTx{
		NetworkID: constants.LocalID, Memo: []byte("memo"),
		Ins:  []*avax.TransferableInput{spend(1, 900), spendLocked(2, 100, 1<<40)},
		Outs: []*avax.TransferableOutput{pay(10, alice), lock(pay(20, bob), 1<<40)},
	}}
}

func accepted(unsigned txs.UnsignedTx) *txs.Tx {
	tx := &txs.Tx{Unsigned: unsigned, Creds: []verify.Verifiable{}}
	if err := tx.Initialize(txs.Codec); err != nil {
		panic(err)
	}
	return tx
}

func managerSays(m message.Payload, err error) []byte {
	if err != nil {
		panic(err)
	}
	call := must(payload.NewAddressedCall([]byte{7}, m.Bytes()))
	unsigned := must(warp.NewUnsignedMessage(constants.LocalID, ids.ID{'c'}, call.Bytes()))
	return must(warp.NewMessage(unsigned, &warp.BitSetSignature{Signers: []byte{1}})).Bytes()
}

// answers is a node that lists some rewards.
type answers struct {
	rewards map[ids.ID][][]byte
	err     error
	asked   int
	height  uint64
}

func (a *answers) RewardUTXOs(_ context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	a.asked++
	a.height = height
	return a.rewards[txID], a.err
}

func newDecoder(t testing.TB, networkID uint32, n pchain.Node) (*pchain.Decoder, *ledger.Block, block.Block) {
	t.Helper()
	first := must(block.NewApricotCommitBlock(ids.ID{'g'}, 0))
	genesis := &ledger.Block{ChainID: constants.PlatformChainID, ID: first.ID(), Time: started, Txs: []ledger.Tx{{Kind: ledger.Unknown}}}
	d, err := pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: networkID, Genesis: genesis, AVAXAssetID: avaxID, Node: n,
		ValidatorFees: &fee.Config{Capacity: 100, Target: 50, MinPrice: 3, ExcessConversionConstant: 1000},
	})
	require.NoError(t, err)
	return d, genesis, first
}

// history feeds blocks to a decoder in order.
type history struct {
	t       testing.TB
	decoder *pchain.Decoder
	state   *pchain.State
	node    *answers
	parent  ids.ID
	height  uint64
}

func newHistory(t testing.TB, networkID uint32) *history {
	n := &answers{rewards: make(map[ids.ID][][]byte)}
	d, genesis, first := newDecoder(t, networkID, n)
	h := &history{t: t, decoder: d, state: pchain.NewState(), node: n, parent: first.ID()}
	got, err := d.Ledger(t.Context(), h.state, must(pchain.ParseBlock(first.Bytes())))
	require.NoError(t, err)
	require.Equal(t, genesis, got)
	return h
}

// try decodes a block on top of the last one.
func (h *history) try(made func(parent ids.ID, height uint64) block.Block) (*ledger.Block, error) {
	h.t.Helper()
	b := made(h.parent, h.height+1)
	parsed, err := pchain.ParseBlock(b.Bytes())
	require.NoError(h.t, err)
	got, err := h.decoder.Ledger(h.t.Context(), h.state, parsed)
	if err == nil {
		require.Equal(h.t, b.Height(), got.Height)
		require.Equal(h.t, b.ID(), got.ID)
		require.Equal(h.t, constants.PlatformChainID, got.ChainID)
		h.parent, h.height = b.ID(), b.Height()
	}
	return got, err
}

func (h *history) add(made func(parent ids.ID, height uint64) block.Block) *ledger.Block {
	h.t.Helper()
	got, err := h.try(made)
	require.NoError(h.t, err)
	return got
}

func standard(at time.Time, transactions ...*txs.Tx) func(ids.ID, uint64) block.Block {
	return func(parent ids.ID, height uint64) block.Block {
		return must(block.NewBanffStandardBlock(at, parent, height, transactions))
	}
}

func proposal(at time.Time, tx *txs.Tx, beside ...*txs.Tx) func(ids.ID, uint64) block.Block {
	return func(parent ids.ID, height uint64) block.Block {
		return must(block.NewBanffProposalBlock(at, parent, height, tx, beside))
	}
}

func option(at time.Time, commit bool) func(ids.ID, uint64) block.Block {
	return func(parent ids.ID, height uint64) block.Block {
		if commit {
			return must(block.NewBanffCommitBlock(at, parent, height))
		}
		return must(block.NewBanffAbortBlock(at, parent, height))
	}
}

func apricot(tx *txs.Tx) func(ids.ID, uint64) block.Block {
	return func(parent ids.ID, height uint64) block.Block {
		return must(block.NewApricotProposalBlock(parent, height, tx))
	}
}

func apricotOption(commit bool) func(ids.ID, uint64) block.Block {
	return func(parent ids.ID, height uint64) block.Block {
		if commit {
			return must(block.NewApricotCommitBlock(parent, height))
		}
		return must(block.NewApricotAbortBlock(parent, height))
	}
}

const period = 1_000_000 // seconds

func staker(weight uint64) txs.Validator {
	return txs.Validator{NodeID: ids.NodeID{5}, Start: uint64(started.Unix()) + 100, End: uint64(started.Unix()) + period, Wght: weight}
}

var proof = &signer.ProofOfPossession{PublicKey: [48]byte{1, 2}, ProofOfPossession: [96]byte{3, 4}}

// kind is a transaction of one kind, with the expected ledger fields besides inputs and outputs.
type kind struct {
	tx   txs.UnsignedTx
	kind ledger.Kind
	want ledger.Tx // without the fields that all kinds have
}

// kinds returns one transaction of each kind that the chain does not propose itself. Subnet {9} has the L1 validators
// of the last ones.
func kinds() map[string]kind {
	subnet := ids.ID{9}
	initial := subnet.Append(0)
	registration := must(message.NewRegisterL1Validator(subnet, ids.NodeID{6}, [48]byte{7}, 1, message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{alice}}, message.PChainOwner{}, 5))
	stakes := func() []*avax.TransferableOutput {
		return []*avax.TransferableOutput{pay(300, alice), lock(pay(400, bob), 1<<40)}
	}
	end := time.Unix(started.Unix()+period, 0).UTC()
	return map[string]kind{
		"AddValidatorTx": {
			&txs.AddValidatorTx{BaseTx: common(), Validator: staker(700), StakeOuts: stakes(), RewardsOwner: owners(bob), DelegationShares: 20_000},
			"AddValidatorTx",
			ledger.Tx{Staker: &ledger.Staker{NodeID: ids.NodeID{5}, Weight: 700, Start: started, End: end, Shares: 20_000, RewardAddresses: []ids.ShortID{bob}}},
		},
		"AddSubnetValidatorTx": {
			&txs.AddSubnetValidatorTx{BaseTx: common(), SubnetValidator: txs.SubnetValidator{Validator: staker(3), Subnet: subnet}, SubnetAuth: &secp256k1fx.Input{}},
			"AddSubnetValidatorTx",
			ledger.Tx{Staker: &ledger.Staker{SubnetID: subnet, NodeID: ids.NodeID{5}, Weight: 3, Start: started, End: end}},
		},
		"AddDelegatorTx": {
			&txs.AddDelegatorTx{BaseTx: common(), Validator: staker(700), StakeOuts: stakes(), DelegationRewardsOwner: owners(alice)},
			"AddDelegatorTx",
			ledger.Tx{Staker: &ledger.Staker{NodeID: ids.NodeID{5}, Delegator: true, Weight: 700, Start: started, End: end, RewardAddresses: []ids.ShortID{alice}}},
		},
		"CreateChainTx": {
			&txs.CreateChainTx{BaseTx: common(), SubnetID: subnet, ChainName: "chain", VMID: ids.ID{3}, GenesisData: []byte("{}"), SubnetAuth: &secp256k1fx.Input{}},
			"CreateChainTx",
			ledger.Tx{Subnet: &ledger.SubnetChange{SubnetID: subnet, Chain: &ledger.Chain{VMID: ids.ID{3}, Name: "chain", Genesis: []byte("{}")}}},
		},
		"CreateSubnetTx": {
			&txs.CreateSubnetTx{BaseTx: common(), Owner: &secp256k1fx.OutputOwners{Locktime: 4, Threshold: 2, Addrs: []ids.ShortID{alice, bob}}},
			"CreateSubnetTx",
			ledger.Tx{Subnet: &ledger.SubnetChange{Created: true, Owners: &ledger.Owners{Addresses: []ids.ShortID{alice, bob}, Threshold: 2, Locktime: 4}}},
		},
		"ImportTx": {
			&txs.ImportTx{BaseTx: common(), SourceChain: xChain, ImportedInputs: []*avax.TransferableInput{spend(3, 50)}},
			"ImportTx", ledger.Tx{},
		},
		"ExportTx": {
			&txs.ExportTx{BaseTx: common(), DestinationChain: xChain, ExportedOutputs: []*avax.TransferableOutput{pay(60, alice), pay(70, bob)}},
			"ExportTx", ledger.Tx{},
		},
		"RemoveSubnetValidatorTx": {
			&txs.RemoveSubnetValidatorTx{BaseTx: common(), NodeID: ids.NodeID{5}, Subnet: subnet, SubnetAuth: &secp256k1fx.Input{}},
			"RemoveSubnetValidatorTx", ledger.Tx{},
		},
		"TransformSubnetTx": {
			&txs.TransformSubnetTx{BaseTx: common(), Subnet: subnet, AssetID: ids.ID{8}, SubnetAuth: &secp256k1fx.Input{}},
			"TransformSubnetTx", ledger.Tx{},
		},
		"AddPermissionlessValidatorTx": {
			&txs.AddPermissionlessValidatorTx{BaseTx: common(), Validator: staker(700), Signer: proof, StakeOuts: stakes(), ValidatorRewardsOwner: owners(alice), DelegatorRewardsOwner: owners(bob), DelegationShares: 1_000_000},
			"AddPermissionlessValidatorTx",
			ledger.Tx{Staker: &ledger.Staker{
				NodeID: ids.NodeID{5}, Weight: 700, Start: started, End: end, Shares: 1_000_000, RewardAddresses: []ids.ShortID{alice},
				PublicKey: proof.PublicKey[:], ProofOfPossession: proof.ProofOfPossession[:],
			}},
		},
		"AddPermissionlessValidatorTx of a subnet": {
			&txs.AddPermissionlessValidatorTx{BaseTx: common(), Validator: staker(700), Subnet: subnet, Signer: &signer.Empty{}, StakeOuts: stakes(), ValidatorRewardsOwner: owners(alice), DelegatorRewardsOwner: owners(bob)},
			"AddPermissionlessValidatorTx",
			ledger.Tx{Staker: &ledger.Staker{SubnetID: subnet, NodeID: ids.NodeID{5}, Weight: 700, Start: started, End: end, RewardAddresses: []ids.ShortID{alice}}},
		},
		"AddPermissionlessDelegatorTx": {
			&txs.AddPermissionlessDelegatorTx{BaseTx: common(), Validator: staker(700), StakeOuts: stakes(), DelegationRewardsOwner: owners(bob, alice)},
			"AddPermissionlessDelegatorTx",
			ledger.Tx{Staker: &ledger.Staker{NodeID: ids.NodeID{5}, Delegator: true, Weight: 700, Start: started, End: end, RewardAddresses: []ids.ShortID{bob, alice}}},
		},
		"TransferSubnetOwnershipTx": {
			&txs.TransferSubnetOwnershipTx{BaseTx: common(), Subnet: subnet, SubnetAuth: &secp256k1fx.Input{}, Owner: owners(bob)},
			"TransferSubnetOwnershipTx",
			ledger.Tx{Subnet: &ledger.SubnetChange{SubnetID: subnet, Owners: &ledger.Owners{Addresses: []ids.ShortID{bob}, Threshold: 1}}},
		},
		"BaseTx": {func() *txs.BaseTx { tx := common(); return &tx }(), "BaseTx", ledger.Tx{}},
		"ConvertSubnetToL1Tx": {
			&txs.ConvertSubnetToL1Tx{BaseTx: common(), Subnet: ids.ID{10}, ChainID: ids.ID{11}, Address: []byte{12}, SubnetAuth: &secp256k1fx.Input{}, Validators: []*txs.ConvertSubnetToL1Validator{
				{NodeID: make([]byte, 20), Weight: 1, Balance: 100, Signer: *proof}, {NodeID: make([]byte, 20), Weight: 2, Balance: 50, Signer: *proof},
			}},
			"ConvertSubnetToL1Tx",
			ledger.Tx{L1Balance: 150, Subnet: &ledger.SubnetChange{SubnetID: ids.ID{10}, Conversion: &ledger.Conversion{ManagerChainID: ids.ID{11}, ManagerAddress: []byte{12}}}},
		},
		"RegisterL1ValidatorTx": {
			&txs.RegisterL1ValidatorTx{BaseTx: common(), Balance: 40, Message: managerSays(registration, nil)},
			"RegisterL1ValidatorTx", ledger.Tx{L1Balance: 40},
		},
		"SetL1ValidatorWeightTx": {
			&txs.SetL1ValidatorWeightTx{BaseTx: common(), Message: managerSays(message.NewL1ValidatorWeight(initial, 0, 8))},
			"SetL1ValidatorWeightTx", ledger.Tx{},
		},
		"SetL1ValidatorWeightTx that removes": {
			&txs.SetL1ValidatorWeightTx{BaseTx: common(), Message: managerSays(message.NewL1ValidatorWeight(initial, 0, 0))},
			"SetL1ValidatorWeightTx", ledger.Tx{L1Refund: 500},
		},
		"IncreaseL1ValidatorBalanceTx": {
			&txs.IncreaseL1ValidatorBalanceTx{BaseTx: common(), ValidationID: initial, Balance: 33},
			"IncreaseL1ValidatorBalanceTx", ledger.Tx{L1Balance: 33},
		},
		"DisableL1ValidatorTx": {
			&txs.DisableL1ValidatorTx{BaseTx: common(), ValidationID: initial, DisableAuth: &secp256k1fx.Input{}},
			"DisableL1ValidatorTx", ledger.Tx{L1Refund: 500},
		},
		"AddAutoRenewedValidatorTx": {
			&txs.AddAutoRenewedValidatorTx{
				BaseTx: common(), ValidatorNodeID: append(make([]byte, 19), 1), Signer: proof, StakeOuts: stakes(), ValidatorRewardsOwner: owners(alice),
				DelegatorRewardsOwner: owners(bob), ValidatorAuthority: owners(bob), DelegationShares: 5, Period: 77,
			},
			ledger.Unknown,
			ledger.Tx{Staker: &ledger.Staker{
				NodeID: ids.NodeID{19: 1}, Weight: 700, Start: started, End: started.Add(77 * time.Second), Shares: 5, RewardAddresses: []ids.ShortID{alice},
				PublicKey: proof.PublicKey[:], ProofOfPossession: proof.ProofOfPossession[:], Renewing: true,
			}},
		},
		"SetAutoRenewedValidatorConfigTx": {
			&txs.SetAutoRenewedValidatorConfigTx{BaseTx: common(), TxID: ids.ID{20}, Auth: &secp256k1fx.Input{}, Period: 5},
			ledger.Unknown, ledger.Tx{},
		},
	}
}

// proposals are the kinds that take effect with the option that follows.
var proposals = []string{"AdvanceTimeTx", "RewardValidatorTx", "RewardAutoRenewedValidatorTx"}

// TestKindsOfTransactions compares the ledger's result for each kind with the library's inputs, outputs and L1
// balances.
func TestKindsOfTransactions(t *testing.T) {
	tested := map[string]bool{}
	for _, name := range proposals {
		tested[name] = true
	}
	for name, test := range kinds() {
		tested[reflect.TypeOf(test.tx).Elem().Name()] = true
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, constants.LocalID)
			owner := message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{bob, alice}}
			require.NoError(t, h.state.OpenL1(ids.ID{9}.Append(0), 500, owner))
			h.state.Renew(ids.ID{20})

			tx := accepted(test.tx)
			b := h.add(standard(started, tx))
			require.Len(t, b.Txs, 1)
			require.Equal(t, started, b.Time)
			got := b.Txs[0]

			ins, outs, producedAVAX, err := utxo.GetInputOutputs(tx.Unsigned)
			require.NoError(t, err)
			require.Equal(t, producedAVAX, got.L1Balance)
			require.Len(t, got.Consumed, len(ins))
			conserved := int64(got.L1Refund) - int64(got.L1Balance)
			for i, in := range ins {
				require.Equal(t, in.InputID(), got.Consumed[i].OutputID)
				require.Equal(t, in.In.Amount(), got.Consumed[i].Amount)
				require.Equal(t, avaxID, got.Consumed[i].AssetID)
				source := constants.PlatformChainID
				if i >= 2 {
					source = xChain
				}
				require.Equal(t, source, got.Consumed[i].SourceChainID)
				conserved += int64(got.Consumed[i].Amount)
			}
			if got.L1Refund > 0 {
				outs = append(slices.Clone(outs), &avax.TransferableOutput{
					Asset: avax.Asset{ID: avaxID},
					Out:   &secp256k1fx.TransferOutput{Amt: 500, OutputOwners: *owners(bob, alice)},
				})
			}
			require.Len(t, got.Made, len(outs))
			for i, out := range outs {
				made := got.Made[i]
				conserved -= int64(made.Amount)
				require.Equal(t, out.Out.Amount(), made.Amount)
				want := &avax.UTXO{UTXOID: avax.UTXOID{TxID: tx.ID(), OutputIndex: uint32(i)}, Asset: out.Asset, Out: out.Out}
				require.Equal(t, want.InputID(), made.ID)
				require.Equal(t, must(txs.Codec.Marshal(txs.CodecVersion, want)), made.Bytes)
				require.Equal(t, uint32(i), made.Index)
				require.Equal(t, ledger.Transfer, made.Kind)
				locked, isLocked := out.Out.(*stakeable.LockOut)
				if isLocked {
					require.Equal(t, locked.Locktime, made.StakeableLocktime)
				} else {
					require.Zero(t, made.StakeableLocktime)
				}
				role, destination := ledger.Ordinary, constants.PlatformChainID
				_, isExport := test.tx.(*txs.ExportTx)
				_, stakes := test.tx.(txs.PermissionlessStaker)
				switch {
				case i >= 2 && isExport:
					role, destination = ledger.Exported, xChain
				case i >= 2 && stakes:
					role = ledger.Stake
				}
				require.Equal(t, role, made.Role, "role of output %d", i)
				require.Equal(t, destination, made.DestinationID)
			}
			require.GreaterOrEqual(t, conserved, int64(0), "burned fee")

			test.want.ID, test.want.Kind, test.want.Memo = tx.ID(), test.kind, []byte("memo")
			test.want.Consumed, test.want.Made = got.Consumed, got.Made
			if s := test.want.Subnet; s != nil && s.Created {
				s.SubnetID = tx.ID()
			}
			require.Equal(t, test.want, got)
		})
	}
	visitor := reflect.TypeFor[txs.Visitor]()
	for i := range visitor.NumMethod() {
		if name := visitor.Method(i).Name; !tested[name] {
			t.Errorf("no test covers %s", name)
		}
	}
}

// TestHistoryBeforeBanff decodes blocks from before Banff, which have no time and propose stakers.
func TestHistoryBeforeBanff(t *testing.T) {
	h := newHistory(t, constants.MainnetID)
	// This test's chain starts after Banff, which the decoder permits.
	proposed := &txs.AddValidatorTx{BaseTx: common(), Validator: staker(700), StakeOuts: []*avax.TransferableOutput{pay(700, alice)}, RewardsOwner: owners(bob)}
	add := accepted(proposed)

	b := h.add(apricot(add))
	require.Empty(t, b.Txs, "a proposal counts with the block that decides it")
	require.Equal(t, started, b.Time)
	b = h.add(apricotOption(true))
	require.Len(t, b.Txs, 1)
	require.Equal(t, add.ID(), b.Txs[0].ID)
	require.False(t, b.Txs[0].Aborted)
	require.NotNil(t, b.Txs[0].Staker)
	require.Equal(t, []ledger.Role{ledger.Ordinary, ledger.Ordinary, ledger.Stake}, roles(b.Txs[0]))

	h.add(apricot(add))
	b = h.add(apricotOption(false))
	require.True(t, b.Txs[0].Aborted)
	require.Nil(t, b.Txs[0].Staker)
	require.Len(t, b.Txs[0].Consumed, 2)
	require.Equal(t, []ledger.Role{ledger.Ordinary, ledger.Ordinary, ledger.Ordinary}, roles(b.Txs[0]), "the stake is unlocked")

	later := started.Add(time.Hour)
	advance := accepted(&txs.AdvanceTimeTx{Time: uint64(later.Unix())})
	h.add(apricot(advance))
	b = h.add(apricotOption(false))
	require.Equal(t, started, b.Time, "the time is not moved")
	h.add(apricot(advance))
	b = h.add(apricotOption(true))
	require.Equal(t, later, b.Time)
	require.Equal(t, []ledger.Tx{{ID: advance.ID(), Kind: "AdvanceTimeTx"}}, b.Txs)

	transfer := accepted(&txs.ExportTx{BaseTx: common(), DestinationChain: xChain, ExportedOutputs: []*avax.TransferableOutput{pay(1, bob)}})
	b = h.add(func(parent ids.ID, height uint64) block.Block {
		return must(block.NewApricotAtomicBlock(parent, height, transfer))
	})
	require.Equal(t, later, b.Time)
	require.Len(t, b.Txs, 1)
	b = h.add(func(parent ids.ID, height uint64) block.Block {
		return must(block.NewApricotStandardBlock(parent, height, []*txs.Tx{transfer}))
	})
	require.Equal(t, later, b.Time)

	h.add(apricot(accepted(&txs.AdvanceTimeTx{Time: 1})))
	_, err := h.try(apricotOption(true))
	require.ErrorIs(t, err, pchain.ErrTransaction, "time goes backwards")
}

// TestStartOfPeriods requires that before Durango a period starts at the transaction's start time.
func TestStartOfPeriods(t *testing.T) {
	durango := time.Date(2024, time.March, 6, 16, 0, 0, 0, time.UTC)
	for at, planned := range map[time.Time]bool{durango.Add(-time.Second): true, durango: false} {
		for name, test := range kinds() {
			scheduled, ok := test.tx.(txs.ScheduledStaker)
			if !ok {
				continue
			}
			tx := accepted(test.tx)
			b := must(pchain.ParseBlock(must(block.NewBanffStandardBlock(at, ids.ID{1}, 5, []*txs.Tx{tx})).Bytes()))
			d, _, _ := newDecoder(t, constants.MainnetID, &answers{})
			got, err := d.Ledger(t.Context(), pchain.StateBefore(b, at, nil), b)
			require.NoError(t, err)
			want := at
			if planned {
				want = scheduled.StartTime().UTC()
			}
			require.Equal(t, want, got.Txs[0].Staker.Start, "%s at %s", name, at)
		}
	}
}

func roles(tx ledger.Tx) []ledger.Role {
	var all []ledger.Role
	for _, out := range tx.Made {
		all = append(all, out.Role)
	}
	return all
}

func reward(txID ids.ID, index uint32, amount uint64, to ids.ShortID) []byte {
	return must(txs.GenesisCodec.Marshal(txs.CodecVersion, &avax.UTXO{
		UTXOID: avax.UTXOID{TxID: txID, OutputIndex: index}, Asset: avax.Asset{ID: avaxID},
		Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: *owners(to)},
	}))
}

func TestRewards(t *testing.T) {
	validation := accepted(kinds()["AddPermissionlessValidatorTx"].tx) // alice's, commission to bob
	same := accepted(kinds()["AddValidatorTx"].tx)                     // all to bob
	delegation := accepted(kinds()["AddDelegatorTx"].tx)               // alice's
	subnetValidation := accepted(kinds()["AddSubnetValidatorTx"].tx)
	const first = 4 // two ordinary and two stake outputs come before
	for name, test := range map[string]struct {
		staking *txs.Tx
		aborted bool
		utxos   [][]byte
		roles   []ledger.Role
		err     error
	}{
		"nothing":                      {staking: validation},
		"nothing, refused":             {staking: validation, aborted: true},
		"own":                          {validation, false, [][]byte{reward(validation.ID(), first, 1, alice)}, []ledger.Role{ledger.ValidationReward}, nil},
		"own and commission":           {validation, false, [][]byte{reward(validation.ID(), first, 1, alice), reward(validation.ID(), first+1, 2, bob)}, []ledger.Role{ledger.ValidationReward, ledger.Commission}, nil},
		"commission only":              {validation, false, [][]byte{reward(validation.ID(), first, 2, bob)}, []ledger.Role{ledger.Commission}, nil},
		"commission although refused":  {same, true, [][]byte{reward(same.ID(), first, 2, bob)}, []ledger.Role{ledger.Commission}, nil},
		"own, one owner of all":        {same, false, [][]byte{reward(same.ID(), first, 2, bob)}, []ledger.Role{ledger.ValidationReward}, nil},
		"delegation":                   {delegation, false, [][]byte{reward(delegation.ID(), first, 3, alice)}, []ledger.Role{ledger.DelegationReward}, nil},
		"delegation before Cortina":    {delegation, false, [][]byte{reward(delegation.ID(), first, 3, alice), reward(delegation.ID(), first+1, 1, bob)}, []ledger.Role{ledger.DelegationReward, ledger.Commission}, nil},
		"all of it commission":         {delegation, false, [][]byte{reward(delegation.ID(), first, 1, bob)}, []ledger.Role{ledger.Commission}, nil},
		"wrong place":                  {validation, false, [][]byte{reward(validation.ID(), first+1, 1, alice)}, nil, pchain.ErrReward},
		"of another transaction":       {validation, false, [][]byte{reward(delegation.ID(), first, 1, alice)}, nil, pchain.ErrReward},
		"too many":                     {validation, false, [][]byte{reward(validation.ID(), first, 1, alice), reward(validation.ID(), first+1, 1, alice), reward(validation.ID(), first+2, 1, alice)}, nil, pchain.ErrReward},
		"the same output twice":        {validation, false, [][]byte{reward(validation.ID(), first, 1, alice), reward(validation.ID(), first, 1, alice)}, nil, pchain.ErrReward},
		"a gap":                        {validation, false, [][]byte{reward(validation.ID(), first+2, 1, alice), reward(validation.ID(), first, 1, alice)}, nil, pchain.ErrReward},
		"newest first":                 {validation, false, [][]byte{reward(validation.ID(), first+1, 2, bob), reward(validation.ID(), first, 1, alice)}, []ledger.Role{ledger.ValidationReward, ledger.Commission}, nil},
		"no output":                    {validation, false, [][]byte{{0, 0, 1}}, nil, pchain.ErrReward},
		"for those who have no reward": {subnetValidation, false, nil, nil, pchain.ErrTransaction},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, constants.LocalID)
			h.add(standard(started, validation))
			if test.staking != validation {
				h.add(standard(started, test.staking))
			}
			ended := accepted(&txs.RewardValidatorTx{TxID: test.staking.ID()})
			beside := accepted(kinds()["BaseTx"].tx)
			b := h.add(proposal(started, ended, beside))
			require.Len(t, b.Txs, 1, "what stands beside a proposal")
			require.Equal(t, beside.ID(), b.Txs[0].ID)

			// An error of the node leaves the state unchanged.
			h.node.err = errors.New("away")
			_, err := h.try(option(started, !test.aborted))
			if errors.Is(test.err, pchain.ErrTransaction) {
				require.ErrorIs(t, err, test.err)
				require.Zero(t, h.node.asked)
				return
			}
			require.ErrorContains(t, err, "away")
			for _, final := range []error{pchain.ErrOutOfOrder, pchain.ErrReward, pchain.ErrTransaction} {
				require.NotErrorIs(t, err, final)
			}
			h.node.err = nil
			h.node.rewards[test.staking.ID()] = test.utxos

			decided := h.height + 1
			b, err = h.try(option(started, !test.aborted))
			require.Equal(t, h.node.height, decided, "the reward is requested at the option's height")
			if test.err != nil {
				for range 20 { // the node may list a part
					require.ErrorContains(t, err, "retrying")
					require.NotErrorIs(t, err, test.err)
					_, err = h.try(option(started, !test.aborted))
				}
				require.ErrorIs(t, err, test.err)
				return
			}
			if !test.aborted && len(test.utxos) == 0 { // whether outputs are missing is unknown, as the supply is
				for range 20 {
					require.ErrorContains(t, err, "it may not have executed the block yet")
					b, err = h.try(option(started, !test.aborted))
				}
			}
			require.NoError(t, err)
			require.Len(t, b.Txs, 1)
			got := b.Txs[0]
			require.Equal(t, test.roles, roles(got))
			for i, out := range got.Made {
				require.Contains(t, test.utxos, out.Bytes)
				require.Equal(t, test.staking.ID(), out.TxID)
				require.Equal(t, uint32(first+i), out.Index)
				require.NotZero(t, out.Amount)
			}
			got.Made = nil
			require.Equal(t, ledger.Tx{
				ID: ended.ID(), Kind: "RewardValidatorTx", Aborted: test.aborted,
				Settled: &ledger.Settlement{
					StakingTxID: test.staking.ID(), Weight: got.Settled.Weight, Start: got.Settled.Start, End: got.Settled.End, Rewarded: !test.aborted,
				},
			}, got)
		})
	}
}

// TestRenewals requires that an auto-renewed validator continues until it is stopped or denied a reward.
func TestRenewals(t *testing.T) {
	h := newHistory(t, constants.LocalID)
	add := accepted(kinds()["AddAutoRenewedValidatorTx"].tx) // 77 s; alice's, commission to bob
	h.add(standard(started, add))

	end := started
	settle := func(commit bool, seconds int, utxos func(ids.ID) [][]byte) ledger.Tx {
		t.Helper()
		end = end.Add(time.Duration(seconds) * time.Second)
		ended := accepted(&txs.RewardAutoRenewedValidatorTx{TxID: add.ID(), Timestamp: uint64(end.Unix())})
		h.node.rewards[ended.ID()] = utxos(ended.ID())
		h.add(proposal(end, ended))
		b := h.add(option(end, commit))
		require.Len(t, b.Txs, 1)
		require.Equal(t, ledger.Unknown, b.Txs[0].Kind)
		require.Equal(t, add.ID(), b.Txs[0].Settled.StakingTxID)
		for i, out := range b.Txs[0].Made {
			require.Equal(t, ended.ID(), out.TxID, "each period has its own outputs")
			require.Equal(t, uint32(i), out.Index)
		}
		return b.Txs[0]
	}
	both := func(id ids.ID) [][]byte { return [][]byte{reward(id, 0, 5, alice), reward(id, 1, 6, bob)} }
	none := func(ids.ID) [][]byte { return nil }

	tx := settle(true, 77, both)
	require.Equal(t, []ledger.Role{ledger.ValidationReward, ledger.Commission}, roles(tx))
	require.Equal(t, end.Add(77*time.Second), tx.Settled.RenewedUntil)

	h.add(standard(end, accepted(&txs.SetAutoRenewedValidatorConfigTx{BaseTx: common(), TxID: add.ID(), Auth: &secp256k1fx.Input{}, Period: 10})))
	tx = settle(true, 77, none)
	require.Equal(t, end.Add(10*time.Second), tx.Settled.RenewedUntil)

	h.add(standard(end, accepted(&txs.SetAutoRenewedValidatorConfigTx{BaseTx: common(), TxID: add.ID(), Auth: &secp256k1fx.Input{}})))
	tx = settle(true, 10, func(id ids.ID) [][]byte { return [][]byte{reward(id, 0, 6, bob)} })
	require.Zero(t, tx.Settled.RenewedUntil, "the validator stops")
	require.True(t, tx.Settled.Rewarded)
	require.Equal(t, []ledger.Role{ledger.Commission}, roles(tx))

	_, err := h.try(standard(end, accepted(&txs.SetAutoRenewedValidatorConfigTx{BaseTx: common(), TxID: add.ID(), Auth: &secp256k1fx.Input{}})))
	require.ErrorIs(t, err, pchain.ErrTransaction, "the validator has stopped")

	again := newHistory(t, constants.LocalID)
	again.add(standard(started, add))
	h, end = again, started
	tx = settle(false, 77, func(id ids.ID) [][]byte { return [][]byte{reward(id, 0, 5, alice)} })
	require.Zero(t, tx.Settled.RenewedUntil, "the reward is denied")
	require.False(t, tx.Settled.Rewarded)
	require.Equal(t, []ledger.Role{ledger.ValidationReward}, roles(tx), "what earlier periods earned is paid")
}

// TestL1Refunds requires that an L1 validator gets back its balance minus the fees.
func TestL1Refunds(t *testing.T) {
	h := newHistory(t, constants.LocalID) // 3 nAVAX a second
	convert := kinds()["ConvertSubnetToL1Tx"].tx.(*txs.ConvertSubnetToL1Tx)
	convert.Validators[0].RemainingBalanceOwner = message.PChainOwner{Threshold: 2, Addresses: []ids.ShortID{bob, alice}}
	at := started
	step := func(seconds int, unsigned ...txs.UnsignedTx) *ledger.Block {
		t.Helper()
		at = at.Add(time.Duration(seconds) * time.Second)
		var all []*txs.Tx
		for _, tx := range unsigned {
			all = append(all, accepted(tx))
		}
		return h.add(standard(at, all...))
	}
	first, second := convert.Subnet.Append(0), convert.Subnet.Append(1)
	step(5, convert) // 100 and 50
	disable := func(id ids.ID) txs.UnsignedTx {
		return &txs.DisableL1ValidatorTx{BaseTx: common(), ValidationID: id, DisableAuth: &secp256k1fx.Input{}}
	}
	tx := step(10, disable(first)).Txs[0]
	require.Equal(t, uint64(70), tx.L1Refund)
	require.Len(t, tx.Made, 3)
	refund := tx.Made[2]
	require.Equal(t, uint64(70), refund.Amount)
	require.Equal(t, []ids.ShortID{bob, alice}, refund.Addresses)
	require.Equal(t, uint32(2), refund.Threshold)
	require.Equal(t, ledger.Ordinary, refund.Role)
	require.Equal(t, avaxID, refund.AssetID)

	require.Zero(t, step(1, disable(first)).Txs[0].L1Refund, "the validator is inactive")
	increase := &txs.IncreaseL1ValidatorBalanceTx{BaseTx: common(), ValidationID: first, Balance: 31}
	step(4, increase)
	tx = step(1, disable(second)).Txs[0] // 16 s at 3
	require.Equal(t, uint64(2), tx.L1Refund, "of 50")
	// 28 nAVAX are left: enough for nine seconds, not for ten.
	remove := &txs.SetL1ValidatorWeightTx{BaseTx: common(), Message: managerSays(message.NewL1ValidatorWeight(first, 0, 0))}
	step(9)
	require.Zero(t, step(0, remove).Txs[0].L1Refund)
	_, err := h.try(standard(at, accepted(remove)))
	require.ErrorIs(t, err, pchain.ErrTransaction, "it is removed twice")
}

func TestOutOfOrder(t *testing.T) {
	h := newHistory(t, constants.LocalID)
	other := must(pchain.ParseBlock(must(block.NewApricotCommitBlock(ids.ID{'o'}, 0)).Bytes()))
	_, err := h.decoder.Ledger(t.Context(), pchain.NewState(), other)
	require.ErrorIs(t, err, pchain.ErrOutOfOrder, "the genesis block of another network")

	for name, made := range map[string]func(ids.ID, uint64) block.Block{
		"a gap":            func(p ids.ID, height uint64) block.Block { return standard(started)(p, height+1) },
		"another parent":   func(_ ids.ID, height uint64) block.Block { return standard(started)(ids.ID{1}, height) },
		"a lonely option":  option(started, true),
		"going backwards":  standard(started.Add(-time.Second)),
		"a reward outside": standard(started, accepted(&txs.RewardValidatorTx{TxID: ids.ID{1}})),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.try(made)
			want := pchain.ErrOutOfOrder
			if name == "going backwards" || name == "a reward outside" {
				want = pchain.ErrTransaction
			}
			require.ErrorIs(t, err, want)
		})
	}
	h = newHistory(t, constants.LocalID)
	h.add(proposal(started, accepted(&txs.RewardValidatorTx{TxID: ids.ID{1}})))
	_, err = h.try(standard(started))
	require.ErrorIs(t, err, pchain.ErrOutOfOrder, "a proposal without a decision")
}

func TestNewDecoder(t *testing.T) {
	whole := pchain.DecoderOptions{Genesis: &ledger.Block{}, AVAXAssetID: avaxID, Node: &answers{}}
	_, err := pchain.NewDecoder(whole)
	require.NoError(t, err)
	for _, without := range []func(*pchain.DecoderOptions){
		func(o *pchain.DecoderOptions) { o.Genesis = nil },
		func(o *pchain.DecoderOptions) { o.AVAXAssetID = ids.Empty },
		func(o *pchain.DecoderOptions) { o.Node = nil },
	} {
		o := whole
		without(&o)
		_, err := pchain.NewDecoder(o)
		require.Error(t, err)
	}
}
