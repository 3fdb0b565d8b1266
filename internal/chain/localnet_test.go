// Package chain contains only tests of the decoders together.
package chain

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
)

// recording holds data of real nodes (avalanchego v1.14.2, five of network 12345) after a wallet issued transactions of
// all kinds it supports: containers of the index API from the first one on, and the nodes' answers about the result. A
// program over the e2e module's localnet made it.
type recording struct {
	NetworkID          uint32
	StartTime          uint64
	XChainID, CChainID ids.ID
	// Owners are the addresses of the Utxos requests.
	Owners []ids.ShortID
	// P0 and X0 are the blocks at height 0. P and X are the containers that follow.
	P0, X0 []byte
	P, X   [][]byte
	// C are the containers with atomic transactions, and one without, by height. EthBlocks are the Ethereum API's
	// answers for the former.
	C         map[string][]byte
	EthBlocks []struct {
		Number, Hash, ParentHash, Timestamp, BlockExtraData string
	}
	// Rewards are answers of platform.getRewardUTXOs by transaction.
	Rewards map[string][][]byte
	// Utxos are answers of getUTXOs by chain (P, X) or by chain and source of outputs to import (PX: on P from X).
	Utxos map[string][][]byte
}

func record(t testing.TB) *recording {
	t.Helper()
	f, err := os.Open("testdata/localnet.json.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := new(recording)
	require.NoError(t, json.NewDecoder(z).Decode(r))
	return r
}

func (r *recording) RewardUTXOs(_ context.Context, txID ids.ID, _ uint64) ([][]byte, error) {
	utxos, ok := r.Rewards[txID.String()]
	if !ok {
		return nil, errors.New("the recording does not have this reward")
	}
	return utxos, nil
}

// unlisted is a node that does not list reward outputs.
type unlisted struct{}

func (unlisted) RewardUTXOs(context.Context, ids.ID, uint64) ([][]byte, error) {
	return nil, pchain.ErrNotOffered
}

// TestRewardsWithoutANode computes the rewards of a real network and compares their bytes with the nodes'.
func TestRewardsWithoutANode(t *testing.T) {
	r := record(t)
	config := *avagenesis.GetConfig(r.NetworkID)
	config.StartTime = r.StartTime
	g, err := genesis.FromConfig(&config)
	require.NoError(t, err)
	read := func(n pchain.Node) (blocks []*ledger.Block) {
		d, err := pchain.NewDecoder(pchain.DecoderOptions{
			NetworkID: r.NetworkID, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Node: n, Supply: g.Supply, Validators: g.Validators,
			Disagree: func(d *pchain.DifferenceError) { t.Error(d) },
		})
		require.NoError(t, err)
		state := pchain.NewState()
		for _, raw := range slices.Concat([][]byte{r.P0}, r.P) {
			parsed, err := pchain.ParseBlock(raw)
			require.NoError(t, err)
			b, err := d.Ledger(t.Context(), state, parsed)
			require.NoError(t, err)
			blocks = append(blocks, b)
		}
		return blocks
	}
	listed, computed := read(r), read(unlisted{})
	require.Equal(t, listed, computed)
	outputs := 0
	for _, b := range computed {
		for _, tx := range b.Txs {
			if tx.Settled != nil {
				outputs += len(tx.Made)
			}
		}
	}
	require.Equal(t, 4, outputs)
}

// book is the simplest set of outputs: all outputs, and which are spent.
type book struct {
	t      *testing.T
	avaxID ids.ID
	// cChainID is the chain whose accounts turn into new outputs.
	cChainID ids.ID
	made     map[ids.ID]ledger.Output
	on       map[ids.ID]ids.ID // the chain that created it
	spent    map[ids.ID]bool
	staked   map[ids.ID][]ids.ID // stake outputs by transaction
	kinds    map[ledger.Kind]int
	txs      []ledger.Tx
}

func (b *book) enter(block *ledger.Block) {
	b.t.Helper()
	for _, tx := range block.Txs {
		b.kinds[tx.Kind]++
		b.txs = append(b.txs, tx)
		balance := int64(tx.L1Refund) - int64(tx.L1Balance)
		for _, in := range tx.Consumed {
			if in.AssetID == b.avaxID {
				balance += int64(in.Amount)
			}
		}
		for _, out := range tx.Made {
			_, again := b.made[out.ID]
			require.False(b.t, again, "output %s is created twice", out.ID)
			b.made[out.ID], b.on[out.ID] = out, block.ChainID
			if out.Role == ledger.Stake {
				b.staked[tx.ID] = append(b.staked[tx.ID], out.ID)
				b.spent[out.ID] = true // until the stake ends
			}
			if out.AssetID == b.avaxID {
				balance -= int64(out.Amount)
			}
		}
		if s := tx.Settled; s != nil {
			for _, id := range b.staked[s.StakingTxID] {
				delete(b.spent, id)
			}
			continue // rewards have no inputs
		}
		if block.Height > 0 && block.ChainID != b.cChainID {
			require.GreaterOrEqual(b.t, balance, int64(0), "%s %s makes AVAX", tx.Kind, tx.ID)
		}
	}
}

// TestRecordedNetwork decodes a real network's blocks and requires the nodes' outputs, byte for byte.
func TestRecordedNetwork(t *testing.T) {
	r := record(t)
	config := *avagenesis.GetConfig(r.NetworkID)
	config.StartTime = r.StartTime
	g, err := genesis.FromConfig(&config)
	require.NoError(t, err)
	require.Equal(t, r.XChainID, g.XChainID)
	require.Equal(t, r.CChainID, g.CChainID)

	b := &book{
		t: t, avaxID: g.AVAXAssetID, cChainID: g.CChainID, made: make(map[ids.ID]ledger.Output), on: make(map[ids.ID]ids.ID),
		spent: make(map[ids.ID]bool), staked: make(map[ids.ID][]ids.ID), kinds: make(map[ledger.Kind]int),
	}

	p, err := pchain.NewDecoder(pchain.DecoderOptions{NetworkID: r.NetworkID, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Node: r, Supply: g.Supply, Validators: g.Validators, Disagree: func(d *pchain.DifferenceError) { t.Error(d) }})
	require.NoError(t, err)
	state := pchain.NewState()
	for height, raw := range slices.Concat([][]byte{r.P0}, r.P) {
		parsed, err := pchain.ParseBlock(raw)
		require.NoError(t, err)
		got, err := p.Ledger(t.Context(), state, parsed)
		require.NoError(t, err)
		require.Equal(t, uint64(height), got.Height)
		require.Equal(t, height > 0, parsed.Envelope != nil)
		b.enter(got)
	}

	x, err := xchain.NewDecoder(g.XChainID, g.X)
	require.NoError(t, err)
	var parent ids.ID
	for height, raw := range slices.Concat([][]byte{r.X0}, r.X) {
		parsed, err := x.ParseBlock(raw)
		require.NoError(t, err)
		require.Equal(t, uint64(height), parsed.Height)
		if height > 0 {
			require.Equal(t, parent, parsed.ParentID)
		} else {
			linear, err := x.AlwaysLinear(parsed)
			require.NoError(t, err)
			require.True(t, linear, "it follows vertex %s", parsed.ParentID)
			require.NotEqual(t, ids.Empty, parsed.ParentID)
		}
		parent = parsed.ID
		got, err := x.Ledger(parsed)
		require.NoError(t, err)
		b.enter(got)
	}

	c, err := cchain.NewDecoder(r.NetworkID, g.CChainID, nil)
	require.NoError(t, err)
	for height, raw := range r.C {
		parsed, err := cchain.ParseBlock(raw)
		require.NoError(t, err)
		require.Equal(t, height, strconv.FormatUint(parsed.Height, 10))
		got, err := c.Ledger(parsed)
		require.NoError(t, err)
		b.enter(got)
	}
	for _, eth := range r.EthBlocks {
		number, err := strconv.ParseUint(eth.Number, 0, 64)
		require.NoError(t, err)
		parsed, err := cchain.ParseBlock(r.C[strconv.FormatUint(number, 10)])
		require.NoError(t, err)
		require.Equal(t, common.HexToHash(eth.Hash), common.Hash(parsed.ID))
		require.Equal(t, common.HexToHash(eth.ParentHash), common.Hash(parsed.ParentID))
		require.Equal(t, common.FromHex(eth.BlockExtraData), parsed.ExtraData)
		seconds, err := strconv.ParseInt(eth.Timestamp, 0, 64)
		require.NoError(t, err)
		require.Equal(t, seconds, parsed.Time.Unix())
	}

	b.requireSpent()
	b.requireUTXOs(r)
	b.requireStory()
}

// requireSpent requires that every input consumes an existing output once, with the input's data.
func (b *book) requireSpent() {
	b.t.Helper()
	refunds := 0
	for _, tx := range b.txs {
		if tx.L1Refund > 0 {
			require.Equal(b.t, tx.L1Refund, tx.Made[len(tx.Made)-1].Amount)
			refunds++
		}
		for _, in := range tx.Consumed {
			out, ok := b.made[in.OutputID]
			require.True(b.t, ok, "%s %s consumes %s, which does not exist", tx.Kind, tx.ID, in.OutputID)
			require.False(b.t, b.spent[in.OutputID], "%s %s consumes %s again", tx.Kind, tx.ID, in.OutputID)
			b.spent[in.OutputID] = true
			require.Equal(b.t, b.on[in.OutputID], in.SourceChainID)
			require.Equal(b.t, out.AssetID, in.AssetID)
			if tx.Kind != "OperationTx" || in.Amount > 0 {
				require.Equal(b.t, out.Amount, in.Amount, "amount of %s, consumed by %s", in.OutputID, tx.ID)
			}
		}
	}
	require.Equal(b.t, 3, refunds, "returned balances of L1 validators")
}

// requireUTXOs compares the unspent outputs with the nodes'.
func (b *book) requireUTXOs(r *recording) {
	b.t.Helper()
	chains := map[string]ids.ID{"P": constants.PlatformChainID, "X": r.XChainID, "C": r.CChainID}
	for _, on := range []string{"P", "X", "C"} {
		for _, from := range []string{"P", "X", "C"} {
			name := on
			if from != on {
				name += from
			}
			var got [][]byte
			for id, out := range b.made {
				if !b.spent[id] && out.DestinationID == chains[on] && b.on[id] == chains[from] &&
					slices.ContainsFunc(out.Addresses, func(a ids.ShortID) bool { return slices.Contains(r.Owners, a) }) {
					got = append(got, out.Bytes)
				}
			}
			want := r.Utxos[name]
			slices.SortFunc(got, bytes.Compare)
			slices.SortFunc(want, bytes.Compare)
			want = slices.CompactFunc(want, bytes.Equal) // an output with two owners is listed for each
			require.Equal(b.t, want, got, "UTXOs of %s", name)
			b.t.Logf("%s: %d UTXOs as the nodes have them", name, len(got))
		}
	}
}

// requireStory requires that the recording covers what it was made for.
func (b *book) requireStory() {
	b.t.Helper()
	require.Equal(b.t, []ledger.Kind{
		"AddPermissionlessDelegatorTx", "AddPermissionlessValidatorTx", "AddSubnetValidatorTx", "BaseTx", "ConvertSubnetToL1Tx",
		"CreateAssetTx", "CreateChainTx", "CreateSubnetTx", "DisableL1ValidatorTx", "ExportTx", "ImportTx",
		"IncreaseL1ValidatorBalanceTx", "OperationTx", "RegisterL1ValidatorTx", "RemoveSubnetValidatorTx", "RewardValidatorTx",
		"SetL1ValidatorWeightTx", "TransferSubnetOwnershipTx", "UNKNOWN",
	}, slices.Sorted(maps.Keys(b.kinds)))
	var rewards []ledger.Role
	for _, tx := range b.txs {
		if tx.Settled != nil {
			for _, out := range tx.Made {
				rewards = append(rewards, out.Role)
			}
		}
	}
	require.Equal(b.t, []ledger.Role{ledger.DelegationReward, ledger.DelegationReward, ledger.ValidationReward, ledger.Commission}, rewards)
	b.t.Logf("%d transactions, %d outputs: %v", len(b.txs), len(b.made), b.kinds)
}

// BenchmarkBlocks parses P-Chain blocks, which have no envelopes, with ParseBlock and with avalanchego's parser.
func BenchmarkBlocks(b *testing.B) {
	r := record(b)
	var blocks [][]byte
	for _, raw := range slices.Concat([][]byte{r.P0}, r.P) {
		parsed, err := pchain.ParseBlock(raw)
		require.NoError(b, err)
		blocks = append(blocks, parsed.Bytes)
	}
	for name, parse := range map[string]func(raw []byte) error{
		"ours":    func(raw []byte) error { _, err := pchain.ParseBlock(raw); return err },
		"library": func(raw []byte) error { _, err := block.Parse(block.Codec, raw); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, raw := range blocks {
					if err := parse(raw); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkPChain decodes P-Chain blocks from their containers.
func BenchmarkPChain(b *testing.B) {
	r := record(b)
	config := *avagenesis.GetConfig(r.NetworkID)
	config.StartTime = r.StartTime
	g, err := genesis.FromConfig(&config)
	require.NoError(b, err)
	d, err := pchain.NewDecoder(pchain.DecoderOptions{NetworkID: r.NetworkID, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Node: r, Supply: g.Supply, Validators: g.Validators, Disagree: func(d *pchain.DifferenceError) { b.Error(d) }})
	require.NoError(b, err)
	blocks := slices.Concat([][]byte{r.P0}, r.P)
	transactions := 0
	for b.Loop() {
		state := pchain.NewState()
		for _, raw := range blocks {
			parsed, err := pchain.ParseBlock(raw)
			if err != nil {
				b.Fatal(err)
			}
			got, err := d.Ledger(b.Context(), state, parsed)
			if err != nil {
				b.Fatal(err)
			}
			state.TakeChanges()
			transactions += len(got.Txs)
		}
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(b.N*len(blocks))/seconds, "blocks/s")
	b.ReportMetric(float64(transactions)/seconds, "tx/s")
}
