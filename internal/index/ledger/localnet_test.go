package ledger_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/genesis"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/store"
)

// recording holds data of real nodes after a wallet issued transactions of all kinds. See the test data of package
// chain.
type recording struct {
	NetworkID          uint32
	StartTime          uint64
	XChainID, CChainID ids.ID
	Owners             []ids.ShortID
	P0, X0             []byte
	P, X               [][]byte
	C                  map[string][]byte
	Rewards            map[string][][]byte
	Utxos              map[string][][]byte
}

func (r *recording) RewardUTXOs(_ context.Context, txID ids.ID, _ uint64) ([][]byte, error) {
	if utxos, ok := r.Rewards[txID.String()]; ok {
		return utxos, nil
	}
	return nil, errors.New("the recording does not have this reward")
}

// blocks returns the blocks of the three chains.
func (r *recording) blocks(t *testing.T) map[ids.ID][]*chain.Block {
	t.Helper()
	config := *avagenesis.GetConfig(r.NetworkID)
	config.StartTime = r.StartTime
	g, err := genesis.FromConfig(&config)
	require.NoError(t, err)
	all := make(map[ids.ID][]*chain.Block)
	p, err := pchain.NewDecoder(pchain.DecoderOptions{NetworkID: r.NetworkID, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Node: r, Supply: g.Supply, Validators: g.Validators, Disagree: func(d *pchain.DifferenceError) { t.Error(d) }})
	require.NoError(t, err)
	state := pchain.NewState()
	for _, raw := range slices.Concat([][]byte{r.P0}, r.P) {
		parsed, err := pchain.ParseBlock(raw)
		require.NoError(t, err)
		block, err := p.Ledger(t.Context(), state, parsed)
		require.NoError(t, err)
		all[pChain] = append(all[pChain], block)
	}
	x, err := xchain.NewDecoder(g.XChainID, g.X)
	require.NoError(t, err)
	for _, raw := range slices.Concat([][]byte{r.X0}, r.X) {
		parsed, err := x.ParseBlock(raw)
		require.NoError(t, err)
		block, err := x.Ledger(parsed)
		require.NoError(t, err)
		all[r.XChainID] = append(all[r.XChainID], block)
	}
	c, err := cchain.NewDecoder(r.NetworkID, g.CChainID, nil)
	require.NoError(t, err)
	for _, raw := range r.C {
		parsed, err := cchain.ParseBlock(raw)
		require.NoError(t, err)
		block, err := c.Ledger(parsed)
		require.NoError(t, err)
		all[r.CChainID] = append(all[r.CChainID], block)
	}
	slices.SortFunc(all[r.CChainID], func(a, b *chain.Block) int { return int(a.Height) - int(b.Height) })
	return all
}

// TestRecordedNetwork indexes a real network and compares the listed outputs with the nodes', byte for byte.
func TestRecordedNetwork(t *testing.T) {
	f, err := os.Open("../../chain/testdata/localnet.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var r recording
	require.NoError(t, json.NewDecoder(z).Decode(&r))

	s := store.NewMemory()
	order := []ids.ID{r.CChainID, pChain, r.XChainID} // imports before exports
	blocks := r.blocks(t)
	for _, c := range order {
		projection := ledger.NewProjection(r.NetworkID, c)
		for _, b := range blocks[c] {
			apply(t, s, projection, b)
			if c == pChain {
				var batch store.Batch
				require.NoError(t, subnets.NewProjection(r.NetworkID).Apply(t.Context(), s, b, &batch))
				require.NoError(t, s.Commit(t.Context(), &batch))
			}
		}
	}
	record := ledger.New(s, r.NetworkID)
	for _, matched := range []bool{false, true} {
		if matched {
			require.NoError(t, ledger.NewMatcher(s, r.NetworkID, nil).Settle(t.Context()))
		}
		for i, on := range order {
			total := new(big.Int)
			listed := make(map[ids.ID][]*ledger.Output)
			q := ledger.OutputQuery{ChainID: on, Addresses: r.Owners, Limit: 3}
			for {
				page, err := record.UTXOs(t.Context(), q)
				require.NoError(t, err)
				for _, o := range page.Outputs {
					if o.DestinationID == on && !o.StakedAt(page.Now) {
						listed[o.ChainID] = append(listed[o.ChainID], o)
					}
				}
				if page.Next == nil {
					break
				}
				q.After = page.Next
			}
			for j, from := range order {
				name := []string{"C", "P", "X"}[i]
				if i != j {
					name += []string{"C", "P", "X"}[j]
				}
				var got [][]byte
				for _, o := range listed[from] {
					got = append(got, o.Bytes)
					if o.Kind == chain.Transfer {
						total.Add(total, new(big.Int).SetUint64(o.Amount))
					}
				}
				want := slices.Clone(r.Utxos[name])
				slices.SortFunc(got, bytes.Compare)
				slices.SortFunc(want, bytes.Compare)
				want = slices.CompactFunc(want, bytes.Equal)
				require.Equal(t, want, got, "UTXOs of %s", name)
				t.Logf("%s: %d UTXOs as the nodes have them", name, len(got))
			}
			balances, _, err := record.Balances(t.Context(), on, r.Owners, time.Time{})
			require.NoError(t, err)
			sum := new(big.Int)
			for _, b := range balances {
				staked := b.Bucket == ledger.UnlockedStaked || b.Bucket == ledger.LockedStaked || b.Bucket == ledger.PendingStaked
				if !b.Export && !staked && !b.NFT {
					sum.Add(sum, b.Amount)
				}
			}
			require.Equal(t, total, sum, "balance")
		}
	}
	page, err := record.Delegations(t.Context(), ledger.DelegationQuery{Limit: 10})
	require.NoError(t, err)
	require.NotEmpty(t, page.Delegations)
	for _, d := range page.Delegations {
		gross, net := d.Rewards()
		t.Logf("delegation %s: settled %t, rewarded %t, gross %d, net %d", d.TxID, d.Settled, d.Rewarded, gross, net)
	}
	list, err := subnets.New(s, r.NetworkID).List(t.Context(), true, 100, nil)
	require.NoError(t, err)
	require.Nil(t, list.Next)
	converted := 0
	for _, one := range list.Subnets {
		if one.Conversion != nil {
			converted++
		}
	}
	require.NotZero(t, converted)
	require.Len(t, list.Subnets[0].Chains, 2, "chains of the primary network")
	require.Greater(t, len(list.Subnets), 1)
}
