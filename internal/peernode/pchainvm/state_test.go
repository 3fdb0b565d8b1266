package pchainvm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/linkeddb"
	"github.com/ava-labs/avalanchego/database/memdb"
	"github.com/ava-labs/avalanchego/database/prefixdb"
	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	platformgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/genesis"
	"quorate/internal/peernode/checkpoint"
)

// runner executes a chain.
type runner struct {
	t     testing.TB
	db    database.Database
	o     Options
	chain *Chain
}

// lasting is a database that outlasts a chain.
type lasting struct{ *memdb.Database }

func (lasting) Close() error { return nil }

// newRunner opens a chain. It begins with a checkpoint unless that is nil.
func newRunner(t testing.TB, networkID uint32, startTime uint64, upgrades upgrade.Config, begin []byte) *runner {
	t.Helper()
	c := *avagenesis.GetConfig(networkID)
	c.StartTime = startTime
	g, err := genesis.FromConfig(&c)
	require.NoError(t, err)
	e := &runner{t: t, db: lasting{memdb.New()}, o: Options{
		Genesis: g.Bytes, NetworkID: networkID, AVAXAssetID: g.AVAXAssetID, XChainID: g.XChainID, CChainID: g.CChainID, Upgrades: upgrades,
	}}
	if begin != nil {
		section := prefixdb.New([]byte("state"), e.db)
		r, err := checkpoint.NewReader(bytes.NewReader(begin))
		require.NoError(t, err)
		defer r.Close()
		for {
			key, value, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NoError(t, section.Put(key, value))
		}
	}
	e.open()
	t.Cleanup(e.close)
	return e
}

func (e *runner) open() {
	e.o.Database = prefixdb.New([]byte("state"), e.db) // the VM closes it
	var err error
	e.chain, err = Open(e.t.Context(), e.o)
	require.NoError(e.t, err)
}

func (e *runner) close() { require.NoError(e.t, e.chain.Close()) }

func (e *runner) restart() { e.close(); e.open() }

// export returns a checkpoint of the present state, and its hash.
func (e *runner) export() ([]byte, ids.ID, *State) {
	s, err := e.chain.State(e.t.Context())
	require.NoError(e.t, err)
	defer s.Release()
	var b bytes.Buffer
	hash, err := checkpoint.Write(&b, checkpoint.Header{Height: s.Height, BlockID: s.BlockID, Time: s.Time}, func(put func(key, value []byte) error) error {
		return s.Pairs(e.t.Context(), put)
	})
	require.NoError(e.t, err)
	return b.Bytes(), hash, s
}

// compare executes blocks in several ways and compares the states after each block.
func compare(t *testing.T, networkID uint32, startTime uint64, upgrades upgrade.Config, blocks [][]byte) {
	t.Helper()
	straight := newRunner(t, networkID, startTime, upgrades, nil)
	var files [][]byte
	var hashes []ids.ID
	for i, b := range blocks {
		require.NoError(t, straight.chain.Execute(t.Context(), b), "block %d", i+1)
		file, hash, s := straight.export()
		require.LessOrEqual(t, s.Height, uint64(i+1))
		files, hashes = append(files, file), append(hashes, hash)
	}
	restarted := newRunner(t, networkID, startTime, upgrades, nil)
	for i, b := range blocks {
		require.NoError(t, restarted.chain.Execute(t.Context(), b))
		_, hash, s := restarted.export()
		require.Equal(t, hashes[i], hash, "restarted, block %d", i+1)
		if i%3 == 0 {
			restarted.restart()
			_, hash, _ := restarted.export()
			require.Equal(t, hashes[i], hash, "just restarted, block %d", i+1)
			if s.Height == uint64(i) { // the VM begins below a proposal
				require.NoError(t, restarted.chain.Execute(t.Context(), b))
			}
		}
	}
	for _, from := range []int{1, len(blocks) / 3, len(blocks) * 2 / 3} {
		imported := newRunner(t, networkID, startTime, upgrades, files[from-1])
		_, height, err := imported.chain.LastAccepted(t.Context())
		require.NoError(t, err)
		_, hash, _ := imported.export()
		require.Equal(t, hashes[from-1], hash, "imported at height %d", height)
		for i := int(height); i < len(blocks); i++ {
			require.NoError(t, imported.chain.Execute(t.Context(), blocks[i]))
			_, hash, _ := imported.export()
			require.Equal(t, hashes[i], hash, "imported at height %d, block %d", height, i+1)
		}
		compareAnswers(t, straight.chain, imported.chain)
	}
}

// compareAnswers compares the validators of all subnets at all heights.
func compareAnswers(t *testing.T, a, b *Chain) {
	t.Helper()
	tip, err := a.vm.GetCurrentHeight(t.Context())
	require.NoError(t, err)
	for h := uint64(0); h <= tip; h++ {
		want, err := a.vm.GetWarpValidatorSets(t.Context(), h)
		require.NoError(t, err)
		got, err := b.vm.GetWarpValidatorSets(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, want, got, "height %d", h)
		primary, err := a.vm.GetValidatorSet(t.Context(), h, constants.PrimaryNetworkID)
		require.NoError(t, err)
		other, err := b.vm.GetValidatorSet(t.Context(), h, constants.PrimaryNetworkID)
		require.NoError(t, err)
		require.Equal(t, primary, other, "height %d", h)
	}
}

// TestStateOfRealBlocks exports the state after each block of a real network: executed at once, with restarts, and from a
// checkpoint on.
func TestStateOfRealBlocks(t *testing.T) {
	r := record(t)
	var blocks [][]byte
	for _, b := range r.P {
		if e, ok := envelope.Open(b); ok {
			b = e.Block
		}
		blocks = append(blocks, b)
	}
	compare(t, r.NetworkID, r.StartTime, upgrade.GetConfig(r.NetworkID), blocks)
}

// traffic builds blocks.
type traffic struct {
	t       testing.TB
	r       *recording
	rand    *rand.Rand
	utxo    avax.UTXO
	left    uint64
	owner   secp256k1fx.OutputOwners
	subnets []ids.ID
	nodes   []staker // validators
	stakers []staker
	count   int
	at      time.Time
}

type staker struct {
	nodeID   ids.NodeID
	txID     ids.ID
	end      time.Time
	rewarded bool // a proposal ends it
}

func newTraffic(t testing.TB, r *recording, seed uint64) *traffic {
	c := *avagenesis.GetConfig(r.NetworkID)
	c.StartTime = r.StartTime
	g, err := genesis.FromConfig(&c)
	require.NoError(t, err)
	x := &traffic{
		t: t, r: r, rand: rand.New(rand.NewPCG(seed, 1)), at: time.Unix(int64(r.StartTime), 0).Add(time.Hour),
		owner: secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{avagenesis.EWOQKey.Address()}},
	}
	parsed, err := platformgenesis.Parse(g.Bytes)
	require.NoError(t, err)
	for _, u := range parsed.UTXOs {
		if out, ok := u.Out.(*secp256k1fx.TransferOutput); ok && out.OutputOwners.Equals(&x.owner) {
			x.utxo, x.left = u.UTXO, out.Amt
		}
	}
	require.NotZero(t, x.left, "the key has no output at the beginning")
	return x
}

// base returns the inputs and outputs of a transaction that needs amount. Some is sent to other addresses.
func (x *traffic) base(amount uint64, recipients int) txs.BaseTx {
	const fee = 100 * units.MilliAvax
	tx := txs.BaseTx{BaseTx: avax.BaseTx{
		NetworkID: x.r.NetworkID, BlockchainID: constants.PlatformChainID,
		Ins: []*avax.TransferableInput{{UTXOID: x.utxo.UTXOID, Asset: x.utxo.Asset, In: &secp256k1fx.TransferInput{Amt: x.left, Input: secp256k1fx.Input{SigIndices: []uint32{0}}}}},
	}}
	x.left -= amount + fee
	for range recipients {
		to := ids.ShortID{byte(x.rand.IntN(8)), 1}
		tx.Outs = append(tx.Outs, &avax.TransferableOutput{Asset: x.utxo.Asset, Out: &secp256k1fx.TransferOutput{Amt: 1 + x.rand.Uint64N(1000), OutputOwners: secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{to}}}})
	}
	for _, out := range tx.Outs {
		x.left -= out.Out.Amount()
	}
	tx.Outs = append(tx.Outs, &avax.TransferableOutput{Asset: x.utxo.Asset, Out: &secp256k1fx.TransferOutput{Amt: x.left, OutputOwners: x.owner}})
	avax.SortTransferableOutputs(tx.Outs, txs.Codec)
	return tx
}

func (x *traffic) stake(amount uint64) []*avax.TransferableOutput {
	return []*avax.TransferableOutput{{Asset: x.utxo.Asset, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: x.owner}}}
}

// tx returns a random transaction that spends what the last one left.
func (x *traffic) tx() *txs.Tx {
	var unsigned txs.UnsignedTx
	const stake = 2 * units.KiloAvax
	// Stakers end one after the other.
	period := txs.Validator{Start: uint64(x.at.Unix()), End: uint64(x.at.Add(24*time.Hour + time.Duration(x.count)*time.Second).Unix()), Wght: 25 * units.Avax}
	validators := slices.DeleteFunc(slices.Clone(x.nodes), func(s staker) bool { return uint64(s.end.Unix()) <= period.End })
	if len(validators) > 0 {
		period.NodeID = validators[x.rand.IntN(len(validators))].nodeID
	}
	switch kind := x.rand.IntN(6); {
	case kind == 0:
		unsigned = &txs.CreateSubnetTx{BaseTx: x.base(0, 0), Owner: &x.owner}
	case kind == 1 && len(x.subnets) > 0:
		unsigned = &txs.CreateChainTx{BaseTx: x.base(0, 1), SubnetID: x.subnets[x.rand.IntN(len(x.subnets))], ChainName: "chain", VMID: ids.ID{1}, GenesisData: []byte{1}, SubnetAuth: &secp256k1fx.Input{SigIndices: []uint32{0}}}
	case kind == 2:
		secret, err := localsigner.New()
		require.NoError(x.t, err)
		pop, err := signer.NewProofOfPossession(secret)
		require.NoError(x.t, err)
		period.NodeID, period.Wght = ids.NodeID{byte(x.count), byte(x.count >> 8), byte(x.rand.IntN(256))}, stake
		if x.rand.IntN(2) == 0 {
			period.End += 14 * 24 * 60 * 60
		}
		unsigned = &txs.AddPermissionlessValidatorTx{
			BaseTx: x.base(stake, 0), Validator: period, Subnet: constants.PrimaryNetworkID, Signer: pop, StakeOuts: x.stake(stake),
			ValidatorRewardsOwner: &x.owner, DelegatorRewardsOwner: &x.owner, DelegationShares: 20_000,
		}
	case kind == 3 && len(validators) > 0:
		unsigned = &txs.AddPermissionlessDelegatorTx{
			BaseTx: x.base(period.Wght, 0), Validator: period, Subnet: constants.PrimaryNetworkID, StakeOuts: x.stake(period.Wght), DelegationRewardsOwner: &x.owner,
		}
	case kind == 4 && len(x.subnets) > 0 && len(validators) > 0:
		subnet := x.subnets[len(x.subnets)-1]
		x.subnets = x.subnets[:len(x.subnets)-1] // a node validates a subnet once
		unsigned = &txs.AddSubnetValidatorTx{BaseTx: x.base(0, 0), SubnetValidator: txs.SubnetValidator{Validator: period, Subnet: subnet}, SubnetAuth: &secp256k1fx.Input{SigIndices: []uint32{0}}}
	default:
		base := x.base(0, 4)
		unsigned = &base
	}
	tx := &txs.Tx{Unsigned: unsigned, Creds: []verify.Verifiable{&secp256k1fx.Credential{Sigs: make([][65]byte, 1)}}}
	switch unsigned.(type) {
	case *txs.CreateChainTx, *txs.AddSubnetValidatorTx:
		tx.Creds = append(tx.Creds, &secp256k1fx.Credential{Sigs: make([][65]byte, 1)})
	}
	require.NoError(x.t, tx.Initialize(txs.Codec))
	added := staker{period.NodeID, tx.ID(), time.Unix(int64(period.End), 0), true}
	switch unsigned.(type) {
	case *txs.CreateSubnetTx:
		x.subnets = append(x.subnets, tx.ID())
	case *txs.AddPermissionlessValidatorTx:
		x.count, x.stakers, x.nodes = x.count+1, append(x.stakers, added), append(x.nodes, added)
	case *txs.AddPermissionlessDelegatorTx:
		x.count, x.stakers = x.count+1, append(x.stakers, added)
	case *txs.AddSubnetValidatorTx:
		added.rewarded = false
		x.count, x.stakers = x.count+1, append(x.stakers, added)
	}
	for i, out := range unsigned.Outputs() {
		if t := out.Out.(*secp256k1fx.TransferOutput); t.Amt == x.left && t.OutputOwners.Equals(&x.owner) {
			x.utxo.UTXOID = avax.UTXOID{TxID: tx.ID(), OutputIndex: uint32(i)}
		}
	}
	return tx
}

// blocks returns blocks of random traffic. Some stakers end, by proposals and the blocks that decide about them.
func (x *traffic) blocks(e *runner, n int) (all [][]byte) {
	execute := func(b block.Block, err error) {
		require.NoError(x.t, err)
		require.NoError(x.t, e.chain.Execute(x.t.Context(), b.Bytes()))
		all = append(all, b.Bytes())
	}
	for len(all) < n {
		parent, height, err := e.chain.LastAccepted(x.t.Context())
		require.NoError(x.t, err)
		slices.SortFunc(x.stakers, func(a, b staker) int { return a.end.Compare(b.end) })
		at := x.at.Add(time.Minute)
		if len(x.stakers) > 0 && (x.rand.IntN(8) == 0 || !at.Before(x.stakers[0].end)) {
			ended := x.stakers[0]
			at, x.stakers = ended.end, x.stakers[1:]
			if ended.rewarded {
				x.at = at
				x.nodes = slices.DeleteFunc(x.nodes, func(s staker) bool { return s.txID == ended.txID })
				tx := &txs.Tx{Unsigned: &txs.RewardValidatorTx{TxID: ended.txID}}
				require.NoError(x.t, tx.Initialize(txs.Codec))
				b, err := block.NewBanffProposalBlock(at, parent, height+1, tx, nil)
				execute(b, err)
				if x.rand.IntN(3) == 0 {
					execute(newBlock(block.NewBanffAbortBlock(at, b.ID(), height+2)))
				} else {
					execute(newBlock(block.NewBanffCommitBlock(at, b.ID(), height+2)))
				}
				continue
			}
		}
		x.at = at
		var list []*txs.Tx
		for range 1 + x.rand.IntN(6) {
			list = append(list, x.tx())
		}
		execute(newBlock(block.NewBanffStandardBlock(x.at, parent, height+1, list)))
	}
	return all
}

func newBlock[B block.Block](b B, err error) (block.Block, error) { return b, err }

// TestStateOfRandomBlocks is TestStateOfRealBlocks with random transactions, many of them in a block, before and after
// Helicon.
//
//test:plain
func TestStateOfRandomBlocks(t *testing.T) {
	r := record(t)
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			upgrades := upgrade.GetConfig(r.NetworkID)
			if seed == 1 {
				upgrades.HeliconTime = time.Unix(int64(r.StartTime), 0).Add(2 * 24 * time.Hour)
			}
			e := newRunner(t, r.NetworkID, r.StartTime, upgrades, nil)
			compare(t, r.NetworkID, r.StartTime, upgrades, newTraffic(t, r, seed).blocks(e, 60))
		})
	}
}

// TestStateIsWhole changes each value of the database in turn, among them the weights of validators. The hash changes,
// except for what a State leaves out.
//
//test:plain
func TestStateIsWhole(t *testing.T) {
	r := record(t)
	e := newRunner(t, r.NetworkID, r.StartTime, upgrade.GetConfig(r.NetworkID), nil)
	for _, b := range newTraffic(t, r, 3).blocks(e, 30) {
		_, err := block.Parse(block.Codec, b)
		require.NoError(t, err)
	}
	_, want, last := e.export()
	db := prefixdb.New([]byte("state"), e.db)
	hash := func() (ids.ID, error) {
		s, err := e.chain.State(t.Context())
		if err != nil {
			return ids.Empty, err
		}
		defer s.Release()
		return checkpoint.Write(io.Discard, checkpoint.Header{Height: s.Height, BlockID: s.BlockID, Time: s.Time}, func(put func(key, value []byte) error) error {
			return s.Pairs(t.Context(), put)
		})
	}
	pairs := make(map[string][]byte)
	it := db.NewIterator()
	for it.Next() {
		pairs[string(it.Key())] = bytes.Clone(it.Value())
	}
	it.Release()
	require.NoError(t, it.Error())
	changed, left := 0, 0
	for key, value := range pairs {
		section, rest := []byte(key[:sectionSize]), []byte(key[sectionSize:])
		other := append(bytes.Clone(value), 1)
		if slices.ContainsFunc(stakerLists, func(l []byte) bool { return bytes.Equal(l, section) }) {
			if rest[0] == listHead {
				continue
			}
			var node listNode
			_, err := linkeddb.Codec.Unmarshal(value, &node)
			require.NoError(t, err)
			node.Value = bytes.Clone(node.Value)
			node.Value[len(node.Value)/2]++
			other, err = linkeddb.Codec.Marshal(linkeddb.CodecVersion, &node)
			require.NoError(t, err)
		}
		require.NoError(t, db.Put([]byte(key), other))
		got, err := hash()
		require.NoError(t, db.Put([]byte(key), value))
		if err != nil || got != want {
			changed++
			continue
		}
		left++
		require.True(t, slices.ContainsFunc(unneededSections, func(s []byte) bool { return bytes.Equal(s, section) }) ||
			slices.ContainsFunc(unneededSingletons, func(s []byte) bool { return bytes.Equal(s, rest) }), "key %x", key)
	}
	again, err := hash()
	require.NoError(t, err)
	require.Equal(t, want, again)
	require.Greater(t, changed, left/4)
	require.EqualValues(t, 30, last.Height/10*10)
}
