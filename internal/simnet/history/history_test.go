package history_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/logging"
	avmconfig "github.com/ava-labs/avalanchego/vms/avm/config"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	avmexecutor "github.com/ava-labs/avalanchego/vms/avm/txs/executor"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/simnet/history"
)

// config returns a genesis with a fixed time.
func config() *avagenesis.Config {
	c := *avagenesis.GetConfig(54321)
	c.StartTime = 1_750_000_000
	return &c
}

// past is a generated history with the node's reward answers.
type past struct {
	generator *history.Generator
	blocks    []*history.Block
	rewards   map[ids.ID][][]byte
}

func make1(t testing.TB, o history.Options) *past {
	t.Helper()
	if o.Genesis == nil {
		o.Genesis = config()
	}
	g, err := history.New(o)
	require.NoError(t, err)
	s, err := history.NewSealer(g)
	require.NoError(t, err)
	p := &past{generator: g, rewards: make(map[ids.ID][][]byte)}
	for g.Txs() < o.Txs || g.Pending() > 0 {
		b, err := g.Next()
		require.NoError(t, err)
		require.NoError(t, s.Seal(b))
		p.blocks = append(p.blocks, b)
		for _, r := range b.Rewarded {
			p.rewards[r.TxID] = r.UTXOs
		}
	}
	return p
}

// RewardUTXOs answers the P-Chain decoder like a node that does not list every other reward.
func (p *past) RewardUTXOs(_ context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	if height%2 == 0 {
		return nil, pchain.ErrNotOffered
	}
	return p.rewards[txID], nil
}

// read decodes all blocks from their containers.
func (p *past) read(t testing.TB) (all []*ledger.Block) {
	t.Helper()
	g := p.generator
	raw, _, err := avagenesis.FromConfig(config())
	require.NoError(t, err)
	begin, err := genesis.Parse(raw)
	require.NoError(t, err)
	require.Equal(t, begin.AVAXAssetID, g.AVAXAssetID())
	require.Equal(t, []ids.ID{constants.PlatformChainID, begin.XChainID, begin.CChainID},
		[]ids.ID{g.ChainID(history.P), g.ChainID(history.X), g.ChainID(history.C)})
	onP, err := pchain.NewDecoder(pchain.DecoderOptions{NetworkID: g.NetworkID(), Genesis: begin.P, AVAXAssetID: begin.AVAXAssetID, Node: p, Supply: begin.Supply, Validators: begin.Validators, Disagree: func(d *pchain.DifferenceError) { t.Error(d) }})
	require.NoError(t, err)
	onX, err := xchain.NewDecoder(begin.XChainID, begin.X)
	require.NoError(t, err)
	onC, err := cchain.NewDecoder(g.NetworkID(), begin.CChainID, nil)
	require.NoError(t, err)
	state := pchain.NewState()
	last := make(map[history.Chain]ids.ID)
	for _, b := range p.blocks {
		container := b.Container
		if b.Height == 0 {
			container = b.Bytes
		}
		var id, parent ids.ID
		var out *ledger.Block
		switch b.Chain {
		case history.P:
			read, err := pchain.ParseBlock(container)
			require.NoError(t, err)
			id, parent = read.ID, read.ParentID
			out, err = onP.Ledger(t.Context(), state, read)
			require.NoError(t, err, "height %d", b.Height)
		case history.X:
			read, err := onX.ParseBlock(container)
			require.NoError(t, err)
			id, parent = read.ID, read.ParentID
			out, err = onX.Ledger(read)
			require.NoError(t, err)
		case history.C:
			read, err := cchain.ParseBlock(container)
			require.NoError(t, err)
			id, parent = read.ID, read.ParentID
			out, err = onC.Ledger(read)
			require.NoError(t, err)
		}
		require.Equal(t, b.ID, id)
		require.Equal(t, b.Height, out.Height)
		require.Equal(t, b.Time, out.Time, "%s %d", b.Chain, b.Height)
		if b.Height > 0 {
			require.Equal(t, last[b.Chain], parent, "%s %d", b.Chain, b.Height)
		}
		last[b.Chain] = b.ID
		all = append(all, out)
	}
	return all
}

// TestBlocksMatchTruth decodes the blocks and compares all outputs with the generator's.
//
//test:plain
func TestBlocksMatchTruth(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := make1(t, history.Options{Seed: seed, Txs: 4000, BusyEvents: 400, Record: true})
			g := p.generator
			chainOf := map[ids.ID]history.Chain{g.ChainID(history.P): history.P, g.ChainID(history.X): history.X, g.ChainID(history.C): history.C}
			type found struct {
				ledger.Output
				chain  history.Chain
				height uint64
				time   time.Time
				end    time.Time
				spent  *history.Spent
			}
			outputs := make(map[ids.ID]*found)
			kinds := make(map[ledger.Kind]int)
			for _, b := range p.read(t) {
				for _, tx := range b.Txs {
					kinds[tx.Kind]++
					paid, out := tx.L1Refund, tx.L1Balance
					for _, o := range tx.Made {
						if outputs[o.ID] != nil {
							t.Fatalf("%s makes %s, which was made before", tx.ID, o.ID)
						}
						f := &found{Output: o, chain: chainOf[b.ChainID], height: b.Height, time: b.Time}
						if o.Role == ledger.Stake {
							f.end = tx.Staker.End
						}
						outputs[o.ID] = f
						if o.AssetID == g.AVAXAssetID() {
							out += o.Amount
						}
					}
					for _, in := range tx.Consumed {
						o := outputs[in.OutputID]
						require.NotNil(t, o, "consumed by %s", tx.ID)
						require.Nil(t, o.spent)
						require.Equal(t, in.AssetID, o.AssetID)
						require.Equal(t, in.Amount, o.Amount)
						require.Equal(t, in.SourceChainID, g.ChainID(o.chain))
						require.Equal(t, b.ChainID, o.DestinationID)
						if in.AssetID == g.AVAXAssetID() {
							paid += in.Amount
						}
						o.spent = &history.Spent{Chain: chainOf[b.ChainID], TxID: tx.ID, Height: b.Height, Time: b.Time}
					}
					if tx.Settled == nil && b.Height > 0 && chainOf[b.ChainID] != history.C {
						require.GreaterOrEqual(t, paid, out, "%s %s creates money", tx.Kind, tx.ID)
					}
					if tx.Settled != nil && !tx.Settled.RenewedUntil.IsZero() {
						for _, o := range outputs {
							if o.Role == ledger.Stake && o.TxID == tx.Settled.StakingTxID {
								o.end = tx.Settled.RenewedUntil
							}
						}
					}
				}
			}
			n := 0
			var unspent uint64
			for want := range g.Truth().Outputs() {
				n++
				got := outputs[want.ID]
				require.NotNil(t, got, "%s output %s:%d", want.Chain, want.TxID, want.Index)
				if same := (&history.Output{
					ID: got.ID, TxID: got.TxID, Index: got.Index, Kind: history.OutputKind(got.Kind - 1), AssetID: got.AssetID, Amount: got.Amount,
					Chain: got.chain, Destination: chainOf[got.DestinationID], Height: got.height, Time: got.time,
					Threshold: got.Threshold, Addresses: got.Addresses, Locktime: got.Locktime, StakeableLocktime: got.StakeableLocktime,
					StakeEnd: got.end, Spent: got.spent,
				}); !reflect.DeepEqual(want, same) {
					require.Equal(t, want, same)
				}
				if want.Spent == nil && want.AssetID == g.AVAXAssetID() {
					unspent += want.Amount
				}
			}
			require.Len(t, outputs, n)
			require.Equal(t, g.Sums().Unspent(), unspent)
			if seed == 0 {
				t.Log(slices.Sorted(maps.Keys(kinds)), kinds)
			}
		})
	}
}

// TestTransactionsAreWellFormed runs avalanchego's stateless checks: order, owners, credentials, proofs of possession,
// and X-Chain amounts.
func TestTransactionsAreWellFormed(t *testing.T) {
	p := make1(t, history.Options{Seed: 7, Txs: 6000})
	g := p.generator
	ctx := &snow.Context{
		NetworkID: g.NetworkID(), XChainID: g.ChainID(history.X), CChainID: g.ChainID(history.C), AVAXAssetID: g.AVAXAssetID(),
		Log: logging.NoLog{},
	}
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	kinds := make(map[string]int)
	blocks := make(map[string]int)
	for _, b := range p.blocks {
		if b.Height == 0 {
			continue
		}
		if len(b.Container) > len(b.Bytes) {
			_, err := proposer.Parse(b.Container, g.ChainID(b.Chain))
			require.NoError(t, err, "the envelope of %s block %d is not signed well", b.Chain, b.Height)
		}
		switch b.Chain {
		case history.P:
			ctx.ChainID = constants.PlatformChainID
			read, err := block.Parse(block.Codec, b.Bytes)
			require.NoError(t, err)
			blocks[fmt.Sprintf("%T", read)]++
			require.Len(t, read.Txs(), len(b.Txs))
			for _, tx := range read.Txs() {
				kinds[fmt.Sprintf("P %T", tx.Unsigned)]++
				switch tx.Unsigned.(type) {
				case *txs.AdvanceTimeTx, *txs.RewardValidatorTx, *txs.RewardAutoRenewedValidatorTx:
					continue // they have no other content
				}
				require.NoError(t, tx.SyntacticVerify(ctx), "%T %s", tx.Unsigned, tx.ID())
			}
		case history.X:
			ctx.ChainID = g.ChainID(history.X)
			read, err := parser.ParseBlock(b.Bytes)
			require.NoError(t, err)
			for _, tx := range read.Txs() {
				kinds[fmt.Sprintf("X %T", tx.Unsigned)]++
				verifier := &avmexecutor.SyntacticVerifier{
					Backend: &avmexecutor.Backend{
						Ctx: ctx, Config: &avmconfig.Config{}, FeeAssetID: g.AVAXAssetID(), Codec: parser.Codec(),
						Fxs:           []*fxs.ParsedFx{{Fx: &secp256k1fx.Fx{}}, {Fx: &nftfx.Fx{}}, {Fx: &propertyfx.Fx{}}},
						TypeToFxIndex: map[reflect.Type]int{}, Bootstrapped: true,
					},
					Tx: tx,
				}
				require.NoError(t, tx.Unsigned.Visit(verifier), "%T %s", tx.Unsigned, tx.ID())
			}
		}
	}
	require.Len(t, blocks, 9, "kinds of P-Chain blocks: %v", blocks)
	require.Len(t, kinds, 23+5, "kinds of transactions: %v", kinds)
}

func TestSameSeedSameBytes(t *testing.T) {
	a, b := make1(t, history.Options{Seed: 3, Txs: 1500}), make1(t, history.Options{Seed: 3, Txs: 1500, Record: true})
	require.Len(t, b.blocks, len(a.blocks))
	for i := range a.blocks {
		require.Equal(t, hex.EncodeToString(a.blocks[i].Container), hex.EncodeToString(b.blocks[i].Container), "block %d", i)
		require.Equal(t, a.blocks[i].Rewarded, b.blocks[i].Rewarded)
	}
	other := make1(t, history.Options{Seed: 4, Txs: 1500})
	require.NotEqual(t, a.blocks[len(a.blocks)-1].Container, other.blocks[len(other.blocks)-1].Container)
}

func TestBusyAddressIsAsBusyAsAskedFor(t *testing.T) {
	p := make1(t, history.Options{Seed: 5, Txs: 8000, BusyEvents: 8000, Record: true})
	address, events := p.generator.Busy()
	require.InDelta(t, 8000, events, 800)
	made := make(map[uint64]bool)
	spent := make(map[uint64]bool)
	for o := range p.generator.Truth().Outputs() {
		if len(o.Addresses) != 1 || o.Addresses[0] != address || o.Destination != history.P || o.Chain != history.P {
			continue
		}
		made[o.Height] = true
		if o.Spent != nil && o.Spent.Chain == history.P {
			spent[o.Spent.Height] = true
		}
	}
	require.Equal(t, events, len(made)+len(spent))
}
