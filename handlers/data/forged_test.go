package data_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/store"
)

// forged returns the IDs that begin as id does and have other last 12 bytes. As text they
// have a checksum of their own.
func forged(id ids.ID) []ids.ID {
	var all []ids.ID
	for _, at := range []int{20, 27, 31} {
		other := id
		other[at] ^= 0x5a
		all = append(all, other)
	}
	return all
}

// TestForgedIDsAreUnknown asks each operation that takes an ID for one that differs from an
// existing ID in its last bytes.
//
//test:plain
func TestForgedIDsAreUnknown(t *testing.T) {
	r := newIndexed(t, store.NewMemory())
	funds := makes(ids.ID{1}, "BaseTx", chain.Output{Amount: 100, DestinationID: xID}, chain.Output{Amount: 100, DestinationID: xID}, chain.Output{Amount: 100, DestinationID: xID})
	r.block(pID, ago(time.Hour))
	r.block(xID, ago(time.Hour), funds)
	r.block(cID, ago(time.Hour))

	onX := strings.Replace(utxosPath, "/p-chain/", "/x-chain/", 1) + "&pageSize=2"
	first := r.get(onX + "&assetId=" + avx.String())
	require.Len(t, first["utxos"], 2)
	token := "&pageToken=" + first["nextPageToken"].(string)
	for _, id := range forged(avx) {
		require.Empty(t, r.get(onX + "&assetId=" + id.String())["utxos"], "outputs of asset %s", id)
		requireError(t, apitest.Get(r.surface, onX+"&assetId="+id.String()+token), 400, "pageToken: it belongs to another request")
	}
	require.Len(t, r.get(onX + "&assetId=" + avx.String() + token)["utxos"], 1)

	for _, operation := range []string{
		"/balances?addresses=" + text(alice), "/utxos?addresses=" + text(alice), "/transactions:listStaking?addresses=" + text(alice), "/vertices:listByHeight?vertexHeight=1",
	} {
		for _, existing := range []ids.ID{xID, cID, pID} {
			for _, id := range forged(existing) {
				requireError(t, apitest.Get(r.surface, base+"/blockchains/"+id.String()+operation), http.StatusBadRequest, "blockchainId: ", id.String())
			}
		}
	}
}
