package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// A node with default settings state-syncs its C-Chain and keeps no index. What its P-Chain
// and X-Chain decide is served, what is missing has a reason everywhere, and nothing has to be
// restarted when another node takes its place.
func TestDefaultNode(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 41, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 600, EarlyTxs: 60, Record: true}, Dir: t.TempDir(),
	}})
	node := n.History()
	node.Run(history.NodeSettings{StateSynced: node.Height(history.C) - 5, NoIndex: true})
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	defer s.stop(t)
	const synced = "block 1 is not available from the node: it was state-synced; set state-sync-enabled to false in its C-Chain config and resync, or use another node"
	awaitStatus(t, s, fmt.Sprintf("fuji P: following, %d blocks indexed, 0 to go", node.Height(history.P)+1))
	awaitStatus(t, s, fmt.Sprintf("fuji C: waiting, 1 blocks indexed, %d to go, failing for ", node.Height(history.C)))
	awaitStatus(t, s, ": fetching blocks: "+synced)
	awaitStatus(t, s, "fuji X: following")
	require.Equal(t, 1, strings.Count(s.log.String(), "state-sync-enabled to false in its C-Chain config"), "%s", s.log)

	var ready struct {
		Networks map[string]struct {
			Ready   bool
			Waiting map[string]string
		}
	}
	require.Equal(t, http.StatusOK, getJSON(t, s.private+"/readyz", &ready))
	require.True(t, ready.Networks["fuji"].Ready, "signing needs no index")
	require.Contains(t, ready.Networks["fuji"].Waiting["C"], synced)
	require.NotContains(t, ready.Networks["fuji"].Waiting, "X", "validators have the vertices that the node does not index")
	_, metrics := ask(t, "GET", s.private+"/metrics", "")
	require.Contains(t, metrics, `quorate_index_state{chain="C",network="fuji",state="waiting"} 1`)
	require.Contains(t, metrics, `quorate_index_failing{chain="C",network="fuji",what="fetching blocks"} 1`)

	owners := ownersOf(node.Generator().Truth())
	for _, owner := range owners {
		got := s.owned(t, "p-chain", owner.text)
		require.Equal(t, owner.unspent(history.X), got.ids(), "%s", owner.text)
		require.Len(t, got.Unavailable, 1)
		require.Equal(t, []string{"INDEX_LACKS_SOURCE", "the c-chain is not indexed: " + synced}, []string{got.Unavailable[0].Code, got.Unavailable[0].Reason})
		held := s.held(t, owner.text)
		require.Contains(t, held.Balances, "unlockedUnstaked")
		require.Len(t, held.Unavailable, 1)
	}
	base := "/v1/networks/fuji/"
	for path, want := range map[string]int{
		"subnets": 200, "delegators": 200, "blockchains/p-chain/transactions:listStaking?addresses=" + owners[0].text: 200,
		"blockchains/x-chain/utxos?addresses=" + owners[0].text: 200, "blockchains/c-chain/utxos?addresses=" + owners[0].text: 503,
		"blockchains/x-chain/balances?addresses=" + owners[0].text: 200, "blockchains/c-chain/balances?addresses=" + owners[0].text: 503,
	} {
		status, body := s.ask(t, base+path)
		require.Equal(t, want, status, "%s: %s", path, body)
		if want == http.StatusServiceUnavailable {
			require.Contains(t, body, `"code":"INDEX_LACKS_SOURCE"`, path)
			require.NotContains(t, body, "try again later", path)
		}
	}

	// A node that has everything takes its place.
	node.Run(history.NodeSettings{})
	awaitStatus(t, s, "fuji C: following")
	awaitStatus(t, s, "fuji X: following")
	for _, owner := range owners {
		got := s.owned(t, "p-chain", owner.text)
		require.Empty(t, got.Unavailable)
		require.Equal(t, owner.unspent(history.X, history.C), got.ids(), "%s", owner.text)
		require.Contains(t, s.held(t, owner.text).Balances, "atomicMemoryUnlocked")
	}
}

// owner is who owns outputs alone, as the simulated network knows them.
type owner struct {
	text    string
	outputs []*history.Output
}

// unspent returns the sorted IDs of the unspent outputs that the P-Chain lists: its own, and
// those between it and the others.
func (o owner) unspent(others ...history.Chain) []string {
	var all []string
	for _, out := range o.outputs {
		isKnown := func(c history.Chain) bool { return c == history.P || slices.Contains(others, c) }
		isListed := out.Chain == history.P || out.Destination == history.P
		if out.Spent == nil && isListed && isKnown(out.Chain) && isKnown(out.Destination) {
			all = append(all, out.ID.String())
		}
	}
	slices.Sort(all)
	return all
}

// ownersOf returns some who have outputs of each kind: on the P-Chain and between it and others.
func ownersOf(truth *history.Truth) []owner {
	byText := make(map[string]*owner)
	for o := range truth.Outputs() {
		if len(o.Addresses) != 1 || o.Threshold != 1 {
			continue
		}
		text, err := address.FormatBech32(constants.GetHRP(simnet.DefaultNetworkID), o.Addresses[0][:])
		if err != nil {
			panic(err)
		}
		if byText[text] == nil {
			byText[text] = &owner{text: text}
		}
		byText[text].outputs = append(byText[text].outputs, o)
	}
	var some []owner
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		one := *byText[text]
		if own, all := one.unspent(), one.unspent(history.X, history.C); len(some) < 5 && len(own) > 0 && len(all) > len(own) && len(all) <= 100 {
			some = append(some, one)
		}
	}
	return some
}

type ownedOutputs struct {
	UTXOs []struct {
		UTXOID string
		// Threshold and Addresses tell outputs of several owners.
		Addresses []string
	}
	Unavailable []struct{ Code, Reason string }
}

// ids returns the IDs of the outputs with one owner, sorted.
func (o ownedOutputs) ids() []string {
	var all []string
	for _, u := range o.UTXOs {
		if len(u.Addresses) == 1 {
			all = append(all, u.UTXOID)
		}
	}
	slices.Sort(all)
	return all
}

func (s *instance) owned(t *testing.T, chain, address string) (got ownedOutputs) {
	t.Helper()
	path := "/v1/networks/fuji/blockchains/" + chain + "/utxos?pageSize=100&addresses=" + address
	require.Equal(t, http.StatusOK, getJSON(t, s.base+path, &got), path)
	return got
}

type heldAmounts struct {
	Balances    map[string]any
	Unavailable []struct{ Code, Reason string }
}

func (s *instance) held(t *testing.T, address string) (got heldAmounts) {
	t.Helper()
	path := "/v1/networks/fuji/blockchains/p-chain/balances?addresses=" + address
	require.Equal(t, http.StatusOK, getJSON(t, s.base+path, &got), path)
	return got
}
