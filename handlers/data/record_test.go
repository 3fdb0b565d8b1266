package data_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/index/ledger/subnets"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// indexed is a network with a real index of outputs.
type indexed struct {
	t           *testing.T
	store       store.Store
	matcher     *ledger.Matcher
	projections map[ids.ID]*ledger.Projection
	subnets     subnets.Projection
	tip         map[ids.ID]*chain.Block
	surface     *echo.Echo
}

func newIndexed(t *testing.T, s store.Store) *indexed {
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := &indexed{t: t, store: s, matcher: ledger.NewMatcher(s, constants.FujiID, nil), projections: make(map[ids.ID]*ledger.Projection), tip: make(map[ids.ID]*chain.Block), subnets: subnets.NewProjection(constants.FujiID)}
	for _, id := range []ids.ID{pID, xID, cID} {
		r.projections[id] = ledger.NewProjection(constants.FujiID, id)
	}
	n := newFake().network()
	n.Ledger, n.Subnets = ledger.New(s, constants.FujiID), subnets.New(s, constants.FujiID)
	n.Rewards = &rewards{known: map[ids.ID]uint64{{3}: 1000, {4}: 1000}}
	n.Progress = func(_ context.Context, id ids.ID) data.Progress {
		tip := r.tip[id]
		if tip == nil {
			return data.Progress{}
		}
		return data.Progress{Height: tip.Height, Time: tip.Time, CaughtUp: true}
	}
	r.surface = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	return r
}

// block records the next block of a chain.
func (r *indexed) block(chainID ids.ID, at time.Time, txs ...chain.Tx) {
	r.t.Helper()
	b := &chain.Block{ChainID: chainID, Time: at, Txs: txs}
	if tip := r.tip[chainID]; tip != nil {
		b.Height = tip.Height + 1
	}
	b.ID = ids.ID{0xb1, byte(b.Height)}
	var batch store.Batch
	require.NoError(r.t, r.projections[chainID].Apply(r.t.Context(), r.store, b, &batch))
	if chainID == pID {
		require.NoError(r.t, r.subnets.Apply(r.t.Context(), r.store, b, &batch))
	}
	require.NoError(r.t, r.store.Commit(r.t.Context(), &batch))
	r.tip[chainID] = b
}

// makes is a transaction with outputs of alice's.
func makes(id ids.ID, kind chain.Kind, made ...chain.Output) chain.Tx {
	tx := chain.Tx{ID: id, Kind: kind, Made: made}
	for i := range tx.Made {
		o := &tx.Made[i]
		o.TxID, o.Index, o.AssetID, o.Kind, o.Addresses, o.Threshold = id, uint32(i), avx, chain.Transfer, []ids.ShortID{alice}, 1
		o.ID = (&avax.UTXOID{TxID: id, OutputIndex: o.Index}).InputID()
		if o.Role == 0 {
			o.Role = chain.Ordinary
		}
	}
	return tx
}

func input(tx chain.Tx, index int, source ids.ID) chain.Input {
	o := tx.Made[index]
	return chain.Input{OutputID: o.ID, SourceChainID: source, AssetID: o.AssetID, Amount: o.Amount}
}

func (r *indexed) get(path string) map[string]any {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.surface.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	require.Equal(r.t, http.StatusOK, w.Code, w.Body)
	var body map[string]any
	require.NoError(r.t, json.Unmarshal(w.Body.Bytes(), &body))
	return body
}

// TestRecord requests everything from a real index, while it grows, on every engine.
func TestRecord(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testRecord(t, store.NewMemory()) })
	t.Run("pebble", func(t *testing.T) {
		s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir()})
		require.NoError(t, err)
		testRecord(t, s)
	})
	t.Run("postgres", func(t *testing.T) {
		s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: pgserver.Run(t).URL()})
		require.NoError(t, err)
		testRecord(t, s)
	})
}

func testRecord(t *testing.T, s store.Store) {
	r := newIndexed(t, s)
	requireError(t, apitest.Get(r.surface, utxosPath), 503, "the index of the p-chain is still catching up")

	funds := makes(ids.ID{1}, chain.Unknown)
	for range 20 {
		funds.Made = append(funds.Made, chain.Output{Amount: 100, DestinationID: pID})
	}
	funds = makes(funds.ID, funds.Kind, funds.Made...)
	r.block(pID, ago(3*time.Hour), funds)
	r.block(xID, ago(3*time.Hour))
	require.Equal(t, "c-chain", apitest.Get(r.surface, utxosPath).Header().Get("Indexed-Without"))
	r.block(cID, ago(3*time.Hour))

	// Pages while blocks arrive: what is new does not show, what is there stays.
	seen := make(map[string]bool)
	token := ""
	for pages := 1; ; pages++ {
		body := r.get(utxosPath + "&includeSpent=true&pageSize=3&pageToken=" + token)
		for _, item := range body["utxos"].([]any) {
			id := item.(map[string]any)["utxoId"].(string)
			require.False(t, seen[id], "%s is there twice", id)
			seen[id] = true
		}
		r.block(pID, ago(2*time.Hour), makes(ids.ID{2, byte(pages)}, "BaseTx", chain.Output{Amount: 1, DestinationID: pID}))
		next, more := body["nextPageToken"].(string)
		if !more {
			require.Equal(t, 7, pages)
			break
		}
		token = next
	}
	require.Len(t, seen, 20)

	staker := chain.Staker{NodeID: nodeA, Weight: 60, Start: ago(time.Hour), End: now.Add(time.Hour), Shares: 25_000, RewardAddresses: []ids.ShortID{bob}}
	stakes := func(id byte, kind chain.Kind, from int) chain.Tx {
		tx := makes(ids.ID{id}, kind, chain.Output{Amount: 30, DestinationID: pID}, chain.Output{Amount: 60, DestinationID: pID, Role: chain.Stake})
		tx.Consumed = []chain.Input{input(funds, from, pID)}
		s := staker
		tx.Staker = &s
		return tx
	}
	validator, delegator := stakes(3, "AddPermissionlessValidatorTx", 0), stakes(4, "AddPermissionlessDelegatorTx", 1)
	delegator.Staker.Delegator, delegator.Staker.Shares = true, 0
	export := makes(ids.ID{5}, "ExportTx", chain.Output{Amount: 99, DestinationID: xID, Role: chain.Exported})
	export.Consumed = []chain.Input{input(funds, 2, pID)}
	r.block(pID, ago(time.Hour), validator, delegator, export)
	subnetID := ids.ID{9}
	changes := []chain.SubnetChange{
		{SubnetID: subnetID, Created: true, Owners: &chain.Owners{Addresses: []ids.ShortID{alice}, Threshold: 1}},
		{SubnetID: subnetID, Chain: &chain.Chain{VMID: ids.ID{'v'}, Name: "an L1", Genesis: []byte(evmGenesis)}},
		{SubnetID: subnetID, Owners: &chain.Owners{Addresses: []ids.ShortID{bob, carol}, Threshold: 2}},
		{SubnetID: subnetID, Conversion: &chain.Conversion{ManagerChainID: ids.ID{10}, ManagerAddress: []byte{0xab}}},
	}
	var txs []chain.Tx
	for i := range changes {
		txs = append(txs, chain.Tx{ID: ids.ID{9 + byte(i)}, Kind: chain.Unknown, Subnet: &changes[i]})
	}
	r.block(pID, now, txs...)

	balances := func(chainID, more string) map[string]any {
		return r.get(base + "/blockchains/" + chainID + "/balances?addresses=" + text(alice) + more)["balances"].(map[string]any)
	}
	sum := func(bucket any) any {
		entries := bucket.([]any)
		if len(entries) == 0 {
			return nil
		}
		require.Len(t, entries, 1)
		return entries[0].(map[string]any)["amount"]
	}
	held := balances("p-chain", "")
	require.Equal(t, "1767", sum(held["unlockedUnstaked"])) // 17 of 100, 2 of 30, 7 of 1
	require.Equal(t, "120", sum(held["unlockedStaked"]))
	require.Equal(t, "99", sum(held["atomicMemoryUnlocked"]))
	require.Equal(t, "99", sum(balances("x-chain", "")["atomicMemoryUnlocked"]))
	require.Equal(t, "2000", sum(balances("p-chain", "&blockTimestamp=1699992799")["unlockedUnstaked"]), "a second before there was more")

	arrival := makes(ids.ID{6}, "ImportTx", chain.Output{Amount: 98, DestinationID: xID})
	arrival.Consumed = []chain.Input{input(export, 0, pID)}
	r.block(xID, now, arrival)
	require.NoError(t, r.matcher.Settle(t.Context()))
	require.Nil(t, sum(balances("p-chain", "")["atomicMemoryUnlocked"]))
	require.Equal(t, "98", sum(balances("x-chain", "")["unlocked"]))

	list := r.get(stakings)["transactions"].([]any)
	require.Len(t, list, 2)
	for _, one := range list {
		tx := one.(map[string]any)
		require.Equal(t, "90", sum(tx["value"]))
		require.Equal(t, "60", sum(tx["amountStaked"]))
		require.Equal(t, "10", sum(tx["amountBurned"]))
		require.Equal(t, "1000", tx["estimatedReward"])
	}
	delegators := r.get(base + "/delegators?rewardAddresses=" + text(bob))["delegators"].([]any)
	require.Len(t, delegators, 1)
	d := delegators[0].(map[string]any)
	require.Equal(t, []any{"active", "2.5", "1000", "975"}, []any{d["delegationStatus"], d["delegationFee"], d["estimatedGrossReward"], d["netReward"]})

	oldest := r.get(subnetsURL + "&pageSize=1&sortOrder=asc")
	require.Equal(t, ids.Empty.String(), oldest["subnets"].([]any)[0].(map[string]any)["subnetId"])
	rest := r.get(subnetsURL + "&sortOrder=asc&pageToken=" + oldest["nextPageToken"].(string))
	require.NotContains(t, rest, "nextPageToken")
	require.Len(t, rest["subnets"], 1)
	l1 := rest["subnets"].([]any)[0].(map[string]any)
	require.Equal(t, []any{subnetID.String(), true, ids.ID{12}.String(), []any{text(bob), text(carol)}},
		[]any{l1["subnetId"], l1["isL1"], l1["l1ConversionTransactionHash"], l1["ownerAddresses"]})
	blockchain := l1["blockchains"].([]any)[0].(map[string]any)
	require.EqualValues(t, 43113, blockchain["evmChainId"])
	require.Equal(t, ids.ID{10}.String(), blockchain["blockchainId"])

	// A token may be sound and lead nowhere.
	requireError(t, apitest.Get(r.surface, stakings+"&pageToken="+token), 400, "pageToken: ")
}
