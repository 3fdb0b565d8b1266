package chain_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/chain"
	"quorate/internal/index/ledger"
	"quorate/internal/node"
)

// outputs is a ledger in which each address owns n outputs of some bytes.
type outputs struct {
	chain.Ledger
	n, bytes int
	read     int // at most at a time
}

func (o *outputs) Owned(_ context.Context, q ledger.OwnedQuery) (found []ledger.Owned, err error) {
	for i := range o.n {
		id := ids.ID{q.Address[0], byte(i >> 8), byte(i), 1}
		if id.Compare(q.After) > 0 && len(found) < q.Limit {
			found = append(found, ledger.Owned{ID: id, Bytes: bytes.Repeat([]byte{1}, o.bytes)})
		}
	}
	o.read = max(o.read, len(found))
	return found, nil
}

// Long outputs count against the memory for answers before all of them are read.
func TestOutputsWithinBudget(t *testing.T) {
	aliases := ids.NewAliaser()
	id := ids.ID{9}
	require.NoError(t, aliases.Alias(id, "X"))
	for _, test := range []struct {
		name             string
		n, bytes, owners int
		room             int64
		want             int // 0 if the call is refused
		read             int
	}{
		{"small ones need no room", 300, 20, 1, 1, 300, 128},
		{"large ones that fit", 300, 64 << 10, 1, 300 * 64 << 10 * 16, 300, 128},
		{"large ones that do not", 2000, 64 << 10, 1, 1 << 20, 0, 128},
		{"of many addresses", 2, 64 << 10, 200, 1 << 20, 0, 2},
		{"a page of many addresses", 300, 100, 200, 64 << 20, 1024, 128},
	} {
		t.Run(test.name, func(t *testing.T) {
			owned := &outputs{n: test.n, bytes: test.bytes}
			c := chain.New(chain.Options{NetworkID: 5, ID: id, Name: "X", Aliases: aliases, Ledger: owned})
			var args api.GetUTXOsArgs
			for i := range test.owners {
				args.Addresses = append(args.Addresses, ids.ShortID{byte(i + 1)}.String())
			}
			budget := node.NewBudget(test.room, 0)
			ctx, done := budget.Begin(t.Context())
			var reply api.GetUTXOsReply
			err := c.UTXOs(ctx, &args, &reply)
			done()
			if test.want == 0 {
				require.ErrorIs(t, err, rpc.ErrBusy)
			} else {
				require.NoError(t, err)
			}
			require.Len(t, reply.UTXOs, test.want)
			require.Equal(t, test.read, owned.read)
			require.Zero(t, budget.Usage().Bytes)
		})
	}
}
