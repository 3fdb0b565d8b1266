package e2e

import (
	"context"
	"net/url"
	"strconv"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/stretchr/testify/require"
)

// ownersOf adds the owners of outputs by output ID.
func ownersOf(made []*avax.UTXO, to map[ids.ID][]ids.ShortID) {
	for _, one := range made {
		if out, ok := one.Out.(avax.Addressable); ok {
			for _, a := range out.Addresses() {
				to[one.InputID()] = append(to[one.InputID()], ids.ShortID(a))
			}
		}
	}
}

// follow adds outputs that follow others of a transaction, and their owners.
func follow(txID ids.ID, made []ids.ID, outs []*avax.TransferableOutput, owners map[ids.ID][]ids.ShortID) []ids.ID {
	for _, out := range outs {
		one := &avax.UTXO{UTXOID: avax.UTXOID{TxID: txID, OutputIndex: uint32(len(made))}, Asset: out.Asset, Out: out.Out}
		ownersOf([]*avax.UTXO{one}, owners)
		made = append(made, one.InputID())
	}
	return made
}

// compareActivity compares the last activity of addresses with the blocks of the node. The owners of outputs of the C-Chain
// are not known here.
func (s *service) compareActivity(ctx context.Context, keys []*secp256k1.PrivateKey, blocks map[string][]decodedBlock, owners map[ids.ID][]ids.ShortID) {
	t := s.t
	t.Helper()
	type activity struct {
		BlockNumber string
		Timestamp   int64
		ChainName   string
	}
	for chain, all := range blocks {
		last := make(map[ids.ShortID]activity)
		for _, b := range all {
			for _, id := range b.Transactions {
				for _, list := range [][]ids.ID{b.txs[id].consumed, b.txs[id].made} {
					for _, output := range list {
						for _, owner := range owners[output] {
							last[owner] = activity{b.BlockNumber, b.BlockTimestamp, chain}
						}
					}
				}
			}
		}
		for _, key := range keys {
			a := key.Address()
			text, err := address.FormatBech32(s.hrp(), a[:])
			require.NoError(t, err)
			require.NotEmpty(t, last[a].BlockNumber, "%s on the %s", text, chain)
			var got struct {
				activity

				TxHash, UtxoID ids.ID
				IsConsumed     bool
			}
			s.records(ctx, "blockchains/"+chain+"/lastActivityTimestampByAddresses", url.Values{"addresses": {text}}, &got)
			if at := last[a]; owners[got.UtxoID] != nil {
				require.Equal(t, at, got.activity, "%s on the %s", text, chain)
				require.Contains(t, owners[got.UtxoID], a)
			} else { // imported from the C-Chain
				number, err := strconv.Atoi(got.BlockNumber)
				require.NoError(t, err)
				require.GreaterOrEqual(t, got.Timestamp, at.Timestamp)
				require.Equal(t, all[number].BlockTimestamp, got.Timestamp)
				require.True(t, got.IsConsumed)
				require.Equal(t, "ImportTx", all[number].txs[got.TxHash].kind)
				require.Contains(t, all[number].txs[got.TxHash].consumed, got.UtxoID)
			}
			t.Logf("%s on the %s: last active in block %s", text, chain, got.BlockNumber)
		}
	}
}
