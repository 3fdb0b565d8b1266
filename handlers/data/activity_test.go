package data_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/index/ledger"
	"quorate/internal/simnet/history"
)

// TestLastActivity compares the last activity of each address with the outputs that the generator made.
//
//test:plain
func TestLastActivity(t *testing.T) {
	a := simulatedArchive()
	n := a.network()
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	type place struct {
		on    history.Chain
		owner ids.ShortID
	}
	last := make(map[place]uint64)
	owners := make(map[ids.ShortID]bool)
	for o := range a.truth.Outputs() {
		for _, owner := range o.Addresses {
			owners[owner] = true
			last[place{o.Chain, owner}] = max(last[place{o.Chain, owner}], o.Height)
			if o.Spent != nil {
				last[place{o.Spent.Chain, owner}] = max(last[place{o.Spent.Chain, owner}], o.Spent.Height)
			}
		}
	}
	spelt := func(id ids.ShortID) string {
		return must(address.FormatBech32(constants.GetHRP(archivedNetwork), id[:]))
	}
	chains := map[history.Chain]string{history.P: "p-chain", history.X: "x-chain", history.C: "c-chain"}
	answers := make(map[string]int)
	for _, owner := range slices.SortedFunc(maps.Keys(owners), ids.ShortID.Compare) {
		for on, name := range chains {
			path := "/blockchains/" + name + "/lastActivityTimestampByAddresses?addresses=" + spelt(owner)
			height, ok := last[place{on, owner}]
			if !ok {
				requireError(t, apitest.Get(h, base+path), 404, "addresses: none of them has had an output on the "+name)
				answers["none"]++
				continue
			}
			got := answer(t, h, path)
			require.Equal(t, []any{fmt.Sprint(height), fmt.Sprint(a.blocks[on][height].Time.Unix()), name}, []any{
				got["blockNumber"], fmt.Sprint(got["timestamp"]), got["chainName"],
			}, "%s on the %s", owner, name)
			requireActivity(t, a, on, owner, height, got)
			answers[fmt.Sprint(name, got["isConsumed"])]++
		}
	}
	require.Len(t, answers, 6, "%v", answers)
}

// requireActivity requires that the output of an answer was made or consumed by its transaction in a block.
func requireActivity(t *testing.T, a *archived, on history.Chain, owner ids.ShortID, height uint64, got map[string]any) {
	t.Helper()
	for o := range a.truth.Outputs() {
		if o.ID.String() != got["utxoId"] {
			continue
		}
		require.Contains(t, o.Addresses, owner)
		if got["isConsumed"] == true {
			require.Equal(t, []any{on, height, o.Spent.TxID.String()}, []any{o.Spent.Chain, o.Spent.Height, got["txHash"]})
		} else {
			require.Equal(t, []any{on, height, o.TxID.String()}, []any{o.Chain, o.Height, got["txHash"]})
		}
		return
	}
	t.Errorf("no output has the ID %s", got["utxoId"])
}

// TestLastActivityOfBody requires the same answer as with the addresses in the query, and tests refusals.
func TestLastActivityOfBody(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	path := base + "/blockchains/p-chain/lastActivityTimestampByAddresses"
	post := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		return w
	}
	want := apitest.Get(h, path+"?addresses="+text(alice)+","+text(bob))
	require.Equal(t, http.StatusOK, want.Code, want.Body)
	require.Equal(t, want.Body.String(), post(`{"addresses":"P-`+text(alice)+`, `+text(bob)+`"}`).Body.String())
	requireError(t, post("{}"), 400, "addresses: is missing")
	requireError(t, apitest.Get(h, path), 400, "addresses: ")
	requireError(t, apitest.Get(h, path+"?addresses=nobody"), 400, "addresses: ")

	n := f.network()
	n.Ledger = withoutActivity{f}
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, path+"?addresses="+text(alice)), 503, "an older version")
	p := f.progress[cID]
	p.CaughtUp = false
	f.progress[cID] = p
	requireError(t, apitest.Get(h, path+"?addresses="+text(alice)), 503, "the index of the c-chain is still catching up")
}

// withoutActivity is a ledger that an older version began.
type withoutActivity struct{ *fake }

func (withoutActivity) LastActivity(context.Context, ids.ID, []ids.ShortID) (*ledger.Activity, error) {
	return nil, ledger.ErrNoActivity
}
