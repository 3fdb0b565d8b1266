package data_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/data"
	"quorate/internal/index/ledger"
)

// stateSynced is the progress of an index whose node has no old blocks.
var stateSynced = data.Progress{Needs: "block 1 is not available from the node", Err: errors.New("secret address")}

// shared is what tests look at in an answer with balances or outputs.
type shared struct {
	NextPageToken string
	UTXOs         []struct {
		UTXOID            string
		CreatedOnChainID  string
		ConsumedOnChainID string
		ConsumingTxHash   string
	}
	Balances    map[string][]struct{ SharedWithChainID string }
	Unavailable []struct{ ChainName, BlockchainID, Omitted, Code, Reason string }
}

func read(t testing.TB, h http.Handler, path string) (got shared, header http.Header) {
	t.Helper()
	w := apitest.Get(h, path)
	require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	require.NotContains(t, w.Body.String(), "secret")
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	return got, w.Header()
}

// While the index of another chain has not caught up, an answer leaves out atomic transfers with that
// chain, says so, and is complete otherwise.
func TestAtomicMemoryNeedsBothChains(t *testing.T) {
	names := map[ids.ID]string{pID: "p-chain", xID: "x-chain", cID: "c-chain"}
	for _, tt := range []struct {
		chain   ids.ID
		missing []ids.ID
	}{
		{pID, []ids.ID{cID}},
		{pID, []ids.ID{xID}},
		{pID, []ids.ID{xID, cID}},
		{xID, []ids.ID{cID}},
		{xID, []ids.ID{pID, cID}},
		{cID, []ids.ID{xID}},
		{cID, []ids.ID{pID}},
	} {
		f := newFake()
		h := fuji(t, f)
		path := base + "/blockchains/" + names[tt.chain]
		utxos := path + "/utxos?pageSize=100&includeSpent=true&addresses=" + text(alice)
		held := path + "/balances?addresses=" + text(alice)
		wholeUTXOs, header := read(t, h, utxos)
		require.Empty(t, wholeUTXOs.Unavailable)
		require.NotContains(t, header, "Indexed-Without")
		wholeHeld, _ := read(t, h, held)
		left := make(map[string]bool)
		var without string
		for _, id := range tt.missing {
			f.progress[id] = stateSynced
			left[id.String()] = true
			if without != "" {
				without += ", "
			}
			without += names[id]
		}
		check := func(got shared, header http.Header) {
			require.Equal(t, without, header.Get("Indexed-Without"))
			require.Len(t, got.Unavailable, len(tt.missing))
			for i, id := range tt.missing {
				u := got.Unavailable[i]
				require.Equal(t, []string{names[id], id.String(), "outputs between the " + names[tt.chain] + " and the " + names[id], "INDEX_LACKS_SOURCE"},
					[]string{u.ChainName, u.BlockchainID, u.Omitted, u.Code})
				require.Equal(t, "the "+names[id]+" is not indexed: block 1 is not available from the node", u.Reason)
			}
		}

		got, header := read(t, h, utxos)
		check(got, header)
		want := wholeUTXOs.UTXOs[:0:0]
		for _, u := range wholeUTXOs.UTXOs {
			if !left[u.CreatedOnChainID] && !left[u.ConsumedOnChainID] {
				want = append(want, u)
			}
		}
		require.Equal(t, want, got.UTXOs)
		require.Less(t, len(got.UTXOs), len(wholeUTXOs.UTXOs), "the test has something to leave out")

		got, header = read(t, h, held)
		check(got, header)
		for bucket, all := range wholeHeld.Balances {
			atomic := bucket == "atomicMemoryUnlocked" || bucket == "atomicMemoryLocked"
			if atomic && len(tt.missing) == 2 {
				require.NotContains(t, got.Balances, bucket, "an empty list would say that there is nothing")
				continue
			}
			want := all[:0:0]
			for _, one := range all {
				if !left[one.SharedWithChainID] {
					want = append(want, one)
				}
			}
			if len(all) == 0 {
				want = all
			}
			require.ElementsMatch(t, want, got.Balances[bucket], bucket)
			require.Contains(t, got.Balances, bucket)
		}
	}
}

// The C-Chain's answers contain only atomic transfers with the other chains.
func TestCChainWithoutOthers(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	f.progress[pID], f.progress[xID] = stateSynced, data.Progress{Height: 7, Stopped: true}
	for _, path := range []string{cUTXOs, cBalances} {
		w := apitest.Get(h, path)
		requireError(t, w, 503, "the p-chain is not indexed: block 1 is not available from the node")
		require.Contains(t, w.Body.String(), `"code":"INDEX_LACKS_SOURCE"`)
	}
}

// generatedClient is the User-Agent of a generated client.
const generatedClient = "speakeasy-sdk/typescript 0.3.13"

// The generated clients read what is missing from balances as zero.
func TestGeneratedClientsGetNoPartOfBalances(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	f.progress[cID] = stateSynced
	for path, status := range map[string]int{balances: 503, utxosPath: 200} {
		w := apitest.Get(h, path, "User-Agent", generatedClient)
		require.Equal(t, status, w.Code, "%s: %s", path, w.Body)
	}
}

// All pages of a list leave out the same transfers, whatever the indexes do meanwhile.
func TestPagesLeaveOutTheSame(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	list := base + "/blockchains/p-chain/utxos?pageSize=5&includeSpent=true&addresses=" + text(alice)
	up := f.progress[cID]
	f.progress[cID] = stateSynced
	page, _ := read(t, h, list)
	require.NotEmpty(t, page.NextPageToken)
	f.progress[cID] = up
	fresh, _ := read(t, h, list)
	require.Empty(t, fresh.Unavailable)
	for seen := 1; page.NextPageToken != ""; seen++ {
		page, _ = read(t, h, list+"&pageToken="+page.NextPageToken)
		require.Len(t, page.Unavailable, 1)
		require.Contains(t, page.Unavailable[0].Reason, "request the list again")
		for _, u := range page.UTXOs {
			require.NotEqual(t, cID.String(), u.CreatedOnChainID)
			require.NotEqual(t, cID.String(), u.ConsumedOnChainID)
		}
	}
	require.Equal(t, []ledger.Pin{{ChainID: pID, Height: 1000}, {ChainID: xID, Height: 1000}}, f.askedOutputs.After.Pins)

	// It may also get worse: the rest of the list says so.
	page, _ = read(t, h, list)
	require.Empty(t, page.Unavailable)
	f.progress[xID] = stateSynced
	page, header := read(t, h, list+"&pageToken="+page.NextPageToken)
	require.Equal(t, "x-chain", header.Get("Indexed-Without"))
	require.Len(t, page.Unavailable, 1)
}

// The name of an asset is known if the index of the X-Chain has reached it. A denomination of 0 for
// others would be wrong.
func TestAssetsThatAreNotIndexedYet(t *testing.T) {
	f := newFake()
	f.outputs = append(f.outputs[:0:0], output(1, 0, func(o *ledger.Output) { o.AssetID = lost }), output(1, 1, nil), output(1, 2, func(o *ledger.Output) { o.AssetID = coin }))
	h := fuji(t, f)
	names := func() (all []map[string]any) {
		var body struct {
			UTXOs []struct{ Asset map[string]any }
		}
		w := apitest.Get(h, utxosPath)
		require.Equal(t, http.StatusOK, w.Code)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		for _, u := range body.UTXOs {
			all = append(all, u.Asset)
		}
		return all
	}
	for _, asset := range names() {
		require.Contains(t, asset, "denomination")
	}
	f.progress[xID] = data.Progress{Height: 7, Lag: 10}
	for _, asset := range names() {
		if asset["assetId"] == lost.String() {
			require.NotContains(t, asset, "name")
			require.NotContains(t, asset, "symbol")
			require.NotContains(t, asset, "denomination")
		} else {
			require.Contains(t, asset, "denomination")
		}
		require.Contains(t, asset, "amount")
	}
	requireError(t, apitest.Get(h, utxosPath, "User-Agent", generatedClient), 503, "the index of the x-chain is still catching up")
}
