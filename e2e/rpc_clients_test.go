package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/avm"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"

	"quorate/e2e/localnet"
)

// officialClients has the node's own clients call the service as they are.
func (n *nodeAPI) officialClients(ctx context.Context, t *testing.T) {
	for _, chain := range []string{"P", "X", "C"} {
		theirs := indexer.NewClient(n.node + "/ext/index/" + chain + "/block")
		ours := indexer.NewClient(n.service.url + "/ext/index/" + chain + "/block")
		wantAll, err := theirs.GetContainerRange(ctx, 0, 1024)
		require.NoError(t, err)
		gotAll, err := ours.GetContainerRange(ctx, 0, 1024)
		require.NoError(t, err)
		require.Len(t, gotAll, len(wantAll))
		for i, want := range wantAll {
			require.Equal(t, want.ID, gotAll[i].ID)
			require.Equal(t, want.Bytes, gotAll[i].Bytes)
			got, err := ours.GetContainerByIndex(ctx, uint64(i))
			require.NoError(t, err)
			require.Equal(t, gotAll[i], got)
			got, at, err := ours.GetContainerByID(ctx, want.ID)
			require.NoError(t, err)
			require.Equal(t, uint64(i), at)
			require.Equal(t, gotAll[i], got)
			at, err = ours.GetIndex(ctx, want.ID)
			require.NoError(t, err)
			require.Equal(t, uint64(i), at)
			accepted, err := ours.IsAccepted(ctx, want.ID)
			require.NoError(t, err)
			require.True(t, accepted)
		}
		last, at, err := ours.GetLastAccepted(ctx)
		require.NoError(t, err)
		require.Equal(t, uint64(len(wantAll)-1), at)
		require.Equal(t, gotAll[at], last)
		accepted, err := ours.IsAccepted(ctx, ids.GenerateTestID())
		require.NoError(t, err)
		require.False(t, accepted)
	}
	n.platformClient(ctx, t)
	n.assetClient(ctx, t)
}

// equal asks the same of the node's and the service's client.
func equal[C, R any](t *testing.T, node, service C, call func(C) (R, error)) R {
	t.Helper()
	want, err := call(node)
	require.NoError(t, err, "the node")
	got, err := call(service)
	require.NoError(t, err, "the service")
	require.Equal(t, want, got)
	return got
}

func (n *nodeAPI) platformClient(ctx context.Context, t *testing.T) {
	type client = *platformvm.Client
	theirs, ours := platformvm.NewClient(n.node), platformvm.NewClient(n.service.url)
	type two struct{ a, b any }
	primary := constants.PrimaryNetworkID
	owners := []ids.ShortID{n.keys[0].Address(), n.keys[1].Address()}
	height := equal(t, theirs, ours, func(c client) (uint64, error) { return c.GetHeight(ctx) })
	equal(t, theirs, ours, func(c client) (uint64, error) { return c.GetProposedHeight(ctx) })
	equal(t, theirs, ours, func(c client) (any, error) {
		b, err := c.GetBalance(ctx, owners) //nolint:staticcheck // deprecated, and part of the surface
		if err == nil {
			slices.SortFunc(b.UTXOIDs, func(x, y *avax.UTXOID) int { return strings.Compare(x.String(), y.String()) })
		}
		return b, err
	})
	utxos := func(raw [][]byte, _ ids.ShortID, _ ids.ID, err error) ([][]byte, error) {
		slices.SortFunc(raw, bytes.Compare)
		return raw, err
	}
	xID, err := ids.FromString(n.xChain)
	require.NoError(t, err)
	equal(t, theirs, ours, func(c client) ([][]byte, error) {
		return utxos(c.GetUTXOs(ctx, owners, 1024, ids.ShortEmpty, ids.Empty))
	})
	equal(t, theirs, ours, func(c client) ([][]byte, error) {
		return utxos(c.GetAtomicUTXOs(ctx, owners, "X", 1024, ids.ShortEmpty, ids.Empty))
	})
	chains := equal(t, theirs, ours, func(c client) ([]platformvm.APIBlockchain, error) {
		all, err := c.GetBlockchains(ctx)                              //nolint:staticcheck // as above
		slices.SortFunc(all, func(x, y platformvm.APIBlockchain) int { // the primary network's last
			return cmp.Or(y.SubnetID.Compare(x.SubnetID), x.ID.Compare(y.ID))
		})
		return all, err
	})
	subnet := chains[0].SubnetID
	require.NotEqual(t, primary, subnet)
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetSubnet(ctx, subnet) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetSubnets(ctx, []ids.ID{subnet}) }) //nolint:staticcheck // as above
	equal(t, theirs, ours, func(c client) (ids.ID, error) { return c.GetStakingAssetID(ctx, primary) })
	stakers := equal(t, theirs, ours, func(c client) ([]platformvm.ClientPermissionlessValidator, error) {
		all, err := c.GetCurrentValidators(ctx, primary, nil)
		for i := range all {
			all[i].Uptime, all[i].Connected = nil, nil
		}
		slices.SortFunc(all, func(x, y platformvm.ClientPermissionlessValidator) int { return x.NodeID.Compare(y.NodeID) })
		return all, err
	})
	require.Len(t, stakers, localnet.Size+2)
	equal(t, theirs, ours, func(c client) (any, error) {
		a, b, err := c.GetCurrentSupply(ctx, primary)
		return two{a, b}, err
	})
	sample, err := ours.SampleValidators(ctx, primary, 3)
	require.NoError(t, err)
	require.Len(t, sample, 3)
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetBlockchainStatus(ctx, chains[0].ID.String()) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.ValidatedBy(ctx, xID) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.Validates(ctx, subnet) })
	_, err = ours.IssueTx(ctx, []byte{1})
	require.Error(t, err)
	_, want := theirs.IssueTx(ctx, []byte{1})
	require.EqualError(t, err, want.Error())
	equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetTx(ctx, subnet) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetTxStatus(ctx, subnet) })
	equal(t, theirs, ours, func(c client) (any, error) {
		a, b, err := c.GetStake(ctx, owners, false) //nolint:staticcheck // as above
		return two{a, b}, err
	})
	equal(t, theirs, ours, func(c client) (any, error) {
		a, b, err := c.GetMinStake(ctx, primary)
		return two{a, b}, err
	})
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetTotalStake(ctx, primary) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetRewardUTXOs(ctx, &api.GetTxArgs{TxID: subnet}) }) //nolint:staticcheck // as above
	equal(t, theirs, ours, func(c client) (time.Time, error) { return c.GetTimestamp(ctx) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetValidatorsAt(ctx, primary, platformapi.Height(height)) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetAllValidatorsAt(ctx, platformapi.Height(height)) })
	block := equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlockByHeight(ctx, height) })
	require.NotEmpty(t, block)
	var byHeight struct{ Block struct{ ID ids.ID } }
	n.result(ctx, t, "/ext/bc/P", "platform.getBlockByHeight", fmt.Sprintf(`{"height":%d,"encoding":"json"}`, height), &byHeight)
	equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlock(ctx, byHeight.Block.ID) })
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetFeeConfig(ctx) })
	_, _, _, err = ours.GetFeeState(ctx)
	require.NoError(t, err)
	equal(t, theirs, ours, func(c client) (any, error) { return c.GetValidatorFeeConfig(ctx) })
	_, _, _, err = ours.GetValidatorFeeState(ctx)
	require.NoError(t, err)
	_, _, err = ours.GetL1Validator(ctx, subnet)
	_, _, want = theirs.GetL1Validator(ctx, subnet)
	require.EqualError(t, err, want.Error())
}

func (n *nodeAPI) assetClient(ctx context.Context, t *testing.T) {
	type client = *avm.Client
	for _, chain := range []string{"X", n.xChain} {
		theirs, ours := avm.NewClient(n.node, chain), avm.NewClient(n.service.url, chain)
		height := equal(t, theirs, ours, func(c client) (uint64, error) { return c.GetHeight(ctx) })
		equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlockByHeight(ctx, height) })
		var byHeight struct{ Block struct{ ID ids.ID } }
		n.result(ctx, t, "/ext/bc/X", "avm.getBlockByHeight", fmt.Sprintf(`{"height":%d,"encoding":"json"}`, height), &byHeight)
		equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetBlock(ctx, byHeight.Block.ID) })
		asset, err := ids.FromString(n.asset)
		require.NoError(t, err)
		equal(t, theirs, ours, func(c client) ([]byte, error) { return c.GetTx(ctx, asset) })
		equal(t, theirs, ours, func(c client) (any, error) { return c.GetTxStatus(ctx, asset) }) //nolint:staticcheck // deprecated, and part of the surface
		for _, name := range []string{"AVAX", n.asset} {
			equal(t, theirs, ours, func(c client) (any, error) { return c.GetAssetDescription(ctx, name) })
		}
		equal(t, theirs, ours, func(c client) (any, error) {
			fee, create, err := c.GetTxFee(ctx)
			return [2]uint64{fee, create}, err
		})
		for _, key := range n.keys {
			owner := key.Address()
			equal(t, theirs, ours, func(c client) (any, error) {
				b, err := c.GetBalance(ctx, owner, "AVAX", true) //nolint:staticcheck // as above
				if err == nil {
					slices.SortFunc(b.UTXOIDs, func(x, y avax.UTXOID) int { return strings.Compare(x.String(), y.String()) })
				}
				return b, err
			})
			equal(t, theirs, ours, func(c client) (any, error) {
				b, err := c.GetAllBalances(ctx, owner, true) //nolint:staticcheck // as above
				slices.SortFunc(b, func(x, y avm.Balance) int { return strings.Compare(x.AssetID, y.AssetID) })
				return b, err
			})
			for _, source := range []string{"P", "C"} {
				equal(t, theirs, ours, func(c client) ([][]byte, error) {
					raw, _, _, err := c.GetAtomicUTXOs(ctx, []ids.ShortID{owner}, source, 1024, ids.ShortEmpty, ids.Empty)
					slices.SortFunc(raw, bytes.Compare)
					return raw, err
				})
			}
			equal(t, theirs, ours, func(c client) ([][]byte, error) {
				raw, _, _, err := c.GetUTXOs(ctx, []ids.ShortID{owner}, 1024, ids.ShortEmpty, ids.Empty)
				slices.SortFunc(raw, bytes.Compare)
				return raw, err
			})
		}
		_, err = ours.IssueTx(ctx, []byte{1})
		_, want := theirs.IssueTx(ctx, []byte{1})
		require.EqualError(t, err, want.Error())
	}
}
