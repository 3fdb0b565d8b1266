package chain_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/chain"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// owner has one output less each time.
type owner struct{ left int }

func (o *owner) Owned(_ context.Context, q ledger.OwnedQuery) ([]ledger.Owned, error) {
	o.left--
	return make([]ledger.Owned, min(o.left, q.Limit)), nil
}

// Unspent outputs last until the chain has another block, those from other chains not
// even that long.
func TestUTXOsLast(t *testing.T) {
	x, p := ids.GenerateTestID(), constants.PlatformChainID
	names := ids.NewAliaser()
	require.NoError(t, names.Alias(x, "X"))
	require.NoError(t, names.Alias(p, "P"))
	status := index.Status{Next: 7}
	c, err := chain.New(chain.Options{
		NetworkID: constants.FujiID, ID: x, Name: index.XChain, Aliases: names, Store: store.NewMemory(), Ledger: &owner{10},
		Status: func() index.Status { return status }, Sources: map[ids.ID]func() bool{p: func() bool { return true }},
	})
	require.NoError(t, err)
	ask := func(source string) (reply rpc.Raw) {
		args := api.GetUTXOsArgs{Addresses: []string{ids.ShortEmpty.String()}, SourceChain: source}
		require.NoError(t, c.UTXOs(t.Context(), &args, &reply))
		return reply
	}
	own := ask("")
	require.True(t, own.Lasts())
	require.True(t, ask("X").Lasts(), "by its name")
	status.Next++
	require.False(t, own.Lasts(), "there is another block")
	require.True(t, ask("").Lasts())
	require.Nil(t, ask("P").Lasts, "other chains change it, too")
}
